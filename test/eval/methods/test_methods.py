"""The other methods as a rollout sees them: what is reused, what is dense, and the settings."""

import dataclasses
import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch

from rmuscle_ros.engine.sampler import EulerSampler
from rmuscle_ros.errors import ConfigError, PolicyError
from rmuscle_ros.eval.methods import METHODS
from rmuscle_ros.eval.methods.references import References
from rmuscle_ros.memory.entry import TaskKey
from rmuscle_ros.memory.library import Library
from rmuscle_ros.models.processing import prepare
from rmuscle_ros.types import Mode, Reason

NOISE = np.random.default_rng(1).normal(size=(7, 14)).astype(np.float32)
ANY = {'least_similarity': -1.0}


@pytest.fixture
def policy(make_policy, record_episodes):
    """A policy with two recorded episodes of four calls, and a relative first joint."""
    policy = make_policy({'cache.similarity_threshold': -1.0})
    policy._engine.model.action_relative[0] = 1
    record_episodes(policy)
    return policy


@pytest.fixture
def engine(policy):
    return policy._engine


@pytest.fixture
def library(policy):
    return policy._memory.library


@pytest.fixture
def make(policy, engine, library):
    def make_method(name, **settings):
        return METHODS[name](engine, library, policy.info, **settings)

    return make_method


@pytest.fixture
def dense(engine):
    """dense(observation, **run): the engine's own answer, with NOISE unless told otherwise."""

    def run(observation, noise=NOISE, **options):
        observed = engine.observe(prepare(observation, engine.model))
        return engine.run(observed, None, noise, **options)

    return run


def settings_that_reuse_nothing(name):
    return {
        'step_skip': {'computed': tuple(range(10))},
        'nirvana': {'least_similarity': 1.0},
        'token_kv': {'recompute': 1.0},
        'replay': {'least_similarity': 1.0},
    }[name]


@pytest.mark.parametrize('name', METHODS)
def test_reusing_nothing_is_bitwise_dense(make, make_observation, dense, name):
    method = make(name, **settings_that_reuse_nothing(name))
    for jitter in (20, 25):
        observation = make_observation(0, jitter)
        chunk = method.infer(observation, noise=NOISE)
        assert np.array_equal(chunk.actions, dense(observation).actions)
        assert chunk.provenance.mode is Mode.DENSE
        assert chunk.provenance.reason is not Reason.CACHED


@pytest.mark.parametrize('name', METHODS)
def test_a_chunk_says_where_it_came_from(make, make_observation, policy, name):
    method = make(name)
    method.reset()
    for call in range(2):
        chunk = method.infer(make_observation(0, 1, stamp_s=1.5 + call))
    provenance = chunk.provenance
    assert (provenance.mode, provenance.reason) == (Mode.CACHED, Reason.CACHED)
    assert (provenance.call, provenance.episode) == (1, 1)
    assert chunk.stamp_s == provenance.observation_stamp_s == 2.5
    assert chunk.joint_names == policy.info.joint_names
    assert chunk.actions.shape == (7, 14) and chunk.actions.dtype == np.float32
    times = provenance.times
    assert times.total_ms > times.vision_ms + times.prefill_ms + times.denoise_ms > 0
    found = (provenance.similarity is not None, provenance.reference_id is not None)
    assert found == (METHODS[name].references,) * 2


@pytest.mark.parametrize('name', METHODS)
def test_settings_are_strict(make, name):
    with pytest.raises(ConfigError, match='steps: unknown key'):
        make(name, steps=3)
    default = METHODS[name].settings
    assert make(name).settings == default
    assert all(field.metadata['description'] for field in dataclasses.fields(default))


@pytest.mark.parametrize(
    ('name', 'settings', 'message'),
    [
        ('step_skip', {'computed': (1, 2)}, 'begin with 0'),
        ('step_skip', {'computed': (0, 10)}, 'below 10'),
        ('step_skip', {'between': 'reference'}, 'expected one of hold, extrapolate'),
        ('nirvana', {'start_step': 10}, 'found step 10 of 10, expected 0 to 9'),
        ('nirvana', {'start_step': -1}, 'found -1'),
        ('nirvana', {'noise': 'shared'}, 'expected one of reference, call'),
        ('token_kv', {'recompute': 1.1}, 'expected a value from 0 to 1'),
        ('token_kv', {'most_drift': -0.1}, 'at least 0'),
        ('replay', {'relative': 1}, 'expected a bool'),
        ('replay', {'least_similarity': 1.5}, 'from -1 to 1'),
    ],
)
def test_bad_settings_are_refused(make, name, settings, message):
    with pytest.raises(ConfigError, match=message):
        make(name, **settings)


