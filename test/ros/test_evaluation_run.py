"""An evaluation through nodes that the test plays: turns, results, and ends that come early."""

import datetime
import json
import types

import pytest

pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')

from fake_policy import FakePolicy

from rmuscle_ros import cli
from rmuscle_ros.errors import ConfigError, ProcessError
from rmuscle_ros.eval.closed_loop import Request
from rmuscle_ros.eval.comparison_page import page
from rmuscle_ros.eval.comparison_table import table
from rmuscle_ros.eval.modes import MODES
from rmuscle_ros.memory.library import Library
from rmuscle_ros.msg import EpisodeResult
from rmuscle_ros.ros.episode_driver import Ended
from rmuscle_ros.ros.evaluation import run
from rmuscle_ros.ros.evaluation.progress import Progress
from rmuscle_ros.ros.evaluation.run import Ran, RosLoop, compare, result
from rmuscle_ros.types import Mode, Provenance, Reason, StageTimes

pytestmark = pytest.mark.ros
CALLS = 3


class FakeNode:
    """A policy node: its calls are numbered on, and each second one was rerun densely."""

    def __init__(self, name, log, fail_at=None):
        self.name, self._log, self._fail_at = name, log, fail_at
        self.parameters = {'cache.rho_p': 0.3, 'library.directory': '/gone', 'cameras': ['a']}
        self.listener = self
        self._number = 0

    def run(self, seed, progress):
        self._log.append((seed, self.name))
        if isinstance(self._fail_at, dict) and seed in self._fail_at:
            raise self._fail_at[seed]
        progress(1.0, CALLS)
        verdict = EpisodeResult(seed=seed, success=seed != 1, max_reward=4, steps=150)
        return Ended(None if self._fail_at == seed else verdict, True, '', 'no verdict')

    def finish(self):
        times = StageTimes(1.0, 2.0, 3.0, 6.0, 0.0)
        calls = [
            Provenance(number, 0, Mode.CACHED, Reason.CACHED, '', times, 0.0)
            for number in range(self._number, self._number + CALLS)
        ]
        self._number += CALLS
        return tuple(calls)

    def error(self, call):
        return 0.01 if call % 2 and self.name == 'rmuscle' else None

    def spread_p50(self):
        return 0.05 if self.name == 'rmuscle' else None

    def problems(self):
        return ('schedule: late',) if self.name == 'dense' else ()

    def info(self):
        return FakePolicy().info


def make_request(modes=('dense', 'rmuscle'), scenes=3, **changes):
    values = {
        'checkpoint': 'weights',
        'task': 'transfer_cube',
        'seeds': range(scenes),
        'modes': [MODES[name] for name in modes],
        'references': 2,
        'ros': True,
    }
    return Request(**(values | changes))


def make_loop(request, log=None, **fail_at):
    log = [] if log is None else log
    nodes = {m.name: FakeNode(m.name, log, fail_at.get(m.name)) for m in request.modes}
    return RosLoop(nodes, request.task, Progress())


def make_result(**changes):
    request = make_request(**changes)
    loop = make_loop(request)
    loop.run(request.seeds)
    ran = Ran(loop, [500_000, 500_002], Library(), trained=True)
    return result(request, ran, datetime.datetime.now(datetime.timezone.utc))


def test_the_modes_take_turns_in_an_order_that_rotates():
    log = []
    request = make_request()
    make_loop(request, log).run(request.seeds)
    turns = [name for _, name in log]
    assert turns == ['dense', 'rmuscle', 'rmuscle', 'dense', 'dense', 'rmuscle']
    assert [seed for seed, _ in log] == [0, 0, 1, 1, 2, 2]


