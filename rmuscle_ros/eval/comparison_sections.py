"""The measurements of the comparison page, as HTML fragments made from the result's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmuscle_ros.eval import comparison_plots, comparison_words, error_plots, markup, svg, words
from rmuscle_ros.eval.comparison_words import error
from rmuscle_ros.eval.markup import Raw, text
from rmuscle_ros.eval.modes import DEFAULT, DENSE

Result = Mapping[str, Any]
Mode = Mapping[str, Any]

NOT_APPLICABLE = '–'
_STAGE_KEYS = ('vision', 'prefill', 'denoise', 'p50', 'p99')


def overview(result: Result) -> str:
    """One row per mode: success, speed, fidelity."""
    header = (
        'mode', 'succeeded', 'won / lost', 'McNemar’s test', 'call', '× faster', 'action error',
        '99th percentile', 'dominated',
    )  # fmt: skip
    rows = [
        (
            mode_name(name, result),
            words.k_of_n(mode['success']),
            _won_lost(mode),
            _blank(name, comparison_words.test(mode)),
            words.ms(mode['latency_ms']['mean']),
            words.number(mode['speedup_mean']),
            *(_blank(name, error(_of(mode['action_error'], key))) for key in ('mean', 'p99')),
            'yes' if mode['dominated_by'] else 'no',
        )
        for name, mode in result['modes'].items()
    ]
    note = markup.paragraph(
        'Won / lost: scenes in which only this mode, or only dense, succeeded. Call and action '
        'error: means over the scenes of each scene’s mean, its dense calls included where they '
        'were compared; then the error’s 99th percentile over all calls. Dominated: another mode '
        'is at least as fast and as close to dense, and better in one of the two.',
        kind='note',
    )
    return markup.table(header, rows) + note


def speed(result: Result) -> str:
    """Latency by stage, and latency against action error."""
    modes = result['modes']
    scatter = markup.figure(
        error_plots.frontier(modes, result['spread']['p50']),
        'Lower left is better. The grey line joins the modes that none dominates; the thin line '
        'above a point ends at its 99th percentile. Dashed: how much two dense answers with '
        'different noise differ. The ringed point is the default.',
    )
    bars = markup.figure(
        comparison_plots.latency(modes), 'Means, which add up. ×: how much faster than dense.'
    )
    stages = [
        (svg.INK, f'<i style="opacity: {alpha}">■</i>', comparison_plots.STAGES[stage])
        for stage, alpha in comparison_plots.STAGE_ALPHA.items()
    ]
    header = ('median, unless said', 'vision tower', 'prefill', 'denoising', 'whole call', 'p99')
    body = [
        (mode_name(name, result), *(words.ms(mode['latency_ms'][key]) for key in _STAGE_KEYS))
        for name, mode in modes.items()
    ]
    return (
        f'{markup.legend(_families(result))}<div class="wide">{scatter}</div>'
        f'<div class="split"><div>{markup.legend(stages)}{bars}</div>'
        f'<div>{markup.table(header, body)}</div></div>'
    )


def success(result: Result) -> str:
    """Rates and differences with intervals, every scene's outcome, the scenes that differ."""
    modes = result['modes']
    forest = markup.figure(
        comparison_plots.success(modes), 'Dashed: dense. An interval that holds 0 % on the right '
        'means that these scenes do not tell the mode apart from dense.' if _compared(result)
        else '',
    )  # fmt: skip
    grid = markup.figure(
        comparison_plots.outcomes(result['episodes']), 'Filled: the task succeeded. A column is '
        f'one scene, run in every mode {comparison_words.pairing(result)}.',
    )  # fmt: skip
    header = ('mode', 'succeeded', '95 % interval', 'difference, points', 'lifted')
    rows = [
        (
            mode_name(name, result),
            words.k_of_n(mode['success']),
            _percents(mode['success_interval']),
            _blank(name, comparison_words.difference(mode)),
            words.k_of_n(mode['lifted']),
        )
        for name, mode in modes.items()
    ]
    note = markup.paragraph(
        'Difference: success rate minus that of dense, with its paired interval. Lifted: the cube '
        'left the table, a step on the way.',
        kind='note',
    )
    tables = f'<div>{markup.table(header, rows)}{note}</div><div>{_discordant(result)}</div>'
    return (
        f'<div class="wide">{forest}</div><div class="wide">{grid}</div>'
        f'<div class="split">{tables}</div>'
    )