@pytest.mark.parametrize('name', METHODS)
def test_methods_are_actors_without_background_work(make, make_observation, name):
    method = make(name)
    chunk = method.infer(make_observation(0, 1))
    assert chunk.provenance.episode == 0
    assert method.end_episode(True) is None
    assert method.infer(make_observation(0, 1)).provenance.episode == 1
    assert method.drain(0.0) is True
    method.close()


def test_a_new_instruction_ends_the_episode(make, make_observation):
    method = make('token_kv', recompute=0.0)
    calls = [
        method.infer(make_observation(0, 1, instruction=words)).provenance
        for words in ('stack the cups', 'stack the cups', 'catch the pups')
    ]
    assert [call.episode for call in calls] == [0, 0, 1]
    assert [call.mode for call in calls] == [Mode.DENSE, Mode.CACHED, Mode.DENSE]


def test_noise_is_fresh_unless_given(make, make_observation):
    method = make('step_skip')
    first, second = (method.infer(make_observation()).actions for _ in range(2))
    assert not np.array_equal(first, second)


def test_actions_that_are_not_finite_are_refused(make, make_observation, engine):
    engine.model.action_mean[3] = float('nan')
    with pytest.raises(PolicyError, match='mini: found actions that are not finite'):
        make('replay', **ANY).infer(make_observation())


def test_the_registry_imports_no_pytorch():
    code = "import sys, rmuscle_ros.eval.methods; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, '-P', '-c', code], check=False).returncode == 0


