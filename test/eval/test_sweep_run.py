"""Settings take turns on the same noise; an interrupted sweep goes on where it was."""

import dataclasses
import json
import types

import numpy as np
import pytest
from fake_station import SMALL_INFO, FakeActor, FakeOracle, FakeStation
from fake_sweep import FakeComparison

from rmuscle_ros.errors import ConfigError, RebuildError
from rmuscle_ros.eval.sweep import run as sweep
from rmuscle_ros.eval.sweep.factors import Factor, Point
from rmuscle_ros.eval.sweep.journal import Journal

FACTOR = Factor(
    'rho_p',
    'planted',
    (Point('0.2', {'cache.rho_p': 0.3}), Point('shared', {'cache.noise': 'shared'})),
)
NAMES = ['dense', 'default', 'rho_p 0.2', 'rho_p shared']
SEEDS = range(3)
# 100 control steps, a call every 25, executed 6 rows at a time
CALLS = 17


class SharedOracle(FakeOracle):
    """Tells that it was asked."""

    def __init__(self, engine, noise_of):
        super().__init__()

    def error(self, observation, noise, chunk):
        return 7.0


@pytest.fixture
def stub(monkeypatch):
    """stub(fingerprint): fakes in place of model and simulator; returns who was asked what."""

    def make(fingerprint='f', stop_after=None):
        events = []
        asked = 0

        class Actor(FakeActor):
            def infer(self, observation, *, noise=None):
                nonlocal asked
                asked += 1
                if asked == stop_after:
                    raise RebuildError('died')
                return super().infer(observation, noise=noise)

        class Bench:
            info = dataclasses.replace(SMALL_INFO, fingerprint=fingerprint)
            trained, mode = True, sweep.SweepBench.mode

            def __init__(self, checkpoint):
                self.reference_seeds, self.library = [], []

            def record(self, station, count):
                events.append(('bench', 'record', count))
                self.reference_seeds = list(range(count))

            def policy(self, setting):
                return Actor(setting.name, events)

            def engine(self):
                return None

            def noises(self):
                return {}

            def settings(self, mode):
                return dict(mode.values)

        monkeypatch.setattr(sweep, 'SweepBench', Bench)
        monkeypatch.setattr(sweep, 'AlohaStation', lambda size, task: FakeStation(9.0))
        monkeypatch.setattr(sweep, 'DenseOracle', lambda engine: FakeOracle())
        monkeypatch.setattr(sweep, 'SharedNoiseOracle', SharedOracle)
        monkeypatch.setattr(sweep, 'Comparison', lambda *_: FakeComparison())
        states = [types.SimpleNamespace(call=0, similarity=0.9)]
        monkeypatch.setattr(sweep, 'collect', lambda *_: states)
        monkeypatch.setattr(sweep.closed_loop, 'header', _header)
        return events

    return make


def _header(request, bench, started, finished):
    return {'seeds': [finished[0], finished[-1]], 'task': request.task}


def request(seeds=SEEDS, factors=(FACTOR,), states=1, references=2):
    return sweep.Request('some', 'lift_cube', seeds, factors, references, states, 'x')


def swept(asked, journal):
    """The one result that is published."""
    published = []
    try:
        sweep.run(asked, journal, published.append)
    finally:
        assert len(published) <= 1
    return published[0]


def trials_run(events):
    return [who for who, what, _ in events if what == 'reset']


def noises(events, name):
    return [noise for who, what, noise in events if who == name and what == 'infer']


def test_every_setting_is_paired_with_dense_and_takes_turns(stub):
    events = stub()
    result = swept(request(), Journal(None))
    dense, *others = (noises(events, name) for name in NAMES)
    assert len(dense) == len(SEEDS) * CALLS
    for other in others:
        assert all(map(np.array_equal, dense, other))
    assert trials_run(events)[:8] == [*NAMES, *NAMES[1:], NAMES[0]]
    assert result['complete'] is True
    assert result['closed_loop']['scenes'] == 3
    modes = result['closed_loop']['modes']
    assert list(modes) == NAMES
    assert modes['rho_p shared']['action_error']['mean'] == 7.0
    assert modes['rho_p 0.2']['action_error']['mean'] == 0.0
    assert result['action_cache']['states'] == 3
    assert events.count(('bench', 'record', 2)) == 1


