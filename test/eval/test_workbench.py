"""What modes are built from: one model, one set of references, a library each."""

import types

import pytest
from tiny_fixtures import MINI, strong

from rmuscle_ros.config import PolicyConfig, fields_of
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval import workbench
from rmuscle_ros.eval.modes import MODES
from rmuscle_ros.models.registry import LoadedModel
from rmuscle_ros.models.tiny_init import untrained
from rmuscle_ros.rollout import Rollout
from rmuscle_ros.types import Reason

STATION = types.SimpleNamespace(task=types.SimpleNamespace(name='stack'))


@pytest.fixture
def bench(monkeypatch, make_observation):
    """A bench with the miniature model; episodes of even seeds succeed."""
    model = strong(untrained(3, MINI))
    loaded = LoadedModel(model, 'mini', 'mini', trained=True)
    monkeypatch.setattr(workbench, 'load_model', lambda checkpoint, seed: loaded)

    def roll_out(actor, station, seed):
        actor.reset()
        for call in range(3):
            actor.infer(make_observation(call, jitter=1 + seed % 7))
        return Rollout(station.task.name, seed, seed % 2 == 0, 4, 75, 3)

    monkeypatch.setattr(workbench, 'roll_out', roll_out)
    return workbench.Workbench('')


def test_references_are_the_first_successes(bench):
    bench.record(STATION, 3)
    assert bench.reference_seeds == [500_000, 500_002, 500_004]
    assert len(bench.library) == 3 and bench.library.entries == 9
    assert all(episode.success for episode in bench.library)


def test_too_few_references_and_too_few_successes_are_errors(bench, monkeypatch):
    with pytest.raises(ConfigError, match='references: found 1, expected at least 2'):
        bench.record(STATION, 1)
    monkeypatch.setattr(workbench, 'MOST_REFERENCE_TRIES', 1)
    message = 'found 2 successes in 4 episodes of stack, expected 4'
    with pytest.raises(ConfigError, match=message):
        bench.record(STATION, 4)


def test_a_cached_mode_serves_from_the_recorded_episodes(bench, make_observation):
    bench.record(STATION, 3)
    actor = bench.actor(MODES['rmuscle'])
    try:
        reasons = []
        for _ in range(2):
            assert actor.drain(20)
            reasons.append(actor.infer(make_observation(0, jitter=2)).provenance.reason)
        assert Reason.NO_REFERENCE not in reasons
    finally:
        actor.close()
    assert len(bench.library) == 3


@pytest.mark.parametrize('name', list(MODES))
def test_every_mode_acts_on_its_own_library_and_states_all_its_settings(
    bench, name, make_observation
):
    bench.record(STATION, 2)
    mode = MODES[name]
    actor = bench.actor(mode)
    try:
        chunk = actor.infer(make_observation(0, jitter=1))
        assert chunk.actions.shape == (MINI.horizon, len(MINI.joint_names))
        assert actor.info == bench.info
    finally:
        actor.close()
    settings = bench.settings(mode)
    assert mode.values.items() <= settings.items()
    if not mode.method:
        assert set(settings) == {key for key, _, _ in fields_of(PolicyConfig())}


def test_dense_and_the_references_stay_at_ten_steps_whatever_the_default(bench):
    assert MODES['dense'].values['engine.denoise_steps'] == 10
    assert bench.engine().sampler.steps == 10
