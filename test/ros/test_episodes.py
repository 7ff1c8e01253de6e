"""The end of an episode that nobody announces."""

from __future__ import annotations

from rmuscle_ros.ros.episodes import EpisodeWatch
from rmuscle_ros.ros.settings import EpisodeSettings


def test_switched_off_by_default():
    watch = EpisodeWatch(EpisodeSettings())
    assert watch.update(0.0, {'a': 0.0}) is None
    assert watch.update(1e6, {'a': 3.0}) is None
    assert watch.update(2e6, {'a': 0.0}) is None


def test_timeout_counts_from_the_first_update_and_again_after_each_end():
    watch = EpisodeWatch(EpisodeSettings(timeout_s=10.0))
    ends = [time_s for time_s in range(100, 131) if watch.update(float(time_s), None)]
    assert ends == [110, 120, 130]


def test_returning_home_ends_an_episode_only_after_having_left():
    watch = EpisodeWatch(EpisodeSettings(home_tolerance_rad=0.1))
    path = [0.0, 0.05, 0.15, 0.05, 0.25, 0.15, 0.05, 0.0, 0.3, 0.02]
    found = [watch.update(float(i), {'a': 1.0 + q, 'b': 2.0}) for i, q in enumerate(path)]
    assert [i for i, reason in enumerate(found) if reason] == [6, 9]
    assert 'back home' in found[6]


def test_restart_takes_home_anew():
    watch = EpisodeWatch(EpisodeSettings(home_tolerance_rad=0.1))
    watch.update(0.0, {'a': 0.0})
    watch.update(1.0, {'a': 1.0})
    watch.restart()
    assert watch.update(2.0, {'a': 1.0}) is None
    assert watch.update(3.0, {'a': 0.0}) is None
    assert watch.update(4.0, {'a': 1.0})


def test_missing_joint_states_do_not_matter():
    watch = EpisodeWatch(EpisodeSettings(home_tolerance_rad=0.1))
    assert watch.update(0.0, None) is None
