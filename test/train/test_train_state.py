"""A run goes on bit for bit from its checkpoint, and says what is wrong with a bad one."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from rmuscle_ros.errors import CheckpointError
from rmuscle_ros.train.state import FILE, load_state, read_averaged, save_state

KILLED_RUN = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
if __name__ == '__main__':
    import rmuscle_ros.train.run as run
    from training_fixtures import MINI, SETTINGS
    rate = run.learning_rate
    def killed_at_step_13(settings, step):
        if step == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        return rate(settings, step)
    run.learning_rate = killed_at_step_13
    run.Run(Path(sys.argv[1]), Path(sys.argv[2]), SETTINGS, MINI, 'cpu', workers=2).train()
"""


def tensors(run):
    return {name: tensor.detach().clone() for name, tensor in run.state.tensors().items()}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    different = [name for name in expected if not torch.equal(found[name], expected[name])]
    assert different == []


def test_resumes_bit_for_bit_after_a_kill(make_run, dataset, tmp_path):
    straight = make_run('straight', workers=2)
    straight.train()
    script = tmp_path / 'killed.py'
    script.write_text(KILLED_RUN)
    directory = tmp_path / 'killed'
    paths = [str(Path(__file__).parent), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, script, dataset, directory, *paths], capture_output=True, timeout=100
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    resumed = make_run('killed', workers=2)
    assert resumed.state.step == 10
    resumed.train()
    assert resumed.state.step == 20
    assert_same(tensors(resumed), tensors(straight))
    losses = [
        (tmp_path / name / 'losses.csv').read_text().splitlines()
        for name in ('straight', 'killed')
    ]
    assert [len(rows) for rows in losses] == [21, 21]
    without_time = [[row.rsplit(',', 1)[0] for row in rows] for rows in losses]
    assert without_time[0] == without_time[1]


def test_another_seed_is_another_run(make_run):
    first, second = make_run('a', seed=1, steps=2), make_run('b', seed=2, steps=2)
    first.train()
    second.train()
    assert not torch.equal(first.state.model.projector.weight, second.state.model.projector.weight)


def test_averaged_weights_follow_the_trained_ones(make_run):
    run = make_run(ema=0.9)
    before = run.state.ema.projector.weight.clone()
    run.train()
    model, ema = run.state.model.projector.weight, run.state.ema.projector.weight
    assert 0 < (model - ema).norm() < (model - before).norm()


def test_a_longer_run_goes_on_but_other_settings_are_refused(make_run):
    make_run(steps=5).train()
    assert make_run(steps=9, look_every=0).state.step == 5
    with pytest.raises(CheckpointError, match=r'batch: found 10, expected 8') as error:
        make_run(batch=8)
    assert 'another run' in str(error.value)


@pytest.fixture
def saved(make_run, tmp_path):
    """A run with a checkpoint, and the checkpoint's path."""
    run = make_run(steps=5)
    run.train()
    return run, tmp_path / 'run' / FILE


def test_a_damaged_checkpoint_is_refused(saved, make_run):
    _, path = saved
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match='damaged'):
        make_run()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError, match='not a complete checkpoint'):
        make_run()


def test_missing_normalisation_statistics_are_named(saved, make_run):
    run, path = saved
    with safe_open(path, framework='pt') as file:
        kept = {
            name: file.get_tensor(name)
            for name in file.keys()  # noqa: SIM118  not a dict
            if name != 'ema.action_std'
        }
    save_state(_With(kept, run.state.step), run._identity, path.parent)
    with pytest.raises(CheckpointError, match=r'missing ema\.action_std \[14\]'):
        make_run()


class _With:
    """Stands in for a TrainState: these tensors, whatever they are."""

    def __init__(self, found, step):
        self._found, self.step = found, step

    def tensors(self):
        return self._found


def test_files_of_others_are_refused(tmp_path, saved, make_run):
    _, path = saved
    save_file({'x': torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match='not written by a run'):
        make_run()
    with pytest.raises(CheckpointError, match='train first'):
        read_averaged(tmp_path / 'nowhere')


def test_a_full_disk_leaves_the_previous_checkpoint(saved, full_disk):
    run, path = saved
    before = path.read_bytes()
    run.state.step = 6
    with full_disk(), pytest.raises(CheckpointError, match=r'step 6.*earlier step is intact'):
        save_state(run.state, run._identity, path.parent)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.glob('.*')] == []
    assert load_state(run.state, run._identity, path.parent)
    assert run.state.step == 5
