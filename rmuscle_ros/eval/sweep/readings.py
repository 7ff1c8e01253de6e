"""What a sweep showed, in sentences that follow from its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rmuscle_ros.eval import comparison_words, words
from rmuscle_ros.eval.comparison import point
from rmuscle_ros.eval.comparison_words import SIGNIFICANT, error
from rmuscle_ros.eval.modes import DENSE
from rmuscle_ros.eval.sweep.factors import DEFAULT
from rmuscle_ros.eval.sweep.variants import FAMILIES, FEWER
from rmuscle_ros.statistics import ratio

Found = Mapping[str, Any]
MOST_NAMES = 4
# Below this, latencies of settings that do the same work differ by chance.
CLEAR = 0.02
# FFN work, in dense steps, for which the families of variants are compared.
WORKS = (1, 2, 3, 4, 5, 6, 7)
# How an option of the Action Cache reads with its value.
_EFFECT_WORDS = {
    'family': 'neurons chosen by a score instead of at random',
    'score': 'score Σ|h − h_anchor| instead of Σ|h|',
    'mask_source anchor': 'mask from the call’s own anchor instead of the reference',
    'mask_source both': 'mask from both instead of the reference',
    'unselected extrapolate': 'what is not computed extrapolated instead of held',
    'unselected reference': 'what is not computed following the reference (noise shared) instead '
    'of extrapolated',
}


def headline(result: Found) -> list[str]:
    """The answers, most important first."""
    sentences: list[str] = []
    if result['closed_loop']:
        sentences += _loop_headline(result['closed_loop'])
    if result['action_cache']:
        sentences += _reuse_headline(result['action_cache'])
    return [sentence for sentence in sentences if sentence]


def _loop_headline(found: Found) -> Iterator[str]:
    modes = found['modes']
    default, dense = modes[DEFAULT], modes[DENSE]
    yield (
        f'The default settings are {words.speedup(default["speedup_mean"])} than dense at an '
        f'action error of {error(default["action_error"]["mean"])} (means), and succeed in '
        f'{words.k_of_n(default["success"])} scenes, dense in {dense["success"][0]}.'
    )
    yield _better(found)
    yield success(modes)
    yield _levers(found)


def _better(found: Found) -> str:
    """Which settings are faster and closer to dense than the default, and by how much."""
    modes = found['modes']
    names = better_than_default(modes)
    if not names:
        return 'No other setting with fresh noise is both faster and closer to dense.'
    gains = [f'{name} ({_gain(modes[name], modes[DEFAULT])})' for name in names[:MOST_NAMES]]
    more = f' and {len(names) - MOST_NAMES} more' if len(names) > MOST_NAMES else ''
    verb = 'is' if len(names) == 1 else 'are'
    return f'Both faster and closer to dense than the default {verb} {", ".join(gains)}{more}.'


def better_than_default(modes: Found) -> list[str]:
    """Settings with fresh noise that are clearly faster and closer to dense, the best first."""
    at = {name: point(mode) for name, mode in modes.items() if not mode['shared_noise']}
    default = at[DEFAULT]
    if default is None:
        return []
    limit_ms, limit = (value * (1 - CLEAR) for value in default)
    better = {
        name: here for name, here in at.items() if here and here[0] < limit_ms and here[1] < limit
    }
    return sorted(better, key=lambda name: better[name][0] * better[name][1])


def _gain(mode: Found, default: Found) -> str:
    """``12 % less time, 30 % less error``: of a setting that is better in both."""
    shares = (ratio(a, b) for a, b in zip(point(mode) or (), point(default) or (), strict=True))
    time, off = (words.percent(None if share is None else 1 - share) for share in shares)
    return f'{time} less time, {off} less error'


def success(modes: Found) -> str:
    """Which settings differ from dense beyond chance; how many would by chance alone."""
    tests = {name: mode['mcnemar'] for name, mode in modes.items() if mode['mcnemar']}
    beyond = [
        f'{name} ({"worse" if test["worse"] > test["better"] else "better"}, '
        f'{comparison_words.p_value(test["p"])})'
        for name, test in tests.items()
        if test['p'] < SIGNIFICANT
    ]
    if not beyond:
        return 'In no setting does the success rate differ from dense beyond chance (McNemar).'
    return (
        f'The success rate differs from dense beyond chance in {", ".join(beyond)}; of '
        f'{len(tests)} tests at most about {SIGNIFICANT * len(tests):.0f} would say so by chance '
        'alone.'
    )


def _levers(found: Found) -> str:
    """The factors that move latency and error most."""
    modes = found['modes']
    spans = {
        name: [at for at in (point(modes[s]) for s in factor['points'].values()) if at]
        for name, factor in found['factors'].items()
    }
    spans = {name: points for name, points in spans.items() if len(points) > 1}
    if len(spans) < 2:
        return ''
    times, errors = (
        {name: [point[axis] for point in points] for name, points in spans.items()}
        for axis in (0, 1)
    )
    slow = max(times, key=lambda name: max(times[name]) - min(times[name]))
    off = max(errors, key=lambda name: max(errors[name]) - min(errors[name]))
    return (
        f'Latency varies most with {slow} ({words.ms(min(times[slow]))} to '
        f'{words.ms(max(times[slow]))}), the error most with {off} ({error(min(errors[off]))} to '
        f'{error(max(errors[off]))}).'
    )


def factor(found: Found, name: str) -> str:
    """What one factor does: fastest, closest, where the default stands among its settings."""
    modes = found['modes']
    at = {
        label: here
        for label, setting in found['factors'][name]['points'].items()
        if (here := point(modes[setting])) is not None
    }
    if len(at) < 2:
        return 'There is nothing to compare.'
    fastest, closest = (min(at, key=lambda label: at[label][axis]) for axis in (0, 1))
    sentences = [_extremes(at, fastest, closest)]
    labels = {s: label for label, s in found['factors'][name]['points'].items()}
    default = labels.get(DEFAULT)
    if default in at and len(at) > 1:
        better = [
            label for label, here in at.items()
            if all(a < (1 - CLEAR) * b for a, b in zip(here, at[default], strict=True))
        ]  # fmt: skip
        sentences.append(
            f'Faster and closer than the default: {", ".join(better)}.'
            if better
            else 'None is both faster and closer than the default.'
        )
    return ' '.join(sentences)


def _extremes(at: Mapping[str, tuple[float, float]], fastest: str, closest: str) -> str:
    def numbers(label: str) -> str:
        return f'{words.ms(at[label][0])}, error {error(at[label][1])}'

    flat = all(
        max(here[axis] for here in at.values())
        <= (1 + CLEAR) * min(here[axis] for here in at.values())
        for axis in (0, 1)
    )
    if flat:
        return f'No difference above {CLEAR:.0%} in either: {numbers(fastest)}.'.replace('%', ' %')
    if fastest == closest:
        return f'{fastest} is both the fastest and the closest to dense ({numbers(fastest)}).'
    return (
        f'Fastest: {fastest} ({numbers(fastest)}). Closest to dense: {closest} '
        f'({numbers(closest)}).'
    )


def _reuse_headline(found: Found) -> Iterator[str]:
    variants, paper = found['variants'], found['paper']
    published = variants[paper]
    same_work = best(variants, published['work'], FEWER)
    if same_work is not None:
        better = published['error']['mean'] / variants[same_work]['error']['mean']
        yield (
            f'The Action Cache as published does the FFN work of {published["work"]:g} dense '
            f'steps at an error of {error(published["error"]["mean"])}; {same_work} are '
            f'{_times(better)} ({error(variants[same_work]["error"]["mean"])}).'
        )
    yield default_variant(found)


def _times(better: float) -> str:
    if abs(better - 1) < 0.05:
        return 'as accurate'
    return f'{better:.1f} × more accurate' if better >= 1 else f'{1 / better:.1f} × less accurate'


def default_variant(found: Found) -> str:
    """Whether other ways are better for the default's work, mean and tail."""
    variants, default = found['variants'], found['default']
    figure = variants[default]
    work = figure['work']
    sentence = f'The default, {default}, does the work of {work:g} steps at an error of '
    sentence += error(figure['error']['mean'])
    other = best(variants, work)
    if other is None or other == default:
        return f'{sentence}; nothing with fresh noise is better for as much work.'
    return (
        f'{sentence}; the best for as much work is {other} '
        f'({error(variants[other]["error"]["mean"])}).'
    )


