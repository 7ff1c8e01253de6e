"""Which modes the nodes run, and with which parameters."""

from pathlib import Path

import pytest

from rmuscle_ros.config import PolicyConfig, fields_of, with_values
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.modes import FEWER_STEPS, MODES
from rmuscle_ros.presets import PAPER
from rmuscle_ros.ros.evaluation.plan import (
    find_node_modes,
    mode_parameters,
    policy_parameters,
    station_parameters,
)
from rmuscle_ros.ros.parameter_files import read_parameters

CONFIG = Path(__file__).parents[2] / 'config'
SHIPPED = read_parameters(CONFIG / 'aloha.yaml')


def names(text):
    return [mode.name for mode in find_node_modes(text)]


def test_all_are_those_without_another_method():
    expected = ['dense', 'rmuscle', 'rmuscle_fixed', 'rmuscle_paper', 'fewer_steps']
    assert names('all') == expected
    assert names(' fewer_steps, dense') == ['fewer_steps', 'dense']


@pytest.mark.parametrize('name', [name for name, mode in MODES.items() if mode.method])
def test_a_mode_without_a_node_is_refused_by_name(name):
    with pytest.raises(ConfigError, match=f'--modes: found {name}, which no node runs.*dense'):
        find_node_modes(f'dense,{name}')


@pytest.mark.parametrize(
    ('text', 'message'), [('dense,warp', "found 'warp'"), ('dense,dense', 'found dense twice')]
)
def test_other_names_are_refused_as_in_process(text, message):
    with pytest.raises(ConfigError, match=message):
        find_node_modes(text)


def settings(name, library=None):
    values = policy_parameters(SHIPPED, 'weights', 'lift_cube')
    values |= mode_parameters(MODES[name], library)
    keys = {key for key, _, _ in fields_of(PolicyConfig())}
    return with_values(PolicyConfig(), {key: values[key] for key in values if key in keys}), values


def test_a_node_has_the_shipped_parameters_and_those_of_its_mode(tmp_path):
    config, values = settings('rmuscle_paper', tmp_path)
    assert (config.cache.anchors, config.cache.guard) == ((0, 5), False)
    assert config.cache.similarity_threshold == PAPER['cache.similarity_threshold']
    assert config.library.directory == str(tmp_path)
    assert config.model.checkpoint == 'weights'
    assert values['instruction'] == 'lift the red cube with the right arm'
    assert values['cameras'] == SHIPPED['cameras']
    default, _ = settings('rmuscle', tmp_path)
    assert default.cache.similarity_threshold == SHIPPED['cache.similarity_threshold']
    assert default.shadow.every == 1


def test_only_modes_that_read_references_get_the_library(tmp_path):
    for name in ('dense', 'fewer_steps'):
        config, _ = settings(name, tmp_path)
        assert config.library.directory == ''
        assert not config.cache.enabled
    assert settings('fewer_steps')[0].engine.denoise_steps == FEWER_STEPS


def test_an_episode_may_last_as_long_as_in_process():
    shipped = read_parameters(CONFIG / 'station.yaml')
    values = station_parameters(shipped, 'lift_cube')
    assert values == shipped | {'task': 'lift_cube', 'episode_length_s': 6.0}