def _discordant(result: Result) -> str:
    """The scenes whose outcome differs from dense, by mode."""
    if not _compared(result):
        return ''
    rows = []
    for name, mode in result['modes'].items():
        test = mode['mcnemar']
        if test and test['better'] + test['worse']:
            lost, won = (', '.join(map(str, test[f'{key}_seeds'])) for key in ('worse', 'better'))
            rows.append((mode_name(name, result), lost or NOT_APPLICABLE, won or NOT_APPLICABLE))
    if not rows:
        return markup.paragraph('No scene ended otherwise than in dense mode.')
    header = ('mode', 'scenes that only dense finished', 'that only the mode finished')
    return markup.table(header, rows, numbers_from=9)


def errors(result: Result) -> str:
    """The distribution of action errors of every mode."""
    samples = {
        name: [e for trial in trials for e in trial['calls']['action_error'] if e is not None]
        for name, trials in result['episodes'].items()
    }
    if not any(samples.values()):
        return markup.paragraph('No call was compared with a dense one.', kind='none')
    spread = result['spread']
    caption = 'One dot per call; the long bar is the mean, the short one the 99th percentile.'
    if spread['p50'] is not None:
        caption += (
            ' Dashed: two dense answers with different noise differ by '
            f'{comparison_words.spread(spread)}.'
        )
    figure = markup.figure(error_plots.errors(samples, result['modes'], spread['p50']), caption)
    header = ('action error', 'mean', 'median', '99th percentile', 'largest', 'calls compared')
    rows = [
        (
            mode_name(name, result),
            *(error(_of(mode['action_error'], key)) for key in ('mean', 'p50', 'p99', 'max')),
            _of(mode['action_error'], 'calls'),
        )
        for name, mode in result['modes'].items()
        if mode['action_error'] is not None
    ]
    return f'<div class="wide">{figure}</div>{markup.table(header, rows)}'


def calls(result: Result) -> str:
    """Why calls ran as they did, similarity, and the time of rebuilds."""
    header = (
        'mode', 'calls', 'reused', 'fence or guard', 'not ready', 'no reference',
        'similarity p5', 'p50', 'rebuild p50', 'p99', 'longest', 'late',
    )  # fmt: skip
    rows = []
    for name, mode in result['modes'].items():
        found, rebuild = mode['calls'], mode['rebuild']
        times = (rebuild or {}).get('ms', {})
        reads = name != DENSE and found['cached'] + found['fallback'] + found['not_ready'] > 0
        rows.append(
            (
                mode_name(name, result),
                sum(found.values()),
                *(
                    found[key] if reads else NOT_APPLICABLE
                    for key in ('cached', 'fallback', 'not_ready', 'no_reference')
                ),
                *(_number(mode['similarity'][key], '{:.2f}') for key in ('p5', 'p50')),
                *(_number(times.get(key), '{:.0f} ms') for key in ('p50', 'p99', 'max')),
                NOT_APPLICABLE
                if rebuild is None
                else f'{rebuild["misses"]} of {rebuild["calls"]}',
            )
        )
    execution = result['execution']
    horizon_s = execution['horizon'] * execution['period_s']
    note = markup.paragraph(
        'Reused: something of a reference or of an earlier call served; in the other calls '
        'nothing did, for the reason given. Rebuild: work in the background, over the calls that '
        f'left any; late when it took longer than the {horizon_s:g} s of execution leave after '
        'the call itself.',
        kind='note',
    )
    return markup.table(header, rows) + note


def mode_name(name: str, result: Result) -> Raw:
    """The mode's name; the one the page is about in bold."""
    tag = 'strong' if name == comparison_words.focus(result) else 'span'
    return Raw(f'<{tag}>{text(name)}</{tag}>')


def _families(result: Result) -> list[tuple[str, str, str]]:
    """The legend of the modes' colours, as far as they occur."""
    names = list(result['modes'])
    families = {
        DENSE: 'dense',
        DEFAULT: f'{DEFAULT} and its variants',
        '': 'other methods',
    }
    colours = {comparison_plots.colour(name) for name in names}
    return [
        (comparison_plots.colour(name), '●', label)
        for name, label in families.items()
        if comparison_plots.colour(name) in colours
    ]


def _compared(result: Result) -> bool:
    return any(mode['difference'] for mode in result['modes'].values())


def _won_lost(mode: Mode) -> str:
    test = mode['mcnemar']
    return NOT_APPLICABLE if test is None else f'{test["better"]} / {test["worse"]}'


def _blank(name: str, value: Any) -> Any:
    """Dense is not compared with itself."""
    return NOT_APPLICABLE if name == DENSE else value


def _of(values: Mapping[str, Any] | None, key: str) -> Any:
    return None if values is None else values[key]


def _number(value: float | None, pattern: str) -> str:
    return NOT_APPLICABLE if value is None else pattern.format(value)


def _percents(interval: tuple[float, float]) -> str:
    low, high = interval
    return f'{100 * low:.0f} to {100 * high:.0f} %'
