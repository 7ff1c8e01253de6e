import json

import pytest

from rmuscle_ros import cli
from rmuscle_ros.eval import workbench
from rmuscle_ros.eval.modes import MODES, find_modes

UNTRAINED = ('eval', '--task', 'lift_cube', '--checkpoint', '')


def test_episodes_are_reported_and_written(tmp_path, capsys):
    path = tmp_path / 'new' / 'eval.json'
    words = ['--episodes', '1', '--modes', 'dense,fewer_steps,step_skip', '--json', str(path)]
    assert cli.main([*UNTRAINED, *words]) == 0
    result = json.loads(path.read_text())
    dense, fewer = result['modes']['dense'], result['modes']['fewer_steps']
    assert dense['success'] == dense['lifted'] == [0, 1]
    # 300 control steps, a call every 25
    assert dense['calls'] == {
        'dense': 12,
        'cached': 0,
        'fallback': 0,
        'not_ready': 0,
        'no_reference': 0,
    }
    assert dense['latency_ms']['p50'] > fewer['latency_ms']['p50'] > 0
    assert dense['latency_ms']['p99'] is None
    assert dense['action_error'] is None
    # An untrained flow is nearly straight: six Euler steps are close, but not exact.
    assert 0 < fewer['action_error']['max'] < 0.5
    assert fewer['action_error']['calls'] == 12
    assert fewer['settings']['engine.denoise_steps'] == 3
    assert result['modes']['step_skip']['settings']['computed']
    assert result['spread']['p50'] > 0
    assert [episode['seed'] for episode in result['episodes']['dense']] == [0]
    out = capsys.readouterr().out
    assert 'lift_cube, scenes 0 to 0' in out
    assert f'wrote {path}' in out
    assert 'The weights are untrained' in path.with_suffix('.html').read_text()


def test_an_untrained_policy_gives_no_references(capsys, monkeypatch):
    monkeypatch.setattr(workbench, 'MOST_REFERENCE_TRIES', 1)
    words = ['--episodes', '1', '--modes', 'rmuscle', '--references', '2']
    assert cli.main([*UNTRAINED, *words]) == 2
    assert 'found 0 successes in 2 episodes of lift_cube' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--modes', 'dense,warp'], "found 'warp', expected names of dense, rmuscle"),
        (['--modes', 'rmuscle_fix'], '(did you mean rmuscle_fixed?)'),
        (['--modes', 'dense,'], "found '', expected"),
        (['--modes', 'dense,replay, dense'], 'found dense twice'),
        (['--episodes', '0'], '--episodes: found 0'),
        (['--episodes', '1', '--references', '1'], 'references: found 1, expected at least 2'),
        (['--json', 'page.html'], 'the same file for json and html'),
        (['--json', 'a.json', '--html', 'test/../a.json'], 'the same file for json and html'),
        (['--json', ''], "--json: found '.', expected the name of a file"),
        (['--seed', '-1'], '--seed: found -1'),
        (['--json', '/dev/null/eval.json'], '/dev/null/eval.json: cannot be written'),
    ],
)
def test_bad_options_are_refused_before_anything_runs(words, message, capsys):
    assert cli.main(['eval', *words]) == 2
    assert message in capsys.readouterr().err


def test_a_directory_is_no_file_for_the_page(tmp_path, capsys):
    assert cli.main(['eval', '--html', str(tmp_path)]) == 2
    assert 'found a directory, expected the name of a file' in capsys.readouterr().err


def test_all_modes_by_one_word_and_in_the_help(capsys):
    assert find_modes('all') == list(MODES.values())
    assert [mode.name for mode in find_modes('replay, dense')] == ['replay', 'dense']
    with pytest.raises(SystemExit):
        cli.main(['eval', '--help'])
    out = capsys.readouterr().out
    for mode in MODES.values():
        assert mode.name in out and mode.description in out


def test_the_modes_of_the_issue_exist():
    assert list(MODES) == [
        'dense', 'rmuscle', 'rmuscle_fixed', 'rmuscle_paper', 'fewer_steps', 'step_skip',
        'nirvana', 'token_kv', 'replay',
    ]  # fmt: skip
