"""Service calls that get no answer, or that nobody may wait for any longer."""

import time

import pytest

pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
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


def call(peer, timeout_s, check=lambda: None, waiting=lambda *_: None, repeat_s=None):
    """The service ``work`` through a client of the peer itself."""
    caller = ServiceCaller(peer.node, check, waiting)
    client = caller.client(Trigger, 'work')
    return caller.call(client, Trigger.Request(), timeout_s, repeat_s)


class Server:
    """The service ``work``; answers the requests after the first ``deaf`` ones."""

    def __init__(self, peer, deaf=0):
        self.requests = 0
        self._deaf = deaf
        # Reentrant: a request that is never answered does not keep out the next one.
        group = ReentrantCallbackGroup()
        peer.node.create_service(Trigger, 'work', self._serve, callback_group=group)

    async def _serve(self, request, response):
        self.requests += 1
        if self.requests <= self._deaf:
            await Future()
        response.success, response.message = True, 'done'
        return response


def test_the_answer_comes_back(peer):
    Server(peer)
    assert call(peer, 10.0).message == 'done'


def test_an_answer_that_got_lost_is_asked_for_again(peer):
    server = Server(peer, deaf=2)
    assert call(peer, 10.0, repeat_s=0.4).message == 'done'
    assert server.requests == 3


def test_a_request_that_must_not_be_carried_out_twice_is_sent_once(peer):
    server = Server(peer, deaf=1)
    with pytest.raises(ProcessError, match='the answer of work: nothing within 1 s'):
        call(peer, 1.2)
    assert server.requests == 1


def test_a_service_that_is_not_there_is_named_after_the_time_limit(peer):
    with pytest.raises(ProcessError, match='service work: nothing within 1 s'):
        call(peer, 0.6)


def test_a_process_that_dies_ends_the_wait_at_once(peer):
    def check():
        raise ProcessError('the node ended by itself')

    begin_s = time.monotonic()
    with pytest.raises(ProcessError, match='ended by itself'):
        call(peer, 30.0, check)
    assert time.monotonic() - begin_s < 5.0


def test_a_long_wait_is_reported_every_second(peer):
    told = []
    with pytest.raises(ProcessError):
        call(peer, 2.5, waiting=lambda what, seconds: told.append((what, round(seconds))))
    assert told == [('service work', 1), ('service work', 2)]


def test_an_unknown_node_is_an_error_that_names_its_service(peer):
    with pytest.raises(ProcessError, match='service /nobody/get_state'):
        peer.remote('/nobody').state(0.6)
