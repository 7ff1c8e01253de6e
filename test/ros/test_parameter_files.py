"""Parameter files: read, written, and those the package ships."""

from pathlib import Path

import pytest

from rmuscle_ros.config import PolicyConfig, fields_of, with_values
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.presets import PRESETS
from rmuscle_ros.ros.parameter_files import read_parameters, write_parameters

CONFIG = Path(__file__).parents[2] / 'config'
# What this station's keys allow; rmuscle eval separation measures it.
STATION_VALUES = {'cache.similarity_threshold': 0.7}


def test_parameter_files_survive_a_round_trip(tmp_path):
    values = {'cache.rho_p': 0.4, 'instruction': 'lift it', 'cache.enabled': False, 'n': 30.0}
    write_parameters(values, tmp_path / 'deep' / 'file.yaml')
    assert read_parameters(tmp_path / 'deep' / 'file.yaml') == values


def test_nested_sections_become_dotted_keys(tmp_path):
    path = tmp_path / 'file.yaml'
    path.write_text('/**:\n  ros__parameters:\n    cache:\n      rho_p: 0.4\n')
    assert read_parameters(path) == {'cache.rho_p': 0.4}


@pytest.mark.parametrize('text', ['', 'rmuscle:\n  a: 1\n', '- 1\n', '{'])
def test_a_file_of_another_form_is_refused_with_its_name(tmp_path, text):
    path = tmp_path / 'file.yaml'
    path.write_text(text)
    with pytest.raises(ConfigError, match=r'file\.yaml: not a parameter file'):
        read_parameters(path)


def test_lists_of_numbers_are_written_as_ros_reads_them(tmp_path):
    write_parameters({'cache.anchors': (0, 5)}, tmp_path / 'file.yaml')
    assert read_parameters(tmp_path / 'file.yaml') == {'cache.anchors': [0, 5]}


@pytest.mark.parametrize('name', sorted(PRESETS.keys() - {'default'}))
def test_the_preset_file_holds_the_values_of_the_preset_and_no_others(name):
    values = read_parameters(CONFIG / 'presets' / f'{name}.yaml')
    assert with_values(PolicyConfig(), values) == with_values(PolicyConfig(), PRESETS[name])
    assert values.keys() == PRESETS[name].keys()


def test_every_preset_file_is_a_preset():
    found = {path.stem for path in (CONFIG / 'presets').iterdir()}
    assert found == PRESETS.keys() - {'default'}


def test_the_shipped_file_lists_every_setting_of_the_caches_with_its_default():
    values = read_parameters(CONFIG / 'aloha.yaml')
    for key, _, default in fields_of(PolicyConfig()):
        if key.startswith('cache.'):
            found = values[key]
            expected = STATION_VALUES.get(key, default)
            assert (tuple(found) if isinstance(found, list) else found) == expected, key
