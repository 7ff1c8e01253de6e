"""What a comparison showed, in sentences. Careful ones: few scenes cannot prove equality."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rmuscle_ros.eval import words
from rmuscle_ros.eval.comparison import point
from rmuscle_ros.eval.modes import DEFAULT, DENSE

SIGNIFICANT = 0.05
GLOSSARY = {
    'call': words.GLOSSARY['call'],
    'dense': 'computed in full. Dense calls are what every other mode is compared with.',
    'paired': 'every mode runs the same scenes, each with the same sequence of noise.',
    'scene': 'where the cube lies; given by its seed.',
    '95 % interval': "Wilson's for a success rate, Newcombe's paired one (method 10) for the "
    'difference of two.',
    "McNemar's test": 'looks only at scenes in which two modes differ, and asks how often chance '
    'alone would split them so unevenly: p. Exact and two-sided.',
    'action error': 'every call is repeated densely on the same observation with the same noise, '
    'outside of the timing. The error is the mean over the chunk of the absolute difference, in '
    'units of the standard deviation of that joint’s actions in training.',
    'dense with other noise': 'the same distance between two dense answers to one observation: '
    'how much the policy itself varies.',
    'dominated': 'another mode is at least as fast and at least as accurate on average, and '
    'better in one of the two.',
    'mean': 'over the scenes, of each scene’s mean: a failed episode has more calls, and would '
    'count more in a mean over calls.',
    'late rebuild': 'expanding references after a call took longer than the arm would have moved '
    'before the next one: execution horizon × period − latency.',
    'reference': words.GLOSSARY['reference'],
    'similarity': words.GLOSSARY['similarity'],
    'fence': words.GLOSSARY['fence'],
    'guard': words.GLOSSARY['guard'],
    'prefill, denoising': words.GLOSSARY['prefill, denoising'],
}


# What holds for a run through the nodes instead.
ROS_GLOSSARY = {
    'paired': 'every mode runs the same scenes. The noise is drawn by the node and differs.',
    'action error': 'of cached calls: in shadow mode the node repeats them densely in idle time, '
    'on the same observation with the same noise. The error is the mean over the chunk of the '
    'absolute difference, in units of the standard deviation of that joint’s actions in training.',
}
ROS = (
    'Through the ROS nodes in real time: the scenes are paired, the noise is not. Action error: '
    'of cached calls alone, by shadow mode of the node.'
)


def glossary(result: Mapping[str, Any]) -> dict[str, str]:
    """The terms of the page, as they hold for this run."""
    return GLOSSARY | (ROS_GLOSSARY if result['execution']['ros'] else {})


def pairing(result: Mapping[str, Any]) -> str:
    """What the trials of a scene have in common, to be said after it."""
    if result['execution']['ros']:
        return 'through the ROS nodes in real time, with noise of its own'
    return 'with the same noise'


def spread(values: Mapping[str, Any]) -> str:
    """``0.050 (median of 130 calls, largest 0.21)``; of a node's shadow mode the median alone."""
    text = f'{error(values["p50"])} (median'
    if values['calls'] is None:
        return f'{text})'
    return f'{text} of {values["calls"]} calls, largest {error(values["max"])})'


def focus(result: Mapping[str, Any]) -> str:
    """The mode the page is about: the default one, or the first that is not dense."""
    modes = result['modes']
    return next((name for name in (DEFAULT, *modes) if name in modes and name != DENSE), DENSE)


def headline(result: Mapping[str, Any]) -> str:
    """The answer in one sentence."""
    name = focus(result)
    mode, dense = result['modes'][name], result['modes'].get(DENSE)
    if name == DENSE or dense is None:
        return f'{name} succeeds in {words.k_of_n(mode["success"])} scenes.'
    return f'{name} succeeds in {_success_verdict(mode, dense)}; {_speed_verdict(mode)}.'


def _success_verdict(mode: Mapping[str, Any], dense: Mapping[str, Any]) -> str:
    test, rate = mode['mcnemar'], words.k_of_n(mode['success'])
    if not test['better'] + test['worse']:
        return f'{rate} scenes, the same ones as dense'
    if test['better'] == test['worse']:
        return f'{rate} scenes, as often as dense'
    verdict = 'a difference within chance'
    if test['p'] < SIGNIFICANT:
        verdict = f'a {"loss" if test["worse"] > test["better"] else "gain"} beyond chance'
    return f'{rate} scenes and dense in {dense["success"][0]}, {verdict}'


def _speed_verdict(mode: Mapping[str, Any]) -> str:
    ratio = mode['speedup_mean']
    if ratio is None:
        return 'of its speed there is no data'
    return f'its calls are {words.speedup(ratio)} on average'


def difference(mode: Mapping[str, Any]) -> str | None:
    """``−2 points (−9 to +5)``: success rate minus that of dense, with its interval."""
    if mode['difference'] is None:
        return None
    low, high = mode['difference']['interval']
    return f'{_points(mode["difference"]["share"])} ({_points(low)} to {_points(high)})'


def _points(share: float) -> str:
    rounded = round(100 * share)
    return f'{rounded:+d}'.replace('-', '−') if rounded else '0'


def test(mode: Mapping[str, Any]) -> str | None:
    """McNemar's p in words."""
    found = mode['mcnemar']
    if found is None:
        return None
    if not found['better'] + found['worse']:
        return 'never differs'
    if found['p'] >= SIGNIFICANT:
        return f'not told apart ({p_value(found["p"])})'
    verdict = 'worse' if found['worse'] > found['better'] else 'better'
    return f'{verdict} than dense ({p_value(found["p"])})'


def p_value(p: float) -> str:
    """``p = 0.12``, ``p < 0.001``."""
    if p < 0.001:
        return 'p < 0.001'
    return f'p = {p:.3f}' if p < 0.095 else f'p = {p:.2f}'


def dominance(result: Mapping[str, Any]) -> str:
    """Which modes are both faster and more accurate than the one the page is about."""
    name = focus(result)
    mode = result['modes'][name]
    if point(mode) is None or len(result['modes']) < 3:
        return ''
    if not mode['dominated_by']:
        return f'No other mode is both faster and closer to dense than {name}.'
    others = ' and '.join(mode['dominated_by'])
    verb = 'is' if len(mode['dominated_by']) == 1 else 'are'
    return f'{others} {verb} both faster and closer to dense than {name} (means).'


def interval_words(result: Mapping[str, Any]) -> str:
    """What the scenes can and cannot exclude."""
    mode = result['modes'][focus(result)]
    if mode['difference'] is None:
        return ''
    low, high = mode['difference']['interval']
    scenes = words.count(mode['success'][1], 'paired scene')
    # Rounded away from 0: what is excluded must be excluded.
    loss, gain = math.ceil(max(0.0, -100 * low)), math.ceil(max(0.0, 100 * high))
    return (
        f'With 95 % confidence {scenes} exclude a loss of more than {words.count(loss, "point")} '
        f'and a gain of more than {gain}.'
    )


def error(value: float | None) -> str:
    """An action error with two or three significant digits."""
    if value is None:
        return words.NO_DATA
    if value < 1e-4:
        return '< 0.0001' if value else '0'
    return f'{value:.4f}' if value < 0.01 else f'{value:.3f}' if value < 0.1 else f'{value:.2f}'
