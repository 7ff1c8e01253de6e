"""Shadow mode for the operator, without ROS: when it warns and when it logs."""

from rmuscle_ros.ros.faults import SHADOW, Faults, Level
from rmuscle_ros.ros.shadow import LOG_PERIOD_S, ShadowWatch
from rmuscle_ros.types import ShadowStatus


class Log:
    def __init__(self):
        self.faults, self.lines = [], []
        self.watch_faults = Faults(lambda level, text: self.faults.append((level, text)))
        self.watch = ShadowWatch(self.watch_faults, self.lines.append)


def test_a_crossing_warns_once_and_its_end_is_told():
    log = Log()
    stale = ShadowStatus(runs=9, warning='stale: record new ones')
    for second in range(3):
        log.watch.update(stale, second)
    assert log.faults == [(Level.WARN, 'shadow: stale: record new ones')]
    assert log.watch_faults.level(SHADOW, 'stale') is Level.WARN
    log.watch.update(ShadowStatus(runs=10), 3.0)
    assert log.faults[1][0] is Level.OK
    assert log.watch_faults.level(SHADOW, 'stale') is Level.OK


def test_figures_are_logged_rarely_and_only_when_there_are_new_ones():
    log = Log()
    log.watch.update(ShadowStatus(), 0.0)
    assert not log.lines
    figures = {'recent_p50': 0.0217, 'max': 0.0553, 'spread_p50': 0.0534}
    log.watch.update(ShadowStatus(runs=2, **figures), 1.0)
    assert log.lines == [
        'shadow mode: 2 cached calls rerun densely; action error, normalised units: '
        'median 0.022, max 0.055, spread of the policy 0.053'
    ]
    log.watch.update(ShadowStatus(runs=7, **figures), LOG_PERIOD_S)
    assert len(log.lines) == 1
    log.watch.update(ShadowStatus(runs=7, **figures), 1.0 + LOG_PERIOD_S)
    log.watch.update(ShadowStatus(runs=7, **figures), 3 * LOG_PERIOD_S)
    assert len(log.lines) == 2 and log.lines[1].startswith('shadow mode: 7 ')
