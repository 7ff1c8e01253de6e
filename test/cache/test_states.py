"""Anchors, and what expanded states weigh."""

import pytest
import torch

from rmuscle_ros.cache.states import (
    ExpandedState,
    StepStates,
    check_anchors,
    followers,
    regular_anchors,
)
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.types import ACTION, PREFIX, Site


@pytest.mark.parametrize('anchors', [(0,), (0, 1, 2, 3, 4), (0, 3), (0, 4)])
def test_rising_steps_from_0_are_anchors(anchors):
    check_anchors(anchors, 5)
    between = sum(followers(anchors, group, 5) for group in range(len(anchors)))
    assert len(anchors) + between == 5, 'anchors and the steps between them are all steps'


@pytest.mark.parametrize(
    'anchors',
    [(), (1, 2), (0, 2, 2), (0, 3, 1), (0, 5), (-1, 0)],
    ids=['none', 'not from 0', 'twice', 'falling', 'beyond the steps', 'negative'],
)
def test_other_lists_are_refused_with_what_to_do(anchors):
    with pytest.raises(ConfigError) as refusal:
        check_anchors(anchors, 5)
    text = str(refusal.value)
    assert f'cache.anchors: found {list(anchors)}' in text
    assert 'expected rising step numbers from 0 up, below 5 (engine.denoise_steps)' in text
    assert 'give the steps that shall be computed densely' in text


@pytest.mark.parametrize(
    ('group_len', 'expected'), [(1, (0, 1, 2, 3, 4)), (2, (0, 2, 4)), (5, (0,)), (7, (0,))]
)
def test_regular_anchors_are_as_far_apart_as_the_group_is_long(group_len, expected):
    assert regular_anchors(group_len, 5) == expected
    check_anchors(expected, 5)


def test_followers_are_the_steps_up_to_the_next_anchor_or_the_end():
    assert [followers((0, 2, 3, 6), group, 8) for group in range(4)] == [1, 0, 2, 1]
    assert followers((0,), 0, 1) == 0


def test_bytes_count_inputs_outputs_and_denoise_steps():
    rows = {Site(PREFIX, layer): torch.zeros(4, 3) for layer in range(2)}
    prefix = ExpandedState(rows, dict(rows))
    assert prefix.bytes == 2 * 2 * 4 * 3 * 4
    site = Site(ACTION, 0)
    half = torch.zeros(5, 7, 2, dtype=torch.float16)
    steps = StepStates({site: half}, {site: half[..., :1]})
    assert steps.bytes == 5 * 7 * (2 + 1) * 2
    assert ExpandedState(rows, rows, steps).bytes == prefix.bytes + steps.bytes
