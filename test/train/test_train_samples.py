"""Which frames make up a batch, and what they are labelled with."""

import numpy as np
import pytest
from training_fixtures import DATA, MINI, SETTINGS, demonstration, write_dataset

from rmuscle_ros.errors import ConfigError, DatasetError
from rmuscle_ros.sim.tasks import TASKS
from rmuscle_ros.train.samples import Samples


@pytest.fixture(scope='module')
def samples(dataset):
    return Samples(dataset, DATA, MINI.horizon, SETTINGS)


def pictures(batches):
    return [batch.images.numpy().tobytes() for batch in batches]


def test_a_batch_depends_on_the_step_alone(dataset, samples):
    again = Samples(dataset, DATA, MINI.horizon, SETTINGS)
    assert pictures(samples.batches(9)) == pictures(again.batches(9))
    assert pictures(samples.batches(9)) != pictures(samples.batches(10))


def test_workers_divide_the_batch(samples):
    whole = list(samples.batches(9))
    parts = [list(samples.batches(9, worker, 3)) for worker in range(3)]
    for task, batch in enumerate(whole):
        rows = sorted(row.numpy().tobytes() for row in batch.states)
        found = sorted(row.numpy().tobytes() for part in parts for row in part[task].states)
        assert rows == found
    assert [len(batch.states) for batch in whole] == [8, 2]
    assert [batch.instruction for batch in whole] == [task.instruction for task in TASKS.values()]


def test_only_early_frames_until_the_flow_begins(samples):
    begin = SETTINGS.look_steps + SETTINGS.blind_steps
    frames = samples.tasks[0]
    early = {row.tobytes() for row in frames.states[frames.steps < SETTINGS.early_steps]}

    def share_of_early(steps):
        rows = [
            row.numpy().tobytes() for step in steps for row in next(samples.batches(step)).states
        ]
        return np.mean([row in early for row in rows])

    assert share_of_early(range(begin)) == 1.0
    expected = len(early) * SETTINGS.early_weight
    expected /= expected + len(frames) - len(early)
    assert share_of_early(range(begin, begin + 100)) == pytest.approx(expected, abs=0.07)


def test_labels_are_the_plan_from_the_observation_on_and_hold_its_end(samples):
    frames = samples.tasks[0]
    plan = demonstration(seed=0).plan
    assert list(frames.steps[:6]) == [0, 50, 100, 150, 200, 250]
    targets = frames.targets(np.arange(6))
    assert np.array_equal(targets[1], plan[50:57])
    assert np.array_equal(targets[5], np.repeat(plan[-1:], 7, axis=0))


def test_validation_episodes_are_not_trained_on(samples):
    trained = {state.tobytes() for frames in samples.tasks for state in frames.states}
    assert len(samples.validation) == 2 * 6
    assert not trained & {state.tobytes() for state in samples.validation.states}


def test_statistics_normalise_arm_differences_and_gripper_positions(samples):
    found = samples.statistics()
    assert found['action_relative'].tolist() == ([1.0] * 6 + [0.0]) * 2
    frames = [(frames.targets(np.arange(len(frames))), frames.states) for frames in samples.tasks]
    differences = np.concatenate([(t[:, :, 0] - s[:, :1]).ravel() for t, s in frames])
    positions = np.concatenate([t[:, :, 6].ravel() for t, _ in frames])
    assert found['action_std'][0] == pytest.approx(differences.std(), rel=1e-5)
    assert found['action_mean'][6] == pytest.approx(positions.mean(), rel=1e-4)


def test_too_few_episodes_are_refused(tmp_path):
    write_dataset(tmp_path, transfer=2, lift=0)
    with pytest.raises(DatasetError, match=r'found 2 episodes.*more than the 2 kept out'):
        Samples(tmp_path, DATA, MINI.horizon, SETTINGS)


def test_a_batch_too_small_for_its_processes_is_refused(samples):
    samples.check_shares(1)
    with pytest.raises(ConfigError, match=r'found \d+ observations of .* raise the batch'):
        samples.check_shares(1000)
