"""The success rules, on sequences of rewards."""

import pytest

from rmuscle_ros.errors import ConfigError
from rmuscle_ros.sim.tasks import TASKS, SuccessJudge, find_task


def judged(name, rewards):
    judge = SuccessJudge(TASKS[name])
    outcomes = []
    for reward in rewards:
        judge.observe(reward)
        outcomes.append(judge.success)
    return judge, outcomes


def test_transfer_counts_once_the_cube_was_handed_over():
    judge, outcomes = judged('transfer_cube', [0, 1, 2, 3, 4, 0])
    assert outcomes == [False, False, False, False, True, True]
    assert judge.max_reward == 4


def test_lift_counts_while_the_cube_is_held():
    _, outcomes = judged('lift_cube', [1] * 30 + [2] * 20 + [0, 3] * 5 + [0])
    assert outcomes.index(True) == 49
    assert outcomes[49:] == [True] * 11 + [False]


def test_a_short_lift_does_not_count():
    _, outcomes = judged('lift_cube', [2] * 19 + [1] * 30)
    assert not any(outcomes)


@pytest.mark.parametrize('name', TASKS)
def test_tasks_are_found_by_name_and_say_what_to_do(name):
    assert find_task(name).name == name
    assert 'red cube' in find_task(name).instruction


def test_instructions_differ():
    assert len({task.instruction for task in TASKS.values()}) == len(TASKS)


def test_unknown_task():
    with pytest.raises(ConfigError, match='expected one of transfer_cube, lift_cube'):
        find_task('fold_shirt')
