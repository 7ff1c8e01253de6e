from dataclasses import dataclass

import numpy as np
import pytest
import torch

from rmuscle_ros.memory.calibration import DriftCalibration, calibrate, matching_pairs
from rmuscle_ros.memory.entry import Entry, Episode, TaskKey
from rmuscle_ros.memory.retrieval import SPREAD_FLOOR, KeyIndex

TASK = TaskKey('task', 'model', ('cam',))


@dataclass(frozen=True)
class Inputs:
    """Stands in for ModelInputs: who it belongs to, and its cameras."""

    episode: str
    position: int
    cameras: tuple[str, ...]


def episode(name, keys, views=1):
    keys = keys / np.linalg.norm(keys, axis=-1, keepdims=True)
    entries = tuple(
        Entry(name, i, Inputs(name, i, ('cam',) * views), key.astype(np.float32), None, None, None)
        for i, key in enumerate(keys)
    )
    return Episode(name, TASK, True, entries)


def station_keys(phases, offset=0.0):
    """Keys of one station: a large common part and a phase on a circle."""
    angle = np.asarray(phases, float)[:, None]
    common = np.ones((len(phases), 6))
    circle = np.concatenate((np.cos(angle), np.sin(angle)), axis=1)
    return np.concatenate((common, 0.5 * circle + offset), axis=1)


def test_own_key_is_most_similar_with_value_one():
    episodes = [episode('a', station_keys(np.arange(5))), episode('b', station_keys([0.5, 1.5]))]
    index = KeyIndex(episodes)
    for entry in episodes[0].entries:
        similarity = index.similarities(entry.key)
        assert similarity['a'][entry.position] == pytest.approx(1.0, abs=1e-6)
        assert similarity['a'].argmax() == entry.position
        assert similarity['b'].shape == (2,)


def test_centring_separates_phases_a_plain_cosine_confuses():
    a = episode('a', station_keys(np.arange(6)))
    plain = float(a.entries[0].key @ a.entries[3].key)
    centred = KeyIndex([a]).similarities(a.entries[0].key)['a'][3]
    assert plain > 0.8
    assert centred < 0.0


def test_the_floor_keeps_a_station_that_hardly_varies_similar():
    rng = np.random.default_rng(0)
    still = np.ones((8, 50)) + rng.normal(0, 0.01, (8, 50))
    index = KeyIndex([episode('a', still)])
    again = episode('b', np.ones((1, 50)) + rng.normal(0, 0.01, (1, 50))).entries[0].key
    assert index.similarities(again)['a'].min() > 0.9
    covered = np.concatenate((np.ones((1, 25)), np.zeros((1, 25))), axis=1)
    assert index.similarities(episode('c', covered).entries[0].key)['a'].max() < 0.8
    assert SPREAD_FLOOR == 0.05


def test_pairs_never_come_from_the_same_episode():
    episodes = [
        episode(name, station_keys(np.arange(4) + 0.1 * i)) for i, name in enumerate('abc')
    ]
    pairs = list(matching_pairs(episodes, most=64))
    assert len(pairs) == 12
    assert all(entry.episode_id != match.episode_id for entry, match, _ in pairs)
    assert all(entry.position == match.position for entry, match, _ in pairs)


def test_pairs_of_a_large_library_are_spread_over_it():
    episodes = [episode(name, station_keys(np.arange(10))) for name in 'ab']
    pairs = list(matching_pairs(episodes, most=4))
    assert [entry.id for entry, _, _ in pairs] == ['a/0', 'a/5', 'b/0', 'b/5']


def test_limits_are_quantiles_of_each_view():
    calibration = DriftCalibration(np.array([[0.1, 0.5], [0.3, 0.6], [0.2, 0.4]]))
    assert calibration.limits(quantile=1.0, slack=2.0).tolist() == pytest.approx([0.6, 1.2])
    assert calibration.limits(quantile=0.5, slack=1.0).tolist() == pytest.approx([0.2, 0.5])


def test_calibration_needs_two_episodes():
    assert calibrate([episode('a', station_keys([0, 1]))], None, lambda: None, 0.8) is None


def first_site_of_two_views(inputs, checkpoint):
    """Rows of two views; the second one moves with the episode."""
    name, position = inputs
    first, second = 1.0, 1.0 + (name == 'b') * 0.1 * position
    return torch.cat((torch.full((4, 2), first), torch.full((4, 2), second)))


def test_calibration_measures_each_entry_once_per_view():
    episodes = [episode(name, station_keys(np.arange(3)), views=2) for name in 'ab']
    seen = []

    def first_site_input(inputs, checkpoint):
        seen.append((inputs.episode, inputs.position))
        return first_site_of_two_views(seen[-1], checkpoint)

    calibration = calibrate(episodes, first_site_input, lambda: None, 0.8)
    assert sorted(seen) == sorted(set(seen)) and len(seen) == 6
    assert calibration.drift.shape == (6, 2)
    assert calibration.drift[:, 0].tolist() == [0.0] * 6
    assert calibration.drift[:, 1].max() == pytest.approx(0.2, abs=0.02)


def test_pairs_the_similarity_fence_would_stop_do_not_count():
    near, far = station_keys(np.arange(3)), station_keys(np.arange(3) + np.pi)
    episodes = [episode('a', near, views=2), episode('b', near, views=2)]

    def first_site_input(inputs, checkpoint):
        return first_site_of_two_views((inputs.episode, inputs.position), checkpoint)

    assert calibrate(episodes, first_site_input, lambda: None, 0.8).drift.shape[0] == 6
    strangers = [episodes[0], episode('c', far, views=2)]
    assert calibrate(strangers, first_site_input, lambda: None, 0.8) is None
