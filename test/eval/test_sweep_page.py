"""The page and the sentences say what the numbers say."""

import copy
import re

import pytest
from fake_sweep import make_result
from html_page import Page

from rmuscle_ros.eval.sweep import plots, readings
from rmuscle_ros.eval.sweep.factors import DEFAULT, FACTORS, find_factors
from rmuscle_ros.eval.sweep.page import page
from rmuscle_ros.eval.sweep.table import table


@pytest.fixture(scope='module')
def result():
    return make_result(scenes=6)


def figures(text):
    return text.count('<svg role="img"')


def test_the_page_is_whole_and_self_contained(result):
    text = page(result)
    parsed = Page(text)
    assert parsed.errors == [] and parsed.open == []
    assert figures(text) == 2 + len(FACTORS)
    assert not [pair for pair in parsed.attributes if pair[1] in ('src', 'link')]
    assert not re.search(r'\b(nan|None(?! is))\b', parsed.text)
    for factor in FACTORS:
        assert factor.description in parsed.text
    for sentence in readings.headline(result):
        assert sentence in parsed.text
    ids = [value for _, name, value in parsed.attributes if name == 'id']
    assert len(ids) == len(set(ids))


def test_a_part_that_was_left_out_has_no_section():
    text = Page(page(make_result(find_factors('score'), scenes=2, states=0))).text
    assert 'One factor at a time' in text and 'Ways to reuse' not in text
    text = Page(page(make_result([], scenes=2, states=1))).text
    assert 'Ways to reuse' in text and 'One factor at a time' not in text


def test_a_run_that_ended_early_and_an_earlier_one_are_said():
    result = make_result(find_factors('score'), scenes=2, states=0)
    assert not re.search('ended early|earlier runs|untrained', page(result))
    early = {**result, 'complete': False, 'found': {'trials': [7, 90], 'scenes': [0, 6]}}
    early['model'] = {**result['model'], 'trained': False}
    text = Page(page(early)).text
    assert 'The run ended early' in text and '7 of 90 trials are of earlier runs' in text
    assert table(early).endswith('NOT COMPLETE: the run ended early.')
    assert 'The weights are untrained' in text


def test_the_table_has_every_setting_and_marks_front_and_default(result):
    lines = table(result).splitlines()
    loop = result['closed_loop']
    for name, factor in loop['factors'].items():
        start = lines.index(f'{name}: {factor["description"]}')
        for line, (label, setting) in zip(
            lines[start + 1 :], factor['points'].items(), strict=False
        ):
            assert line[1:].startswith(f'  {label}')
            assert line.startswith('*') == (setting in loop['front'])
            assert ('(default)' in line) == (setting == DEFAULT)


def planted(loop, **modes):
    """The loop's figures with other means: name -> (ms, error)."""
    loop = copy.deepcopy(loop)
    for name, (ms, error) in modes.items():
        loop['modes'][name]['latency_ms']['mean'] = ms
        loop['modes'][name]['action_error']['mean'] = error
    return loop


def test_what_beats_the_default_is_named_with_its_gain(result):
    everything = {name: (60.0, 0.03) for name in result['closed_loop']['modes'] if name != 'dense'}
    level = planted(result['closed_loop'], **everything)
    assert readings.better_than_default(level['modes']) == []
    better = planted(
        level,
        **{
            'rho_p 0.4': (48.0, 0.015),
            'rho_p 0.8': (30.0, 0.04),
            'noise shared': (20.0, 0.001),
            'lookahead 1': (59.5, 0.001),
        },
    )
    assert readings.better_than_default(better['modes']) == ['rho_p 0.4']
    assert (
        'Both faster and closer to dense than the default is rho_p 0.4 '
        '(20 % less time, 50 % less error).'
    ) in readings.headline({**result, 'closed_loop': better})


def test_a_factor_s_sentence(result):
    points = result['closed_loop']['factors']['error_budget']['points']
    names = list(points.values())
    level = planted(result['closed_loop'], **dict.fromkeys(names, (60.0, 0.03)))
    assert readings.factor(level, 'error_budget').startswith('No difference above 2 % in either')
    moved = planted(level, **{names[0]: (80.0, 0.01), names[-1]: (40.0, 0.05)})
    labels = list(points)
    assert readings.factor(moved, 'error_budget') == (
        f'Fastest: {labels[-1]} (40 ms, error 0.050). Closest to dense: {labels[0]} '
        '(80 ms, error 0.010). None is both faster and closer than the default.'
    )
    best = planted(level, **{names[0]: (40.0, 0.01)})
    assert readings.factor(best, 'error_budget') == (
        f'{labels[0]} is both the fastest and the closest to dense (40 ms, error 0.010). '
        f'Faster and closer than the default: {labels[0]}.'
    )


def test_success_beyond_chance_is_named_with_what_chance_would_name(result):
    modes = copy.deepcopy(result['closed_loop']['modes'])
    for mode in modes.values():
        if mode['mcnemar']:
            mode['mcnemar'] = {'better': 1, 'worse': 2, 'p': 1.0}
    assert readings.success(modes).startswith('In no setting does')
    modes['rho_p 0.2']['mcnemar'] = {'better': 0, 'worse': 8, 'p': 0.0078}
    assert readings.success(modes) == (
        'The success rate differs from dense beyond chance in rho_p 0.2 (worse, p = 0.008); of '
        f'{len(modes) - 1} tests at most about {0.05 * (len(modes) - 1):.0f} would say so by '
        'chance alone.'
    )


@pytest.mark.parametrize(
    ('better', 'worse', 'p', 'expected'),
    [(2, 2, 1.0, 'same'), (3, 1, 0.6, 'same'), (0, 2, 0.5, 'fewer'), (0, 8, 0.008, 'worse')],
)
def test_the_mark_of_a_setting_is_its_success_against_dense(better, worse, p, expected):
    mode = {'mcnemar': {'better': better, 'worse': worse, 'p': p}}
    assert plots.verdict('rho_p 0.2', mode) == expected
    assert plots.verdict('dense', {'mcnemar': None}) == 'reference'


def test_variants_are_compared_at_equal_work(result):
    found = copy.deepcopy(result['action_cache'])
    for variant in found['variants'].values():
        variant['error']['mean'] = 0.1
    found['variants'][found['paper']]['error']['mean'] = 0.05
    found['variants']['6 steps']['error']['mean'] = 0.01
    found['variants']['7 steps']['error']['mean'] = 0.001
    shared = next(name for name, v in found['variants'].items() if v['shared_noise'])
    found['variants'][shared]['error']['mean'] = 0.0001
    assert readings.best(found['variants'], 6) == '6 steps'
    assert readings.best(found['variants'], 6, 'skipped steps') not in ('6 steps', shared)
    assert readings.best(found['variants'], 0.5) is None
    sentences = readings.headline({'closed_loop': None, 'action_cache': found})
    assert sentences[0].endswith('at an error of 0.050; 6 steps are 5.0 × more accurate (0.010).')
    rows = {row[0]: row for row in readings.by_work(found)}
    assert rows['6'][1] == '0.010' and rows['7'][1] == '0.0010' and rows['5'][1] == '0.10'
    assert rows['2'][3:5] == ('–', '–')
