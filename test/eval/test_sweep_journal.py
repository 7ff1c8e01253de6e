"""A journal gives back exactly what was measured in exactly these circumstances."""

import dataclasses
import json

import numpy as np
import pytest
from fake_trials import make_trial

from rmuscle_ros.config import PolicyConfig, with_values
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.sweep import grid as grid_module
from rmuscle_ros.eval.sweep import identity
from rmuscle_ros.eval.sweep.encoding import decode, encode
from rmuscle_ros.eval.sweep.factors import Setting
from rmuscle_ros.eval.sweep.grid import Grid
from rmuscle_ros.eval.sweep.journal import Journal

ABOUT = {'setting': 'a', 'seed': 3}


@pytest.mark.parametrize('name', ['dense', 'rmuscle'])
def test_a_trial_survives_its_encoding(name):
    trial = make_trial(np.random.default_rng(0), name, 5)
    assert decode(json.loads(json.dumps(encode(trial)))) == trial


def test_what_was_put_is_found_again(tmp_path):
    path = tmp_path / 'sweep.journal.jsonl'
    Journal(path).put(ABOUT, 'a label', {'value': [1, 0.1 + 0.2]})
    again = Journal(path)
    assert again.get(dict(reversed(ABOUT.items()))) == {'value': [1, 0.1 + 0.2]}
    again.put({'seed': 4}, 'another', 5)
    assert len(Journal(path)) == 2


@pytest.mark.parametrize('other', [{'seed': 4}, {'setting': 'b'}, {'software': 'new'}])
def test_other_circumstances_are_not_the_same(other):
    journal = Journal(None)
    journal.put(ABOUT, '', 1)
    assert journal.get({**ABOUT, **other}) is None


def test_a_line_cut_short_is_dropped_and_the_next_one_is_whole(tmp_path):
    path = tmp_path / 'sweep.journal.jsonl'
    journal = Journal(path)
    journal.put({'n': 1}, '', 1)
    journal.put({'n': 2}, '', 2)
    path.write_text(path.read_text()[:-9])
    again = Journal(path)
    assert (again.get({'n': 1}), again.get({'n': 2})) == (1, None)
    again.put({'n': 3}, '', 3)
    assert (len(Journal(path)), Journal(path).get({'n': 3})) == (2, 3)


@pytest.mark.parametrize('line', ['{"key": "0"}', 'nonsense', '[]'])
def test_a_damaged_line_is_an_error_that_names_it(tmp_path, line):
    path = tmp_path / 'sweep.journal.jsonl'
    Journal(path).put(ABOUT, '', 1)
    path.write_text(path.read_text() + line + '\n')
    with pytest.raises(ConfigError, match=r'line 2: found .*expected a measurement'):
        Journal(path)


def test_a_setting_is_known_by_what_it_resolves_to(monkeypatch):
    """A default that changes makes other settings, though their values read the same."""
    journal = Journal(None)
    setting = Setting('default', {}, 5)
    grid = Grid([setting], [1, 2], journal, {})
    grid.put('default', 1, make_trial(np.random.default_rng(0), 'rmuscle', 1), [])
    same = Grid([dataclasses.replace(setting, name='renamed')], [1, 2], journal, {})
    assert same.found == 1 and same.pending() == {2: ['renamed']}
    for other in (
        dataclasses.replace(setting, references=6),
        dataclasses.replace(setting, values={'cache.rho_p': 0.3}),
    ):
        assert Grid([other], [1, 2], journal, {}).found == 0
    assert Grid([setting], [1, 2], journal, {'fingerprint': 'other'}).found == 0
    tightened = with_values(PolicyConfig(), {'cache.similarity_threshold': 0.99})
    monkeypatch.setattr(grid_module, 'PolicyConfig', lambda: tightened)
    assert Grid([setting], [1, 2], journal, {}).found == 0


def test_the_source_that_is_measured_counts(tmp_path, monkeypatch):
    for part in identity.SOURCES:
        (tmp_path / part).mkdir()
    for name in identity.MODULES:
        path = tmp_path / f'{name.replace(".", "/")}.py'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('x = 1\n')
    guard = tmp_path / 'cache' / 'guard.py'
    guard.write_text('limit = 1\n')
    monkeypatch.setattr(identity.rmuscle_ros, '__file__', str(tmp_path / '__init__.py'))
    digest = identity.source_digest.__wrapped__
    before = digest()
    assert digest() == before
    guard.write_text('limit = 2\n')
    assert digest() != before


def test_the_source_of_every_measured_part_exists():
    root = identity.Path(identity.rmuscle_ros.__file__).parent
    assert all((root / part).is_dir() for part in identity.SOURCES)
    assert all((root / f'{name.replace(".", "/")}.py').is_file() for name in identity.MODULES)


@pytest.mark.parametrize('content', [b'my notes', b'{"my": "data"}', b'{"key": "a"}\nnotes'])
def test_a_foreign_file_keeps_its_last_line(tmp_path, content):
    path = tmp_path / 'sweep.journal.jsonl'
    path.write_bytes(content)
    with pytest.raises(ConfigError, match='expected a measurement'):
        Journal(path)
    assert path.read_bytes() == content


def test_other_line_ends_cost_no_measurement(tmp_path):
    path = tmp_path / 'sweep.journal.jsonl'
    Journal(path).put({'n': 1}, '', 1)
    whole = path.read_bytes().replace(b'\n', b'\r\n')
    path.write_bytes(whole + b'{"key": "cut')
    assert Journal(path).get({'n': 1}) == 1
    assert path.read_bytes() == whole
