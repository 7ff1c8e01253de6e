"""Waiting for a node's background work, as its status topic tells of it."""

import threading
import time

import pytest

pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')

from ros_support import Peer, wait_for

from rmuscle_ros.msg import CacheStatus
from rmuscle_ros.ros.episode_driver import Background
from rmuscle_ros.ros.service_calls import ServiceCaller

pytestmark = [pytest.mark.ros, pytest.mark.timeout(60)]


class Stage:
    """A node's background as the test publishes it, and someone who waits for it."""

    def __init__(self, peer):
        self._background = Background(peer.node, '/policy')
        self._caller = ServiceCaller(peer.node, lambda: None, lambda *_: None)
        self._publisher = peer.node.create_publisher(CacheStatus, '/policy/status', 10)
        wait_for(self._publisher.get_subscription_count, 'the subscription')

    def publish(self, **fields):
        self._publisher.publish(CacheStatus(**fields))

    def wait(self, limit_s):
        """A thread that waits, and the list that takes its answer."""
        answers = []

        def run():
            answers.append(self._background.wait(self._caller, 'the work', limit_s))

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.1)
        return thread, answers


@pytest.fixture
def stage(ros_domain_id):
    peer = Peer(ros_domain_id)
    yield Stage(peer)
    peer.close()


def test_it_ends_when_nothing_is_left_to_do(stage):
    stage.publish()
    time.sleep(0.3)
    thread, answers = stage.wait(20.0)
    stage.publish(rebuild_jobs=1)
    stage.publish(rebuild_pending=2)
    thread.join(0.5)
    assert thread.is_alive(), 'one status from before and two of work to do'
    stage.publish()
    thread.join(5.0)
    assert answers == [True]


def test_a_single_status_may_still_be_of_the_time_before(stage):
    thread, answers = stage.wait(1.0)
    stage.publish()
    thread.join(0.5)
    assert thread.is_alive()
    thread.join(5.0)
    # In the end that one status is all there is.
    assert answers == [True]


def test_it_gives_up_when_the_work_does_not_end(stage):
    thread, answers = stage.wait(0.5)
    for _ in range(3):
        stage.publish(rebuild_jobs=1)
    thread.join(5.0)
    assert answers == [False]
