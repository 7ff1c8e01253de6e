import pytest

from rmuscle_ros.config import (
    LIVE_OPTIONS,
    PolicyConfig,
    fields_of,
    load_config,
    with_values,
)
from rmuscle_ros.errors import ConfigError


def test_every_option_has_a_description():
    for key, item, _ in fields_of(PolicyConfig()):
        assert item.metadata['description'], key


def test_live_options_have_one_short_name_each():
    live = [key for key, item, _ in fields_of(PolicyConfig()) if item.metadata['live']]
    assert sorted(LIVE_OPTIONS.values()) == sorted(live)
    assert LIVE_OPTIONS['rho_p'] == 'cache.rho_p'
    assert LIVE_OPTIONS['shadow_every'] == 'shadow.every'


def test_values_are_set_by_dotted_key():
    config = with_values(PolicyConfig(), {'cache.rho_p': 1, 'library.record': True})
    assert config.cache.rho_p == 1.0
    assert isinstance(config.cache.rho_p, float)
    assert config.library.record
    assert PolicyConfig().cache.rho_p == 0.2


@pytest.mark.parametrize(
    ('key', 'value', 'message'),
    [
        ('cache.rho_p', 1.5, 'cache.rho_p: found 1.5, expected a value from 0 to 1'),
        ('cache.rho_p', float('nan'), 'cache.rho_p: found nan'),
        ('cache.rho_n', -0.1, 'from 0 to 1'),
        ('cache.error_budget', -1.0, 'at least 0'),
        ('cache.rho_p', 'high', "cache.rho_p: found 'high', expected a float"),
        ('cache.rho_p', True, 'found True, expected a float'),
        ('cache.references', 2.5, 'found 2.5, expected a int'),
        ('cache.references', 0, 'from 1 to 64'),
        ('cache.anchors', 5, 'cache.anchors: found 5, expected a list of whole numbers'),
        ('cache.anchors', [0, 2.5], r'found \[0, 2.5\], expected a list of whole numbers'),
        ('cache.anchors', [0, True], 'expected a list of whole numbers'),
        ('cache.unselected', 'guess', "found 'guess', expected one of hold, extrapolate, ref"),
        ('cache.mask_source', 'none', 'expected one of reference, anchor, both'),
        ('cache.noise', 'none', 'expected one of fresh, shared'),
        ('cache.group_len', 5, 'cache.group_len: unknown key; it was replaced: .*cache.anchors'),
        ('cache.window_mib', float('inf'), 'found inf, expected a finite number'),
        pytest.param('cache.error_budget', 10**400, 'found inf, expected a finite', id='huge'),
        ('cache', 3, 'cache: found 3, expected a section with keys of cache.advance_margin'),
        ('library.admit', 'some', "found 'some', expected one of success, all"),
        ('cache.rho', 0.4, 'cache.rho: unknown key \\(did you mean cache.rho_'),
        ('nonsense', 1, 'nonsense: unknown key'),
    ],
)
def test_bad_values_are_refused_with_the_reason(key, value, message):
    with pytest.raises(ConfigError, match=message):
        with_values(PolicyConfig(), {key: value})


def test_yaml_sections_are_read_strictly(tmp_path):
    path = tmp_path / 'policy.yaml'
    path.write_text('cache:\n  rho_p: 0.3\n  anchors: [0, 4]\nlibrary:\n  admit: all\n')
    config = load_config(path)
    assert (config.cache.rho_p, config.library.admit) == (0.3, 'all')
    assert config.cache.anchors == (0, 4)
    path.write_text('cache:\n  rho_q: 0.2\n')
    with pytest.raises(ConfigError, match=r'cache\.rho_q'):
        load_config(path)
    path.write_text('cache: [')
    with pytest.raises(ConfigError, match='not valid YAML'):
        load_config(path)
    path.write_text('- 1')
    with pytest.raises(ConfigError, match='found a list'):
        load_config(path)
    path.write_bytes(b'\xff\xfe')
    with pytest.raises(ConfigError, match='not valid YAML'):
        load_config(path)
    with pytest.raises(ConfigError, match='cannot be read'):
        load_config(tmp_path / 'none.yaml')
