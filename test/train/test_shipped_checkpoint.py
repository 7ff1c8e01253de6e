"""The checkpoint in the repository does its tasks; the floors are far below its model card."""

from contextlib import closing
from pathlib import Path

import pytest

import rmuscle_ros
from rmuscle_ros.config import PolicyConfig, with_values
from rmuscle_ros.policy import Policy
from rmuscle_ros.rollout import roll_out
from rmuscle_ros.sim.station import AlohaStation

CHECKPOINT = Path(rmuscle_ros.__file__).parent / 'assets' / 'aloha_transfer_cube'
SEEDS = range(200, 205)  # not those of the card
FLOORS = {'transfer_cube': 3, 'lift_cube': 4}


@pytest.fixture(scope='module')
def policy():
    values = {'model.checkpoint': str(CHECKPOINT), 'cache.enabled': False}
    with closing(Policy.from_config(with_values(PolicyConfig(), values))) as policy:
        yield policy


@pytest.mark.parametrize('task', FLOORS)
def test_reaches_its_floor(policy, task):
    with AlohaStation(policy.info.image_size[0], task) as station:
        successes = [roll_out(policy, station, seed).success for seed in SEEDS]
    assert sum(successes) >= FLOORS[task]


def test_is_small_enough_for_the_repository_and_has_a_card():
    sizes = [path.stat().st_size for path in CHECKPOINT.iterdir()]
    assert sum(sizes) <= 20e6
    assert '95 % interval' in (CHECKPOINT / 'MODEL_CARD.md').read_text()
