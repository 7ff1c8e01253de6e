"""Similarity of visual keys: phases apart, a station that hardly varies together."""

import numpy as np
import pytest
from bare_entries import episode_of_keys, station_keys

from rmuscle_ros.memory.retrieval import SPREAD_FLOOR, KeyIndex


def test_own_key_is_most_similar_with_value_one():
    episodes = [
        episode_of_keys('a', station_keys(np.arange(5))),
        episode_of_keys('b', station_keys([0.5, 1.5])),
    ]
    index = KeyIndex(episodes)
    for entry in episodes[0].entries:
        similarity = index.similarities(entry.key)
        assert similarity['a'][entry.position] == pytest.approx(1.0, abs=1e-6)
        assert similarity['a'].argmax() == entry.position
        assert similarity['b'].shape == (2,)


def test_centring_separates_phases_a_plain_cosine_confuses():
    a = episode_of_keys('a', station_keys(np.arange(6)))
    plain = float(a.entries[0].key @ a.entries[3].key)
    centred = KeyIndex([a]).similarities(a.entries[0].key)['a'][3]
    assert plain > 0.8
    assert centred < 0.0


def test_the_floor_keeps_a_station_that_hardly_varies_similar():
    rng = np.random.default_rng(0)
    still = np.ones((8, 50)) + rng.normal(0, 0.01, (8, 50))
    index = KeyIndex([episode_of_keys('a', still)])
    again = episode_of_keys('b', np.ones((1, 50)) + rng.normal(0, 0.01, (1, 50))).entries[0].key
    assert index.similarities(again)['a'].min() > 0.9
    covered = np.concatenate((np.ones((1, 25)), np.zeros((1, 25))), axis=1)
    strange = episode_of_keys('c', covered).entries[0].key
    assert index.similarities(strange)['a'].max() < 0.8
    assert SPREAD_FLOOR == 0.05