def test_the_result_has_the_form_of_one_in_process(monkeypatch):
    found = make_result()
    assert json.loads(json.dumps(found, allow_nan=False))
    assert found['execution']['ros'] is True
    dense, cached = found['modes']['dense'], found['modes']['rmuscle']
    assert dense['success'] == cached['success'] == [2, 3]
    assert cached['calls']['cached'] == 9
    assert cached['latency_ms']['p50'] == 6.0
    # Of nine calls four were rerun; topics tell no rebuild times.
    assert cached['action_error']['calls'] == 4
    assert cached['action_error']['max'] == 0.01
    assert cached['rebuild'] is None
    assert found['spread'] == {'p50': 0.05, 'p99': None, 'max': None, 'calls': None}
    assert cached['settings']['cache.rho_p'] == 0.3
    assert cached['settings']['library.directory'] == ''
    assert 'cameras' not in cached['settings']
    assert found['episodes']['rmuscle'][1]['seed'] == 1
    assert found['references']['seeds'] == [500_000, 500_002]
    assert found['incidents'] == {'dense': ['schedule: late'], 'rmuscle': []}


@pytest.mark.parametrize('modes', [('dense', 'rmuscle'), ('rmuscle',), ('dense', 'fewer_steps')])
def test_table_and_page_say_that_the_noise_is_not_paired(modes):
    found = make_result(modes=modes)
    assert 'the scenes are paired, the noise is not' in table(found)
    html = page(found)
    assert 'with noise of its own' in html
    assert 'same sequence of noise' not in html
    assert 'None' not in html


def play(monkeypatch, **fail_at):
    """Let ``compare`` find nodes of the test; returns what it started."""
    started = {}

    class FakeLab:
        def __init__(self, task, checkpoint, folder, progress):
            self.shared = {'engine.threads': 1}
            started['folder'] = folder

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def start(self, name, values):
            started[name] = values
            return FakeNode(name, [], fail_at.get(name))

    fake = types.SimpleNamespace(
        record=lambda lab, count, directory, progress: [500_000, 500_001],
        fitted=lambda directory, mode, shared, target: directory,
    )
    monkeypatch.setattr(run, 'Lab', FakeLab)
    monkeypatch.setattr(run, 'references', fake)
    return started


def test_each_mode_has_a_node_with_its_parameters(monkeypatch):
    started, published = play(monkeypatch), []
    compare(make_request(modes=('dense', 'rmuscle_paper')), published.append)
    assert published[0]['complete']
    assert started['dense'] == {**MODES['dense'].values, 'library.directory': ''}
    library = str(started['folder'] / 'library')
    assert started['rmuscle_paper']['library.directory'] == library
    assert not started['folder'].exists()


@pytest.mark.parametrize('error', [KeyboardInterrupt(), ProcessError('rmuscle ended by itself')])
def test_an_early_end_publishes_the_finished_scenes_and_keeps_the_logs(monkeypatch, error):
    started, published = play(monkeypatch, rmuscle={2: error}), []
    with pytest.raises(type(error)):
        compare(make_request(scenes=4), published.append)
    assert published[0]['seeds'] == [0, 1]
    assert published[0]['complete'] is False
    assert started['folder'].exists()
    started['folder'].rmdir()


def test_an_episode_without_a_verdict_ends_the_run_with_its_reason(monkeypatch):
    started, published = play(monkeypatch, dense=0), []
    with pytest.raises(ProcessError, match='dense, scene 0: no verdict'):
        compare(make_request(), published.append)
    assert not published
    started['folder'].rmdir()


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'references': 1}, 'references: found 1, expected at least 2'),
        ({'seeds': range(499_999, 500_001)}, 'expected none of 500000 to 500007'),
    ],
)
def test_what_the_references_forbid_is_refused_before_anything_starts(changes, message):
    with pytest.raises(ConfigError, match=message):
        compare(make_request(**changes), lambda _: None)


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--ros', '--modes', 'dense,replay'], 'found replay, which no node runs'),
        (['--ros', '--episodes', '0'], '--episodes: found 0'),
        (['--ros', '--episodes', '1', '--references', '1'], 'references: found 1'),
        (['--ro'], '--ros: found it abbreviated'),
    ],
)
def test_bad_options_are_refused(words, message, capsys):
    assert cli.main(['eval', *words]) == 2
    assert message in capsys.readouterr().err


def test_the_help_tells_of_both_ways(capsys):
    for words, text in (([], '--ros'), (['--ros'], 'modes that the node can run')):
        with pytest.raises(SystemExit):
            cli.main(['eval', *words, '--help'])
        assert text in capsys.readouterr().out
