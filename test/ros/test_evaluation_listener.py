"""What the listener of an evaluation keeps, heard through real topics."""

import math

import pytest

pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from fake_policy import FakePolicy, make_chunk
from ros_support import Peer, wait_for

from rmuscle_ros.msg import ActionChunk, CacheStatus, EpisodeResult
from rmuscle_ros.ros import diagnostics
from rmuscle_ros.ros.conversions import chunk_message
from rmuscle_ros.ros.evaluation.listener import CallListener
from rmuscle_ros.ros.qos import latched_qos
from rmuscle_ros.ros.shares import ShareCounts

pytestmark = [pytest.mark.ros, pytest.mark.timeout(60)]


class Stage:
    """A listener to ``/policy``, and the nodes it hears, played by the test."""

    def __init__(self, peer):
        self.listener = CallListener(peer.node, '/station', '/policy')
        create = peer.node.create_publisher
        self.chunks = create(ActionChunk, '/policy/action_chunk', 10)
        self.status = create(CacheStatus, '/policy/status', 10)
        self.results = create(EpisodeResult, '/station/episode_result', latched_qos())
        self.diagnostics = create(DiagnosticArray, '/diagnostics', 10)
        publishers = (self.chunks, self.status, self.results, self.diagnostics)
        wait_for(lambda: all(p.get_subscription_count() for p in publishers), 'the topics')

    def call(self, number):
        self.chunks.publish(chunk_message(make_chunk(1.0, call=number), skipped_rows=0))

    def shadow(self, call, error):
        message = CacheStatus(shadow_call_last=call, shadow_error_last=error)
        message.shadow_spread_p50 = math.nan if math.isnan(error) else 0.05
        self.status.publish(message)


@pytest.fixture
def stage(ros_domain_id):
    peer = Peer(ros_domain_id)
    yield Stage(peer)
    peer.close()


def test_calls_count_from_the_beginning_to_the_verdict(stage):
    stage.call(0)
    wait_for(lambda: stage.listener._chunk, 'a call before the episode')
    stage.listener.begin()
    for number in (1, 2):
        stage.call(number)
    wait_for(lambda: stage.listener.calls() == 2, 'the calls')
    stage.results.publish(EpisodeResult(seed=7, success=True, steps=160))
    wait_for(lambda: stage.listener.result(7), 'the verdict')
    assert stage.listener.result(8) is None
    stage.call(3)
    wait_for(lambda: stage.listener._chunk.call == 3, 'a call after the verdict')
    assert [call.call for call in stage.listener.finish()] == [1, 2]
    assert stage.listener.finish() == ()


def test_shadow_mode_tells_the_error_of_a_call_by_its_number(stage):
    stage.shadow(0, math.nan)
    stage.shadow(4, 0.02)
    stage.shadow(4, 0.02)
    stage.shadow(9, 0.03)
    wait_for(lambda: stage.listener.error(9) is not None, 'the errors')
    assert (stage.listener.error(4), stage.listener.error(9)) == (0.02, 0.03)
    # Before the first shadow a message names call 0.
    assert stage.listener.error(0) is None
    assert stage.listener.spread_p50() == 0.05


def test_the_policy_is_known_by_its_diagnostics_and_chunks(stage):
    expected = FakePolicy().info
    assert stage.listener.info() is None
    section = diagnostics.policy_section(expected, FakePolicy().status(), ShareCounts({}))
    values = [KeyValue(key=key, value=value) for key, value in section.values.items()]
    own = DiagnosticStatus(name='/policy: policy', values=values)
    other = DiagnosticStatus(name='/other: policy', values=[KeyValue(key='model', value='x')])
    stage.diagnostics.publish(DiagnosticArray(status=[own, other]))
    stage.call(1)
    assert wait_for(stage.listener.info, 'the description') == expected
