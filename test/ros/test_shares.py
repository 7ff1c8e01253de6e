"""Which shares of the rows were recomputed lately, counted and published."""

import dataclasses
import math

import pytest
from fake_policy import FakePolicy, make_chunk

from rmuscle_ros.ros.shares import HISTORY, RecentShares, ShareCounts
from rmuscle_ros.types import Mode, Provenance, Reason


def call(reason: Reason, rho_p: float | None = None) -> Provenance:
    mode = Mode.CACHED if reason is Reason.CACHED else Mode.DENSE
    origin = make_chunk(0.0).provenance
    return dataclasses.replace(origin, mode=mode, reason=reason, rho_p=rho_p)


def counted(*calls: Provenance) -> ShareCounts:
    shares = RecentShares()
    for each in calls:
        shares.note(each)
    return shares.count()


def test_only_calls_that_came_to_a_share_are_counted():
    cached = [call(Reason.CACHED, share) for share in (0.6, 0.2, 0.6)]
    dense = [call(reason) for reason in Reason if reason is not Reason.CACHED]
    found = counted(*cached, *dense)
    assert found == ShareCounts({0.2: 1, 0.6: 2}, over_budget=1)
    assert str(found) == '0.2: 1, 0.6: 2'


def test_before_the_first_call_there_is_nothing():
    assert counted() == ShareCounts({})
    assert str(counted()) == 'none'


def test_old_calls_are_forgotten():
    calls = [call(Reason.OVER_BUDGET), *[call(Reason.CACHED, 0.4)] * HISTORY]
    assert counted(*calls) == ShareCounts({0.4: HISTORY}, over_budget=0)


@pytest.mark.ros
def test_the_status_message_tells_them_beside_the_guard():
    pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')
    from builtin_interfaces.msg import Time

    from rmuscle_ros.ros import diagnostics

    status = dataclasses.replace(FakePolicy().status(), guard_slope=0.25)
    shares = ShareCounts({0.2: 1, 0.6: 2}, over_budget=3)
    cache = {'guard': True, 'error_budget': 0.02, 'rho_p': 0.2, 'rho_n': 0.0}
    message = diagnostics.status_message(Time(), status, cache, shares, 'lift')
    assert list(message.recent_rho_p) == [0.2, 0.6]
    assert list(message.recent_rho_p_calls) == [1, 2]
    assert message.recent_over_budget == 3
    assert (message.guard, message.error_budget, message.guard_slope) == (True, 0.02, 0.25)
    values = diagnostics.policy_section(FakePolicy().info, status, shares).values
    assert (values['guard_slope'], values['recent_over_budget']) == ('0.250', '3')
    assert values['recent_rho_p'] == '0.2: 1, 0.6: 2'
    unknown = diagnostics.status_message(Time(), FakePolicy().status(), cache, shares, 'lift')
    assert math.isnan(unknown.guard_slope)
