import json

import pytest

from rmuscle_ros import cli
from rmuscle_ros.eval import closed_loop, closed_loop_command


def test_dense_episodes_are_reported_and_written(tmp_path, capsys):
    path = tmp_path / 'new' / 'eval.json'
    words = [
        'eval',
        '--task',
        'lift_cube',
        '--episodes',
        '2',
        '--modes',
        'dense',
        '--checkpoint',
        '',
    ]
    assert cli.main([*words, '--json', str(path)]) == 0
    result = json.loads(path.read_text())
    dense = result['modes']['dense']
    assert dense['success'] == dense['lifted'] == [0, 2]
    # 300 control steps, a call every 25
    assert dense['calls'] == {
        'dense': 24,
        'cached': 0,
        'fallback': 0,
        'not_ready': 0,
        'no_reference': 0,
    }
    assert dense['latency_ms']['p50'] > 0
    assert dense['latency_ms']['p99'] is None
    assert [episode['seed'] for episode in result['episodes']['dense']] == [0, 1]
    assert 'lift_cube, scenes 0 to 1' in capsys.readouterr().out


def test_an_untrained_policy_gives_no_references(capsys, monkeypatch):
    monkeypatch.setattr(closed_loop, 'MOST_REFERENCE_TRIES', 1)
    words = [
        'eval',
        '--task',
        'lift_cube',
        '--episodes',
        '1',
        '--modes',
        'rmuscle',
        '--checkpoint',
        '',
    ]
    assert cli.main([*words, '--references', '2']) == 2
    assert 'found 0 successes in 2 episodes of lift_cube' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--modes', 'dense,warp'], 'found modes dense,warp'),
        (['--episodes', '0'], '0 episodes'),
        (['--episodes', '1', '--references', '1'], 'references: found 1, expected at least 2'),
    ],
)
def test_bad_options_are_refused(words, message, capsys):
    assert cli.main(['eval', *words]) == 2
    assert message in capsys.readouterr().err


def test_the_command_offers_every_mode():
    assert tuple(closed_loop.MODES) == closed_loop_command.MODES