def test_held_steps_are_fewer_steps(make, make_observation, dense):
    observation = make_observation(0, 20)
    chunk = make('step_skip', computed=(0, 5), between='hold').infer(observation, noise=NOISE)
    two = dense(observation, sampler=EulerSampler(2)).actions
    np.testing.assert_allclose(chunk.actions, two, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('noise', ['reference', 'call'])
def test_nirvana_starts_from_the_mixture_of_noise_and_reference(
    make, make_observation, library, dense, noise
):
    observation = make_observation(2, 1)
    method = make('nirvana', start_step=4, noise=noise, **ANY)
    chunk = method.infer(observation, noise=NOISE)
    entry = next(iter(library)).entries[2]
    assert chunk.provenance.reference_id == entry.id
    z = entry.noise if noise == 'reference' else NOISE
    state = np.float32(0.6) * z + np.float32(0.4) * entry.actions
    expected = dense(observation, noise=state, sampler=EulerSampler(10, first=4)).actions
    np.testing.assert_allclose(chunk.actions, expected, rtol=1e-5, atol=1e-5)


def test_nirvana_repeats_its_reference_on_the_same_observation(make, make_observation, library):
    entry = next(iter(library)).entries[0]
    method = make('nirvana', start_step=9, **ANY)
    chunk = method.infer(make_observation(0, 1))
    # The flow's path is nearly straight only where the network is trained: close, not equal.
    replayed = make('replay', **ANY).infer(make_observation(0, 1))
    assert chunk.provenance.reference_id == replayed.provenance.reference_id == entry.id
    assert np.abs(chunk.actions - replayed.actions).max() < 0.3


def test_the_first_call_of_an_episode_computes_every_token(make, make_observation, dense):
    method = make('token_kv', recompute=0.3, most_drift=9.0)
    first = method.infer(make_observation(0, 1), noise=NOISE)
    assert first.provenance.reason is Reason.NO_REFERENCE
    second = method.infer(make_observation(0, 20), noise=NOISE)
    assert second.provenance.detail == '18 of 27 visual tokens kept'
    assert not np.array_equal(second.actions, dense(make_observation(0, 20)).actions)
    method.reset()
    again = method.infer(make_observation(0, 20), noise=NOISE)
    assert again.provenance.mode is Mode.DENSE
    assert np.array_equal(again.actions, dense(make_observation(0, 20)).actions)


def test_a_frame_that_did_not_change_is_reused_whole(make, make_observation, dense):
    method = make('token_kv', recompute=0.0)
    observation = make_observation(0, 1)
    method.infer(observation, noise=NOISE)
    chunk = method.infer(observation, noise=NOISE)
    assert chunk.provenance.detail == '27 of 27 visual tokens kept'
    np.testing.assert_allclose(chunk.actions, dense(observation).actions, rtol=1e-5, atol=1e-5)


def test_tokens_of_another_picture_are_computed(make, make_observation, dense):
    method = make('token_kv', recompute=0.0, most_drift=1e-4)
    method.infer(make_observation(0, 1), noise=NOISE)
    chunk = method.infer(make_observation(1, 1), noise=NOISE)
    assert chunk.provenance.detail == '0 of 27 visual tokens kept'
    assert chunk.provenance.mode is Mode.DENSE
    assert np.array_equal(chunk.actions, dense(make_observation(1, 1)).actions)


def test_slow_change_adds_up_until_a_token_is_renewed(make, make_observation):
    """Against the previous frame alone, no token would ever pass the limit."""
    first = make_observation(0)
    frames = [
        dataclasses.replace(
            first, images={name: image // 2 + shade for name, image in first.images.items()}
        )
        for shade in range(0, 60, 4)
    ]

    def kept(frames):
        method = make('token_kv', recompute=0.0, most_drift=0.15)
        return [method.infer(frame).provenance.detail for frame in frames][1:]

    whole = '27 of 27 visual tokens kept'
    assert all(kept(pair) == [whole] for pair in itertools.pairwise(frames))
    assert kept(frames)[0] == whole != kept(frames)[-1]


@pytest.mark.parametrize('other', ['cam_high', 'cam_right_wrist'])
def test_tokens_of_one_camera_do_not_serve_another(make, make_observation, other):
    method = make('token_kv', recompute=0.0, most_drift=9.0)
    calls = [
        method.infer(make_observation(0, 1, cameras=(camera,))).provenance
        for camera in ('cam_left_wrist', other)
    ]
    assert [call.mode for call in calls] == [Mode.DENSE] * 2
    assert calls[1].episode == 0


@pytest.mark.parametrize('relative', [True, False])
def test_replay_gives_the_reference_s_actions(make, make_observation, library, engine, relative):
    observation = make_observation(1, 1)
    moved = dataclasses.replace(
        observation, joints={name: value + 0.5 for name, value in observation.joints.items()}
    )
    chunk = make('replay', relative=relative, **ANY).infer(moved, noise=NOISE)
    entry = next(iter(library)).entries[1]
    assert chunk.provenance.reference_id == entry.id
    actions = torch.from_numpy(entry.actions)[None]
    recorded = engine.model.unnormalise(actions, entry.inputs).numpy()
    shift = np.zeros(14, np.float32)
    shift[0] = 0.5 if relative else 0.0
    np.testing.assert_allclose(chunk.actions, recorded + shift, rtol=1e-5, atol=1e-5)
    assert chunk.provenance.times.prefill_ms == chunk.provenance.times.denoise_ms == 0


@pytest.mark.parametrize('name', ['nirvana', 'replay'])
def test_without_a_similar_reference_calls_are_dense(make, make_observation, dense, name):
    observation = make_observation(77)
    chunk = make(name, least_similarity=0.9).infer(observation, noise=NOISE)
    assert chunk.provenance.reason is Reason.FALLBACK_SIMILARITY
    assert chunk.provenance.similarity < 0.9 and '< 0.9' in chunk.provenance.detail
    assert np.array_equal(chunk.actions, dense(observation).actions)
    other = make_observation(0, 1, instruction='sing')
    provenance = make(name, **ANY).infer(other).provenance
    assert (provenance.reason, provenance.similarity) == (Reason.NO_REFERENCE, None)
    assert "'sing'" in provenance.detail


def test_the_search_is_over_all_entries_and_sees_new_episodes(library):
    episodes = list(library)
    task = episodes[0].task
    growing = Library()
    references = References(growing, -1.0)
    assert references.search(episodes[0].entries[0].key, task).reason is Reason.NO_REFERENCE
    for episode in episodes:
        growing.add(episode)
        for entry in episode.entries:
            match = references.search(entry.key, task)
            assert match.entry is entry
            assert match.similarity == pytest.approx(1.0, abs=1e-6)
    other = TaskKey(task.instruction, 'another model', task.cameras)
    assert references.search(episodes[0].entries[0].key, other).reason is Reason.NO_REFERENCE


def test_a_similarity_that_is_not_a_number_does_not_pass(library):
    task = next(iter(library)).task
    key = np.full(60, np.nan, np.float32)
    assert References(library, -1.0).search(key, task).reason is Reason.FALLBACK_SIMILARITY
