"""``rmuscle train ...`` from the command line."""

import pytest
from training_fixtures import SETTINGS

from rmuscle_ros import cli
from rmuscle_ros.config import fields_of

SMALL = '--steps 2 --look-steps 1 --blind-steps 1 --batch 4 --check-every 0 --validation 1'


@pytest.mark.parametrize('words', ['train data', 'train run', 'train export'])
def test_help_has_examples(words, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([*words.split(), '--help'])
    text = capsys.readouterr().out
    assert end.value.code == 0
    assert f'examples:\n  rmuscle {words}' in text


def test_every_setting_is_an_option(capsys):
    with pytest.raises(SystemExit):
        cli.main(['train', 'run', '--help'])
    text = capsys.readouterr().out
    missing = [
        key for key, _, _ in fields_of(SETTINGS) if f'--{key.replace("_", "-")}' not in text
    ]
    assert missing == []


def test_run_trains_and_goes_on(dataset, tmp_path, capsys):
    words = ['train', 'run', str(dataset), str(tmp_path), '--processes', '1', *SMALL.split()]
    assert cli.main(words) == 0
    assert '2 steps done' in capsys.readouterr().out
    assert {'losses.csv', 'losses.png', 'state.safetensors'} <= {
        p.name for p in tmp_path.iterdir()
    }
    assert cli.main([*words, '--steps', '3']) == 0
    captured = capsys.readouterr()
    assert 'goes on at step 2' in captured.err and '3 steps done' in captured.out


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        ('run {data} {out} --ema 2', 'ema: found 2.0, expected a value from 0 to'),
        ('run {out} {out}', 'make a dataset first'),
        ('run {data} {out} --processes 0', '--processes: found 0'),
        ('data {out} --transfer 0 --lift 0', 'expected some episodes'),
        ('data {data}', 'use another directory'),
        ('export {out} {out} --seed 999999', 'expected scenes from 0 to 999999'),
        ('export {out} {out}', 'train first'),
    ],
)
def test_bad_input_is_an_error_that_says_what_to_do(dataset, tmp_path, capsys, words, message):
    line = words.format(data=dataset, out=tmp_path / 'out')
    assert cli.main(['train', *line.split()]) == 2
    assert message in capsys.readouterr().err