def best(
    variants: Found, work: float, family: str | None = None, *, shared_noise: bool = False
) -> str | None:
    """The variant of smallest mean error among those of at most ``work``; None without any."""
    names = [
        name
        for name, figure in variants.items()
        if figure['work'] <= work
        and family in (None, figure['family'])
        and figure['shared_noise'] == shared_noise
    ]
    return min(names, key=lambda name: variants[name]['error']['mean'], default=None)


def by_work(found: Found) -> list[tuple[str, ...]]:
    """Rows of a table: work, the smallest mean error of each family, and with shared noise."""
    variants = found['variants']
    rows = []
    for work in WORKS:
        shared = best(variants, work, shared_noise=True)
        names = [*(best(variants, work, family) for family in FAMILIES), shared]
        cells = ['–' if n is None else error(variants[n]['error']['mean']) for n in names]
        rows.append((f'{work:g}', *cells))
    return rows


def effect(found: Found) -> str:
    """``score …: error × 0.93 (p95 × 0.95), better in 44 of 54 pairs``."""
    option = found['option']
    label = _EFFECT_WORDS.get(option) or _EFFECT_WORDS[f'{option} {found["value"]}']
    tail = f' (p95 × {found["ratio_p95"]:.2f})' if found['ratio_p95'] else ''
    change = words.number(found['ratio'])
    return f'{label}: error × {change}{tail}, better in {words.k_of_n(found["better"])} pairs'
