"""The command line of the sweep: options, files, help."""

import json

import pytest
from fake_sweep import make_result

from rmuscle_ros import cli
from rmuscle_ros.eval.sweep import run as sweep
from rmuscle_ros.eval.sweep.factors import FACTORS, find_factors

SWEEP = ('eval', 'sweep')


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--factors', 'rho_b'], "found 'rho_b' (did you mean rho_p?), expected names of"),
        (['--factors', 'rho_p,'], "found '', expected names of error_budget"),
        (['--episodes', '0'], '--episodes: found 0, expected at least 1'),
        (['--states', '-1'], '--states: found -1, expected at least 0'),
        (['--references', '1'], '--references: found 1, expected at least 2'),
        (['--factors', 'none', '--states', '0'], 'found nothing to measure'),
        (['--json', 'page.html'], 'the same file for json and html'),
        (['--json', 'a.json', '--html', 'test/../a.json'], 'the same file for json and html'),
        (['--json', ''], "--json: found '.', expected the name of a file"),
        (['--seed', '-1'], '--seed: found -1'),
        (['--json', 'a.json', '--html', 'a.journal.jsonl'], 'for html and journal'),
        (['--json', '/dev/null/sweep.json'], '/dev/null/sweep.json: cannot be written'),
        (['--seed', '500000'], 'which references are recorded on'),
    ],
)
def test_bad_options_are_refused_before_anything_runs(words, message, capsys):
    assert cli.main([*SWEEP, *words]) == 2
    assert message in capsys.readouterr().err


def test_a_damaged_journal_is_refused(tmp_path, capsys):
    (tmp_path / 'sweep.journal.jsonl').write_text('nonsense\n')
    assert cli.main([*SWEEP, '--json', str(tmp_path / 'sweep.json')]) == 2
    assert 'line 1: found' in capsys.readouterr().err


def test_the_result_is_printed_and_written(tmp_path, capsys, monkeypatch):
    asked = []

    def run(request, journal, publish):
        asked.append((request, journal))
        publish(make_result(find_factors('rho_p,noise'), scenes=2, states=1))

    monkeypatch.setattr(sweep, 'run', run)
    path = tmp_path / 'new' / 'sweep.json'
    words = ['--factors', 'rho_p,noise', '--episodes', '2', '--seed', '700005', '--states', '1']
    assert cli.main([*SWEEP, *words, '--json', str(path)]) == 0
    (request, _) = asked[0]
    assert request.seeds == range(700005, 700007)
    assert [factor.name for factor in request.factors] == ['rho_p', 'noise']
    assert '--factors rho_p,noise --states 1' in request.command
    result = json.loads(path.read_text())
    assert result['closed_loop']['factors']['rho_p']['points']['0.2'] == 'rho_p 0.2'
    out = capsys.readouterr().out
    assert 'rho_p: share of visual rows recomputed, without the guard' in out
    assert '* The default settings are 1.' in out
    assert f'wrote {path}' in out
    assert 'One factor at a time' in path.with_suffix('.html').read_text()


def test_the_help_names_every_factor(capsys):
    with pytest.raises(SystemExit):
        cli.main([*SWEEP, '--help'])
    out = capsys.readouterr().out
    for factor in FACTORS:
        assert f'\n  {factor.name} ' in out and factor.description in out
