"""The page says what the result says, whatever is missing in it."""

import copy
import re
from collections import Counter

import numpy as np
import pytest
from fake_trials import make_result, make_scenes, make_trial
from html_page import Page

from rmuscle_ros.eval import comparison_words as said
from rmuscle_ros.eval.comparison_page import page
from rmuscle_ros.eval.modes import MODES
from rmuscle_ros.eval.trials import Trial

RESULT = make_result(30)
HTML = page(RESULT)


def without_calls(name):
    scenes = make_scenes(3)
    for scene in scenes:
        scene[name] = Trial(scene[name].rollout, ())
    return make_result(scenes)


PARTIAL = {
    'all modes': RESULT,
    'one scene': make_result(1),
    'dense alone': make_result(3, ('dense',)),
    'no dense': make_result(3, ('rmuscle', 'replay')),
    'one method': make_result(3, ('dense', 'token_kv')),
    'a mode without calls': without_calls('rmuscle'),
    'dense without calls': without_calls('dense'),
    'no spread': make_result(3, spread=[]),
    'ended early, untrained': make_result(3, requested=9, trained=False),
}


def text_of(result):
    return Page(page(result)).text.replace('\xa0', ' ')


@pytest.mark.parametrize('result', PARTIAL.values(), ids=PARTIAL.keys())
def test_the_page_is_well_formed_and_never_shows_a_python_none_or_nan(result):
    parsed = Page(page(result))
    assert (parsed.open, parsed.errors) == ([], [])
    assert not re.search(r'\b(None|nan|inf)\b', parsed.text)


def test_the_page_needs_no_network_and_no_other_file():
    links = [v for _, k, v in Page(HTML).attributes if k in ('src', 'href', 'xlink:href')]
    assert all(link.startswith(('#', 'data:')) for link in links)
    assert 'http' not in re.sub(r'xmlns(:\w+)?="[^"]*"', '', HTML)


def test_ids_are_unique_and_colours_follow_the_theme():
    ids = Counter(v for _, k, v in Page(HTML).attributes if k == 'id')
    assert max(ids.values()) == 1
    assert not re.search(r'(fill|stroke|color): ?#', HTML.split('</style>')[1])


def test_every_mode_is_shown_with_its_figures():
    text = text_of(RESULT)
    for name, mode in MODES.items():
        figures = RESULT['modes'][name]
        assert name in text and mode.description in text
        assert f'{figures["success"][0]} of 30' in text
        assert f'{100 * figures["success_interval"][0]:.0f} to' in text
        if name != 'dense':
            assert f'{figures["speedup_mean"]:.2f}' in text
            assert said.error(figures['action_error']['max']) in text
            for seed in figures['mcnemar']['worse_seeds']:
                assert re.search(rf'\b{seed}\b', text)


def test_the_page_says_how_to_repeat_the_run():
    text = text_of(RESULT)
    assert RESULT['command'] in text
    assert RESULT['versions']['torch'] in text and RESULT['model']['fingerprint'] in text
    assert '500000, 500001, 500003' in text


def result_with(better, worse, both=20, neither=5, name='rmuscle'):
    """A result in which ``name`` won and lost this many scenes against dense."""
    outcomes = [(1, 1)] * both + [(1, 0)] * better + [(0, 1)] * worse + [(0, 0)] * neither
    rng = np.random.default_rng(0)
    return make_result(
        [
            {
                'dense': make_trial(rng, 'dense', seed, dense),
                name: make_trial(rng, name, seed, ours),
            }
            for seed, (ours, dense) in enumerate(outcomes)
        ],
        ('dense', name),
    )


@pytest.mark.parametrize(
    ('better', 'worse', 'words', 'verdict'),
    [
        (0, 0, 'rmuscle succeeds in 20 of 25 scenes, the same ones as dense', 'never differs'),
        (2, 2, 'in 22 of 29 scenes, as often as dense', 'not told apart (p = 1.00)'),
        (1, 4, '21 of 30 scenes and dense in 24, a difference within chance', '(p = 0.38)'),
        (0, 8, '20 of 33 scenes and dense in 28, a loss beyond chance', '(p = 0.008)'),
        (9, 0, '29 of 34 scenes and dense in 20, a gain beyond chance', 'better than dense'),
    ],
)
def test_the_headline_claims_no_more_than_the_test_allows(better, worse, words, verdict):
    result = result_with(better, worse)
    assert words in said.headline(result)
    assert verdict in said.test(result['modes']['rmuscle'])
    assert said.headline(result) in text_of(result)


def test_slower_than_dense_is_said_and_not_hidden():
    result = copy.deepcopy(result_with(0, 0))
    result['modes']['rmuscle']['speedup_mean'] = 0.8
    assert 'its calls are 1.25 × slower on average' in said.headline(result)


def test_the_interval_of_the_difference_is_rounded_away_from_zero():
    result = copy.deepcopy(result_with(1, 2))
    result['modes']['rmuscle']['difference'] |= {'share': -0.04, 'interval': [-0.121, 0.0]}
    words = said.interval_words(result)
    assert 'exclude a loss of more than 13 points and a gain of more than 0' in words
    assert said.difference(result['modes']['rmuscle']) == '−4 (−12 to 0)'


def test_what_beats_the_default_is_named():
    result = copy.deepcopy(make_result(3, ('dense', 'rmuscle', 'fewer_steps', 'step_skip')))
    result['modes']['rmuscle']['dominated_by'] = ['fewer_steps', 'step_skip']
    assert 'fewer_steps and step_skip are both faster and closer' in text_of(result)
    result['modes']['rmuscle']['dominated_by'] = []
    assert 'No other mode is both faster and closer to dense than rmuscle' in text_of(result)


def test_an_early_end_and_untrained_weights_are_said():
    text = text_of(PARTIAL['ended early, untrained'])
    assert 'The run ended early' in text and 'The weights are untrained' in text
    assert 'The run ended early' not in text_of(RESULT)


def test_labels_of_modes_at_one_place_do_not_cover_each_other():
    result = copy.deepcopy(RESULT)
    for name, mode in result['modes'].items():
        mode['latency_ms']['mean'] = 50.0
        if name != 'dense':
            mode['action_error'] |= {'mean': 0.02, 'p99': 0.05}
    svg = page(result).split('aria-label="Mean latency against')[1].split('</svg>')[0]
    places = re.findall(r'<text[^>]*\bx="([\d.]+)" y="([\d.]+)"[^>]*>(\w+)</text>', svg)
    boxes = {name: (float(x), float(y)) for x, y, name in places if name in MODES}
    assert set(boxes) == set(MODES)
    for name, (x, y) in boxes.items():
        for other, (other_x, other_y) in boxes.items():
            apart = abs(y - other_y) > 10 or abs(x - other_x) > 3 * (len(name) + len(other))
            assert name == other or apart, (name, other)


def test_same_result_same_page():
    assert page(RESULT) == HTML


def test_text_of_the_result_is_escaped():
    result = copy.deepcopy(make_result(1))
    result['command'] = 'rmuscle eval --checkpoint "<b>"'
    result['model']['name'] = '<script>'
    html = page(result)
    assert '<b>"' not in html and '<script>' not in html
