"""The order and the scenes of the demo's episodes."""

import pytest

from rmuscle_ros.eval.records import CACHED, REFERENCE
from rmuscle_ros.ros.demo.plan import (
    PlannedEpisode,
    plan,
    replacement,
    untrained,
)


def kinds(episodes):
    return ''.join(episode.kind[0] for episode in episodes)


def test_dense_episodes_lie_between_cached_ones():
    assert kinds(plan(3, 5, 2, seed=0)) == 'rrr' + 'cdccdcc'


def test_each_dense_episode_repeats_the_scene_of_a_cached_one():
    episodes = plan(3, 5, 2, seed=7)
    cached = [episode.seed for episode in episodes if episode.kind == 'cached']
    dense = [episode.seed for episode in episodes if episode.kind == 'dense']
    assert cached == [107, 108, 109, 110, 111]
    assert dense == [107, 109]


def test_no_compared_scene_was_recorded():
    episodes = plan(50, 30, 30, seed=0)
    recorded = {episode.seed for episode in episodes if episode.recorded}
    assert not recorded & {episode.seed for episode in episodes if not episode.recorded}


@pytest.mark.parametrize('counts', [(0, 0, 0), (2, 0, 3), (0, 4, 0), (1, 1, 1), (1, 2, 5)])
def test_every_planned_count_is_met(counts):
    letters = kinds(plan(*counts, seed=0))
    assert tuple(letters.count(kind) for kind in 'rcd') == counts


def test_only_cached_episodes_use_the_cache_and_only_references_are_recorded():
    for episode in plan(2, 2, 2, seed=0):
        assert episode.cache_enabled == (episode.kind == 'cached')
        assert episode.recorded == (episode.kind == 'reference')


def test_a_policy_without_a_checkpoint_counts_as_untrained():
    assert untrained({})
    assert untrained({'model.checkpoint': ''})
    assert not untrained({'model.checkpoint': 'weights'})


def test_a_reference_that_was_not_admitted_is_replaced_by_another_scene_for_a_while():
    tried = [PlannedEpisode(REFERENCE, 1, 8)]
    while (again := replacement(tried[-1], references=3)) is not None:
        tried.append(again)
    assert [(each.index, each.seed) for each in tried] == [(1, 8), (4, 10008), (7, 20008)]
    assert replacement(PlannedEpisode(CACHED, 0, 100), references=3) is None
