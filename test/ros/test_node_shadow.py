"""Shadow mode through the node: status message, diagnostics, log and parameters."""

from __future__ import annotations

import math

import pytest

pytest.importorskip('rclpy')

from fake_policy import FakePolicy
from node_harness import running, wait_for
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter

from rmuscle_ros.types import ShadowedReference, ShadowRecord, ShadowStatus

pytestmark = pytest.mark.ros
WARN = 1
FOUND = ShadowStatus(
    runs=120,
    skipped=7,
    p50=0.02,
    p99=0.3,
    max=0.4,
    recent_p50=0.15,
    spread_p50=0.05,
    last=ShadowRecord(599, 'old/3', 0.93, 0.4, error=0.25, largest=0.8),
    references=(
        ShadowedReference('old', 30, 0.2, 0.4),
        ShadowedReference('new', 1, None, 0.01),
    ),
    warning='stale: record new ones',
)


def values(robot) -> dict[str, str]:
    status = robot.diagnostics.get('/rmuscle: shadow')
    return {} if status is None else {item.key: item.value for item in status.values}


def test_the_status_carries_the_figures_and_nan_before_there_are_any(ros_domain_id):
    policy = FakePolicy()
    with running(ros_domain_id, policy, {'shadow.every': 3}) as (_, robot):
        assert robot.change('configure')
        empty = wait_for(lambda: robot.statuses[-1:], 'status')[0]
        assert empty.shadow_every == 3 and empty.shadow_runs == 0
        for name in ('last', 'p50', 'p99', 'max', 'recent_p50'):
            assert math.isnan(getattr(empty, f'shadow_error_{name}'))
        assert math.isnan(empty.shadow_spread_p50)
        assert not empty.shadow_references and empty.shadow_warning == ''
        policy.shadow = FOUND
        wait_for(lambda: robot.statuses[-1].shadow_runs == 120, 'status with figures')
        full = robot.statuses[-1]
        assert full.shadow_skipped == 7 and full.shadow_warn_error == 0.1
        assert (full.shadow_error_last, full.shadow_error_p50) == (0.25, 0.02)
        assert (full.shadow_error_p99, full.shadow_error_max) == (0.3, 0.4)
        assert (full.shadow_error_recent_p50, full.shadow_spread_p50) == (0.15, 0.05)
        assert full.shadow_references == ['old', 'new']
        assert full.shadow_reference_error_p50[0] == 0.2
        assert math.isnan(full.shadow_reference_error_p50[1])
        assert full.shadow_warning == 'stale: record new ones'


def test_diagnostics_warn_while_the_references_are_stale_and_the_log_says_so(ros_domain_id, capfd):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (_, robot):
        assert robot.change('configure')
        wait_for(lambda: robot.level('shadow') == 0, 'diagnostics without a fault')
        policy.shadow = FOUND
        wait_for(lambda: robot.level('shadow') == WARN, 'warning')
        assert robot.text('shadow') == 'stale: record new ones'
        assert robot.level('policy') == 0
        shown = values(robot)
        assert (shown['runs'], shown['error_recent_p50']) == ('120', '0.150')
        assert shown['error_share_of_spread'] == '3.000'
        assert shown['error_p50.old'] == '0.200 over 30'
        assert shown['error_p50.new'] == 'none over 1'
        assert shown['last_reference'] == 'old/3'
        policy.shadow = ShadowStatus(runs=121)
        wait_for(lambda: robot.level('shadow') == 0, 'end of the warning')
    log = capfd.readouterr().err
    assert log.count('[WARN]') and log.count('shadow: stale: record new ones') == 1
    assert 'shadow: over: stale' in log
    assert 'shadow mode: 120 cached calls rerun densely' in log


def test_shadow_parameters_are_live(ros_domain_id):
    policy = FakePolicy()
    with running(ros_domain_id, policy) as (_, robot):
        assert robot.change('configure')
        for name, value in (('shadow.every', 0), ('shadow.warn_error', 0.2)):
            request = SetParameters.Request(
                parameters=[Parameter(name, value=value).to_parameter_msg()]
            )
            assert robot.call(SetParameters, 'set_parameters', request).results[0].successful
        assert policy.tuned == {'shadow_every': 0, 'shadow_warn_error': 0.2}
        wait_for(lambda: robot.statuses and robot.statuses[-1].shadow_every == 0, 'status')
        wait_for(lambda: robot.statuses[-1].shadow_warn_error == 0.2, 'status')
