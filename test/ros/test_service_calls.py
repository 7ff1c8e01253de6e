"""Service calls that get no answer, or that nobody may wait for any longer."""

import time

import pytest

pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')

from ros_support import Peer
from std_srvs.srv import Trigger

from rmuscle_ros.errors import ProcessError
from rmuscle_ros.ros.service_calls import ServiceCaller

pytestmark = [pytest.mark.ros, pytest.mark.timeout(60)]


@pytest.fixture
def peer(ros_domain_id):
    peer = Peer(ros_domain_id)
    yield peer
    peer.close()


def caller(peer, check=lambda: None, waiting=lambda *_: None):
    return ServiceCaller(peer.node, check, waiting)


def answer(request, response):
    response.success, response.message = True, 'done'
    return response


def test_the_answer_comes_back(peer):
    peer.node.create_service(Trigger, 'work', answer)
    response = caller(peer).call(Trigger, 'work', Trigger.Request(), 10.0)
    assert response.message == 'done'


def test_a_service_that_is_not_there_is_named_after_the_time_limit(peer):
    with pytest.raises(ProcessError, match='service work: nothing within 0 s'):
        caller(peer).call(Trigger, 'work', Trigger.Request(), 0.3)


def test_a_process_that_dies_ends_the_wait_at_once(peer):
    def check():
        raise ProcessError('the node ended by itself')

    begin_s = time.monotonic()
    with pytest.raises(ProcessError, match='ended by itself'):
        caller(peer, check).call(Trigger, 'work', Trigger.Request(), 30.0)
    assert time.monotonic() - begin_s < 5.0


def test_a_long_wait_is_reported_every_second(peer):
    told = []
    with pytest.raises(ProcessError):
        caller(peer, waiting=lambda what, seconds: told.append((what, round(seconds)))).call(
            Trigger, 'work', Trigger.Request(), 2.5
        )
    assert told == [('service work', 1), ('service work', 2)]


def test_an_unknown_node_is_an_error_that_names_its_service(peer):
    with pytest.raises(ProcessError, match='/nobody/get_state'):
        peer.remote('/nobody').state(0.3)
