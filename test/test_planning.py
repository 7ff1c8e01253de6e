"""From settings and a match to the plan of a call."""

import dataclasses

import numpy as np
import pytest
from bare_entries import bare_entry

from rmuscle_ros.cache.guard import Guard
from rmuscle_ros.cache.states import ExpandedState, NeuronMasks, StepStates
from rmuscle_ros.config import CacheConfig
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.memory.memory import Match
from rmuscle_ros.planning import check_settings, plan_call, why_action_off
from rmuscle_ros.types import ACTION, Reason, Site

ANCHORS = CacheConfig().anchors
MASKS = NeuronMasks(np.zeros((4, 1, 9), np.uint8), (Site(ACTION, 0),), ANCHORS, 10, 'delta')
ENTRY = dataclasses.replace(
    bare_entry('a', 3), masks=MASKS, velocity=np.ones((10, 7, 14), np.float16)
)
NOISE = np.ones((7, 14), np.float32)
STATES = tuple(ExpandedState({}, {}, StepStates({}, {})) for _ in range(2))
MATCH = Match(
    Reason.CACHED,
    '',
    similarity=0.9,
    entry=ENTRY,
    states=STATES,
    drift_limits=np.ones(3, np.float32),
    guard=Guard(2.0, 0.1),
)
NONE = Match(Reason.NO_REFERENCE, 'no episode of this task')
DISABLED = Match(Reason.CACHE_DISABLED, 'cache.enabled is false')


def test_the_defaults_can_be_planned_with():
    check_settings(CacheConfig(), 10)
    planned = plan_call(MATCH, CacheConfig(), 10)
    assert planned.action_off == ''
    assert planned.plan.action.anchors == ANCHORS and planned.plan.action.skips


@pytest.mark.parametrize(
    ('unselected', 'noise'),
    [('hold', 'fresh'), ('extrapolate', 'shared'), ('reference', 'shared')],
)
def test_shared_noise_goes_with_every_rule(unselected, noise):
    config = CacheConfig(unselected=unselected, noise=noise)
    check_settings(config, 10)
    match = dataclasses.replace(MATCH, entry=dataclasses.replace(ENTRY, noise=NOISE))
    plan = plan_call(match, config, 10).plan
    assert plan.action.unselected == unselected
    assert plan.noise is (NOISE if noise == 'shared' else None)


def test_following_a_reference_needs_its_noise():
    with pytest.raises(ConfigError, match=r'set cache\.noise to shared, or unselected to extrap'):
        check_settings(CacheConfig(unselected='reference'), 10)


def test_a_plan_carries_what_the_match_found():
    config = CacheConfig(rho_p=0.35, rho_n=0.5, unselected='hold', mask_source='reference')
    planned = plan_call(MATCH, config, 10)
    plan, action = planned.plan, planned.plan.action
    assert (plan.states, plan.rho_p, plan.guard) == (STATES, 0.35, MATCH.guard)
    assert plan.drift_limits is MATCH.drift_limits
    assert (action.anchors, action.rho_n, action.masks) == (ANCHORS, 0.5, MASKS)
    assert (action.unselected, action.mask_source, action.score) == ('hold', 'reference', 'delta')
    assert planned.action_off == ''


def test_a_followed_reference_is_the_one_whose_noise_is_shared():
    config = CacheConfig(rho_n=0.5, unselected='reference', noise='shared')
    action = plan_call(MATCH, config, 10).plan.action
    assert action.steps_ref is STATES[0].steps
    assert action.velocity.tolist() == ENTRY.velocity.tolist()


@pytest.mark.parametrize(
    ('values', 'takes'),
    [
        ({'rho_n': 0.0}, 'nothing'),
        ({'rho_n': 0.5}, 'masks'),
        ({'rho_n': 0.5, 'mask_source': 'reference'}, 'masks'),
        ({'rho_n': 0.5, 'mask_source': 'anchor'}, 'nothing'),
        ({'rho_n': 0.0, 'unselected': 'reference', 'noise': 'shared'}, 'steps'),
        ({'rho_n': 0.5, 'mask_source': 'anchor', 'unselected': 'reference'}, 'steps'),
    ],
)
@pytest.mark.parametrize(
    ('other', 'steps', 'spoils'),
    [
        ({'anchors': (0, 5)}, 10, ('masks',)),
        ({'score': 'contribution'}, 10, ('masks',)),
        ({}, 12, ('masks', 'steps')),
    ],
    ids=['anchors', 'score', 'steps'],
)
def test_an_entry_recorded_otherwise_is_no_use_where_something_of_it_is_needed(
    values, takes, other, steps, spoils
):
    config = CacheConfig(**(other | values))
    off = why_action_off(ENTRY, config, steps)
    needed = takes in spoils
    assert bool(off) == needed
    planned = plan_call(MATCH, config, steps)
    assert planned.action_off == off
    assert (planned.plan.action is None) == needed
    assert planned.plan.states == STATES, 'the Context Cache needs none of this'


@pytest.mark.parametrize('keep', ['anchors', 'dense'])
@pytest.mark.parametrize(
    ('values', 'needs'),
    [
        ({}, False),
        ({'rho_n': 0.5}, True),
        ({'unselected': 'reference', 'noise': 'shared'}, True),
    ],
    ids=['skipped', 'masks', 'following'],
)
def test_a_call_without_a_reference_keeps_what_needs_none(keep, values, needs):
    config = CacheConfig(without_reference=keep, **values)
    planned = plan_call(NONE, config, 10)
    assert (planned is not None) == (keep == 'anchors' and not needs)
    if planned is not None:
        assert (planned.plan.states, planned.plan.action.anchors) == ((), ANCHORS)
    assert plan_call(MATCH, config, 10).plan.keep_action == (keep == 'anchors')


def test_with_the_caches_off_nothing_is_planned():
    assert plan_call(DISABLED, CacheConfig(), 10) is None
