"""A library recorded with other anchors or denoise steps is recorded again from its inputs."""

import numpy as np
import pytest
import torch
from policy_support import OPEN, infer_all

from rmuscle_ros.errors import LibraryError
from rmuscle_ros.memory.library import SUFFIX, Library
from rmuscle_ros.types import Reason

OLD = OPEN | {'cache.rho_n': 0.5}
CHANGES = {
    'anchors': {'cache.anchors': (0, 1, 4)},
    'score': {'cache.score': 'contribution'},
    'steps': {'engine.denoise_steps': 12},
}
changes = pytest.mark.parametrize('changed', CHANGES.values(), ids=CHANGES)


def entries_of(library):
    return [entry for episode in library for entry in episode.entries]


@pytest.fixture
def make(make_policy, record_episodes):
    """make({'cache.anchors': (0, 5)}): a policy whose library was recorded under OLD."""

    def make(changed, **other):
        library = recorded(OLD)
        return make_policy(OLD | changed, library=library, **other)

    def recorded(values):
        """The same episodes with the same noise, whatever the settings."""
        library = Library()
        torch.manual_seed(7)
        record_episodes(make_policy(values, library=library))
        return library

    make.recorded = recorded
    return make


@changes
def test_what_is_recorded_again_equals_what_is_recorded_directly(make, changed):
    policy = make(changed)
    before = list(policy._memory.library)
    assert policy.refresh_library() == 2
    after, direct = policy._memory.library, make.recorded(OLD | changed)
    assert [(e.id, e.success, e.task) for e in after] == [(e.id, True, e.task) for e in before]
    for again, expected in zip(entries_of(after), entries_of(direct), strict=True):
        assert np.array_equal(again.masks.levels, expected.masks.levels)
        assert again.masks.anchors == expected.masks.anchors == policy._config.cache.anchors
        assert again.masks.steps == expected.masks.steps == policy._engine.sampler.steps
        assert again.masks.score == expected.masks.score == policy._config.cache.score
        for name in ('velocity', 'actions', 'noise', 'key'):
            assert np.array_equal(getattr(again, name), getattr(expected, name)), name
        assert again.velocity.dtype == np.float16


@changes
def test_the_action_cache_is_on_again_from_the_next_call(make, make_observation, changed):
    policy = make(changed)
    assert policy.drain(20)
    (before,) = infer_all(policy, make_observation, calls=1)
    assert before.reason is Reason.CACHED and before.rho_n is None
    assert policy.refresh_library() == 2
    assert policy.drain(20)
    calls = infer_all(policy, make_observation)
    assert [call.rho_n for call in calls] == [0.5] * 4
    assert all(call.episode == before.episode + 1 for call in calls)


@pytest.mark.parametrize(
    'changed',
    [{}, {'cache.mask_source': 'anchor', 'cache.anchors': (0, 5)}, {'cache.rho_p': 0.7}],
    ids=['nothing', 'anchors that need no masks', 'other settings'],
)
def test_where_nothing_is_to_do_nothing_is_done(make, changed):
    policy = make(changed)
    before, episode = list(policy._memory.library), policy.status().episode
    assert policy.refresh_library() == 0
    assert all(map(lambda a, b: a is b, before, policy._memory.library))
    assert policy.status().episode == episode


def test_a_second_refresh_finds_nothing_to_do(make):
    policy = make(CHANGES['anchors'])
    assert [policy.refresh_library() for _ in range(2)] == [2, 0]


def test_episodes_of_another_model_are_left_alone(make):
    policy = make(CHANGES['anchors'], fingerprint='another')
    before = list(policy._memory.library)
    assert policy.refresh_library() == 0
    assert all(map(lambda a, b: a is b, before, policy._memory.library))


def test_it_counts_no_calls_and_records_nothing(make):
    policy = make(CHANGES['anchors'])
    policy.refresh_library()
    status = policy.status()
    assert sum(status.calls.values()) == 0 and status.last is None
    assert (status.library_episodes, status.library_entries) == (2, 8)


def test_files_are_not_touched(make_policy, record_episodes, tmp_path):
    values = OLD | {'library.directory': str(tmp_path)}
    record_episodes(make_policy(values))
    before = {path: path.read_bytes() for path in tmp_path.glob(f'*{SUFFIX}')}
    policy = make_policy(values | CHANGES['anchors'], library=Library.load(tmp_path))
    assert len(before) == policy.refresh_library() == 2
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_refreshing_does_not_discard_what_is_being_recorded(make, make_observation):
    policy = make({'cache.anchors': (0, 5)})
    policy.tune(enabled=False, record=True)
    policy.reset()
    policy.infer(make_observation())
    with pytest.raises(LibraryError, match='found 1 recorded calls of the running episode'):
        policy.refresh_library()
    assert policy.end_episode(True).admitted
    assert policy.refresh_library() == 2
