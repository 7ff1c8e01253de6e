"""When an episode begins and ends."""

from rmuscle_ros.ros.station.episode import SUCCESS_STEPS, Episode


def run(episode, successes, begin_s=10.0, period_s=0.02):
    """Outcomes of control steps with the given task verdicts."""
    return [
        episode.step(begin_s + period_s * i, success, max_reward=2)
        for i, success in enumerate(successes, start=1)
    ]


def test_nothing_ends_before_the_first_trajectory():
    episode = Episode(seed=3, length_s=0.1)
    assert run(episode, [True] * 50) == [None] * 50
    assert not episode.running


def test_time_runs_from_the_first_trajectory():
    episode = Episode(seed=3, length_s=0.09)
    episode.begin(10.0)
    episode.begin(10.08)
    outcomes = run(episode, [False] * 8)
    assert [outcome is not None for outcome in outcomes] == [False] * 4 + [True] + [False] * 3
    assert (outcomes[4].seed, outcomes[4].success, outcomes[4].steps) == (3, False, 5)
    assert outcomes[4].max_reward == 2


def test_success_must_be_held():
    episode = Episode(seed=0, length_s=100.0)
    episode.begin(10.0)
    almost = [True] * (SUCCESS_STEPS - 1)
    outcomes = run(episode, [*almost, False, *almost, True])
    assert outcomes[:-1] == [None] * (2 * SUCCESS_STEPS - 1)
    assert outcomes[-1].success


def test_an_episode_ends_only_once():
    episode = Episode(seed=0, length_s=100.0)
    episode.begin(10.0)
    outcomes = run(episode, [True] * (3 * SUCCESS_STEPS))
    assert sum(outcome is not None for outcome in outcomes) == 1
    assert not episode.running