def test_a_finished_sweep_is_not_run_again(stub, tmp_path):
    path = tmp_path / 'x.journal.jsonl'
    stub()
    first = swept(request(), Journal(path))
    events = stub()
    again = swept(request(), Journal(path))
    assert events == []
    assert again['found'] == {'trials': [12, 12], 'scenes': [3, 3]}
    assert json.dumps({**again, 'found': first['found']}) == json.dumps(first)
    assert again['references'] == {'seeds': [0, 1], 'entries': 0}


def test_an_interrupted_sweep_goes_on_where_it_was(stub, tmp_path):
    path = tmp_path / 'x.journal.jsonl'
    stub(stop_after=6 * CALLS + 5)
    published = []
    with pytest.raises(RebuildError):
        sweep.run(request(), Journal(path), published.append)
    # One scene and two trials were finished; the third one of the second scene was not.
    assert published[0]['complete'] is False
    assert published[0]['closed_loop']['scenes'] == 1
    assert published[0]['action_cache'] is None
    events = stub()
    result = swept(request(), Journal(path))
    assert trials_run(events)[:2] == ['rho_p shared', 'dense']
    assert len(trials_run(events)) == 6
    assert result['complete'] is True and result['found']['trials'] == [6, 12]
    stub()
    whole = swept(request(), Journal(None))
    # The spread is of every third call since a run began, and waiting takes real time.
    modes, expected = (
        {name: {**mode, 'rebuild': None} for name, mode in made['closed_loop']['modes'].items()}
        for made in (result, whole)
    )
    assert modes == expected


@pytest.mark.parametrize(
    ('changed', 'rerun'),
    [
        ({'seeds': range(1, 5)}, 8),
        ({'references': 3}, 9),
        ({'factors': (Factor('other', '', (Point('same', {'cache.rho_p': 0.3}),)),)}, 0),
        ({'factors': (Factor('other', '', (Point('new', {'cache.rho_p': 0.5}),)),)}, 3),
    ],
)
def test_only_what_is_not_the_same_is_run_again(stub, tmp_path, changed, rerun):
    path = tmp_path / 'x.journal.jsonl'
    stub()
    swept(request(states=0), Journal(path))
    events = stub()
    swept(request(**{'states': 0, **changed}), Journal(path))
    assert len(trials_run(events)) == rerun


@pytest.mark.parametrize('what', ['model', 'software'])
def test_another_model_and_other_software_begin_anew(stub, tmp_path, monkeypatch, what):
    path = tmp_path / 'x.journal.jsonl'
    stub()
    swept(request(), Journal(path))
    events = stub(fingerprint='g' if what == 'model' else 'f')
    if what == 'software':
        monkeypatch.setattr('rmuscle_ros.eval.sweep.identity.source_digest', lambda: 'edited')
    result = swept(request(), Journal(path))
    assert len(trials_run(events)) == 12
    assert result['found'] == {'trials': [0, 12], 'scenes': [0, 3]}


def test_each_part_can_be_left_out(stub):
    events = stub()
    alone = swept(request(factors=()), Journal(None))
    assert trials_run(events) == [] and alone['closed_loop'] is None
    assert alone['action_cache']['scenes'] == 3 and alone['seeds'] == [0, 2]
    other = swept(request(states=0), Journal(None))
    assert other['action_cache'] is None and other['complete'] is True


def test_the_largest_library_is_recorded_once(stub):
    events = stub()
    many = Factor('library', '', (Point('9', references=9),))
    swept(request(factors=(many,)), Journal(None))
    assert [count for _, what, count in events if what == 'record'] == [9]


def test_a_scene_must_not_be_its_own_reference(stub):
    stub()
    with pytest.raises(ConfigError, match='which references are recorded on'):
        swept(request(seeds=range(499_999, 500_001)), Journal(None))
