"""What the numbers say, in words: the summary table and one reading per observation.

Every sentence follows from the result it is given; only the paper's figures are fixed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmuscle_ros.eval import words

# arXiv 2609.19104, π0.5. The paper does not say how it measures a change, nor which calls it
# compares for the overlap.
PAPER = {
    'change_in_top_rows': 0.80,
    'contribution_kept': 0.844,
    'overlap_same_task': 0.86,
    'overlap_other_task': 0.71,
    'flop_per_byte_prefill': 891.0,
    'flop_per_byte_denoise': 34.0,
    'speedup': 1.29,
}
SCORES = {'contribution': 'by contribution', 'delta': 'by change since the anchor'}
KINDS = {
    'other_noise': 'same call, other noise',
    'match': 'same task, best match',
    'same_episode': 'same episode, other calls',
    'same_task': 'same task, all calls',
    'other_task_match': 'other task, best match',
    'other_task': 'other task, all calls',
}
MASKS = {
    'reference': "reference's mask",
    'reference_contribution': "reference's mask by contribution",
    'anchor': "mask of the call's own anchor",
    'oracle': 'best possible mask',
}
MATCHES = {
    'same_task': 'same task',
    'other_task': 'other task',
    'other_phase': 'same task, another phase',
}
# No figure of the paper's to compare with.
NONE = '–'

Row = tuple[str, str, str]


def what_ran(result: Mapping[str, Any]) -> str:
    """One line: the model, the task, the episodes and how many calls count."""
    episodes, settings = result['episodes'], result['settings']
    tests, references = episodes['tests'], episodes['references']
    served, calls = result['served']
    return (
        f'{result["model"]["name"]}, {settings["task"]}: '
        f'{words.count(tests["success"][1], "test episode")} against '
        f'{words.count(references["success"][1], "reference episode")}; {served} of {calls} calls '
        f'match a reference above the similarity fence {result["similarity"]["fence"]:g}'
    )


def summary_rows(result: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Observation -> (what, here, paper) of its headline numbers."""
    top, share = (words.percent(result['settings'][rho]) for rho in ('rho_p', 'rho_n'))
    return {
        f'FFN output change held by {top} of the image rows': _context_rows(result),
        f'contribution kept by {share} of the neurons': _kept_rows(result, 'contribution'),
        f'change since the anchor kept by {share} of the neurons': _kept_rows(result, 'delta'),
        'important neurons shared with': _overlap_rows(result),
        'similarity of the best match': _similarity_rows(result),
        'arithmetic': _flops_rows(result),
    }


def _context_rows(result: Mapping[str, Any]) -> list[Row]:
    norm, square = (result['context']['at_rho_p'][name] for name in ('norm', 'square'))
    return [
        ('ranked by input drift', _mean(norm['drift']), _paper('change_in_top_rows')),
        ('those that changed most', _mean(norm['change']), NONE),
        ('ranked by input drift, squared change', _mean(square['drift']), NONE),
        ('those that changed most, squared change', _mean(square['change']), NONE),
    ]


def _kept_rows(result: Mapping[str, Any], score: str) -> list[Row]:
    kept = result['action']['at_rho_n'][score]
    paper = {('contribution', 'reference'): _paper('contribution_kept')}
    return [
        (label, _mean(kept[source], 1), paper.get((score, source), NONE))
        for source, label in MASKS.items()
        if source in kept
    ]


def _overlap_rows(result: Mapping[str, Any]) -> list[Row]:
    kinds = result['overlap']['kinds']
    paper = {
        'match': _paper('overlap_same_task'),
        'other_task_match': _paper('overlap_other_task'),
    }
    rows = [
        (label, _mean(kinds[kind]['contribution']), paper.get(kind, NONE))
        for kind, label in KINDS.items()
    ]
    return [*rows, ('two random masks', words.percent(result['overlap']['chance']), NONE)]


def _similarity_rows(result: Mapping[str, Any]) -> list[Row]:
    kinds = result['similarity']['kinds']
    return [
        (label, _number(kinds[kind]['all']['similarity']['p50']), NONE)
        for kind, label in MATCHES.items()
    ]


def _flops_rows(result: Mapping[str, Any]) -> list[Row]:
    flops = result['flops']
    byte, ideal = flops['flop_per_byte'], flops['ideal_speedup']
    return [
        ('prefill FFN, FLOP/B', f'{byte["prefill"]:.0f}', f'{PAPER["flop_per_byte_prefill"]:g}'),
        ('denoising FFN, FLOP/B', f'{byte["denoise"]:.0f}', f'{PAPER["flop_per_byte_denoise"]:g}'),
        ('FLOPs of a dense call in FFNs', words.percent(ffn_share(flops)), NONE),
        (
            "speedup at the paper's setting (here: bound; paper: measured)",
            f'{ideal["both"]:.2f} ×',
            f'{PAPER["speedup"]:.2f} ×',
        ),
    ]


def layer_rows(result: Mapping[str, Any]) -> list[dict[str, dict[str, float]]]:
    """Per stack (prefix, action): label -> site -> mean share; what has no pairs is left out."""
    norm = result['context']['at_rho_p']['norm']
    kept, kinds = result['action']['at_rho_n'], result['overlap']['kinds']
    top, share = (words.percent(result['settings'][rho]) for rho in ('rho_p', 'rho_n'))
    change = {
        f'change held by {top} of the rows, by input drift': norm['drift'],
        '… by the rows that changed most': norm['change'],
    }
    neurons = {
        f'contribution kept by {share}': kept['contribution']['reference'],
        f'change since the anchor kept by {share}': kept['delta']['reference'],
    }
    for kind, label in KINDS.items():
        neurons[f'shared: {label}'] = kinds[kind]['contribution']
    return [
        {label: values['layers'] for label, values in rows.items() if values is not None}
        for rows in (change, neurons)
    ]


def ffn_share(flops: Mapping[str, Any], *stages: str) -> float:
    """Share of a dense call's FLOPs in the FFNs of ``stages`` (default: of all)."""
    parts = flops['stages']
    total = sum(stage['flop'] for stage in parts.values())
    return sum(parts[name]['ffn_flop'] for name in stages or parts) / total


def compared_rows(result: Mapping[str, Any]) -> list[Row]:
    """The headline numbers that the paper gives too."""
    rows = []
    for title, group in summary_rows(result).items():
        for label, here, paper in group:
            if paper != NONE:
                whole = label if title == 'arithmetic' else f'{title}: {label}'
                rows.append((whole, here, paper))
    return rows


def context(result: Mapping[str, Any]) -> list[str]:
    at, change = result['context']['at_rho_p'], result['context']['relative_change']
    top = words.percent(result['settings']['rho_p'])
    norm, square = at['norm'], at['square']
    return [
        f'The top {top} of the image rows by input drift hold {_mean(norm["drift"])} of the FFN '
        f'output change here; {_against(norm["drift"], "change_in_top_rows")}.',
        f'No ranking could hold more than {_mean(norm["change"])}; random rows hold {top}.',
        f'As energy it is {_mean(square["drift"])} of at most {_mean(square["change"])}.',
        *_relative(change),
    ]


def _relative(change: Mapping[str, Any]) -> list[str]:
    match, other = change['match'], change['other_phase']
    text = (
        'Against the best match the FFN inputs change by '
        f'{words.number(match["input"]["mean"])} of their own size and the outputs by '
        f'{words.number(match["output"]["mean"])}'
    )
    if other is None:
        return [f'{text}.']
    return [
        f'{text}; against another phase of the task by '
        f'{words.number(other["input"]["mean"])} and {words.number(other["output"]["mean"])}.'
    ]


def action(result: Mapping[str, Any]) -> list[str]:
    kept = result['action']['at_rho_n']
    share = words.percent(result['settings']['rho_n'])
    contribution = {source: _mean(values, 1) for source, values in kept['contribution'].items()}
    delta = {source: _mean(values, 1) for source, values in kept['delta'].items()}
    return [
        f'{share} of the neurons, chosen by the matched reference, keep '
        f'{contribution["reference"]} of the contribution here; '
        f'{_against(kept["contribution"]["reference"], "contribution_kept")}.',
        "Chosen by the call's own anchor step, which needs no reference, they keep "
        f'{contribution["anchor"]}; no choice keeps more than {contribution["oracle"]}.',
        'Of the change since the anchor, the term that a mask really omits, the reference keeps '
        f'{delta["reference"]} when it ranks by that change, {delta["reference_contribution"]} '
        f'when it ranks by contribution; the own anchor keeps {delta["anchor"]}, the best choice '
        f'{delta["oracle"]}.',
    ]


def overlap(result: Mapping[str, Any]) -> list[str]:
    kinds = {kind: scores['contribution'] for kind, scores in result['overlap']['kinds'].items()}
    match, other = kinds['match'], kinds['other_task_match']
    return [
        f'A call shares {_mean(match)} of its important neurons with its best match '
        f'({_against(match, "overlap_same_task")}) and {_mean(other)} with its best match in the '
        f'other task ({_against(other, "overlap_other_task")}); two random masks share '
        f'{words.percent(result["overlap"]["chance"])}.',
        f'Whatever their phase, calls of the same task share {_mean(kinds["same_task"])} and '
        f'calls of the other task {_mean(kinds["other_task"])}. With itself under another noise a '
        f'call shares {_mean(kinds["other_noise"])}.',
    ]


def similarity(result: Mapping[str, Any]) -> list[str]:
    kinds = {kind: v['all'] for kind, v in result['similarity']['kinds'].items()}
    medians = ', '.join(
        f'{_number(kinds[kind]["similarity"]["p50"])} ({label})' for kind, label in MATCHES.items()
    )
    return [
        f'Similarity of the best match, median: {medians}.',
        f'The fence at {result["similarity"]["fence"]:g} lets pass '
        f'{_passing(kinds, "above_similarity_fence")}; both fences together '
        f'{_passing(kinds, "within_both_fences")}.',
    ]


def _passing(kinds: Mapping[str, Any], count: str) -> str:
    return ', '.join(
        f'{kinds[kind][count]} of {kinds[kind]["calls"]} ({label})'
        for kind, label in MATCHES.items()
    )


def _number(value: float | None) -> str:
    return words.number(value).replace('-', '−')


def flops(result: Mapping[str, Any]) -> list[str]:
    flops = result['flops']
    ideal, steps = flops['ideal_speedup'], flops['steps_of_same_ffn_work']
    prefill, denoise = (words.percent(ffn_share(flops, stage)) for stage in ('prefill', 'denoise'))
    return [
        f'The FFNs that the caches work on are {prefill} (prefill) and {denoise} (denoising) of '
        f'the arithmetic of a dense call. Were they free, a call would need '
        f'{ideal["cached_ffns_free"]:.1f} × less arithmetic.',
        f"At the paper's setting the bound is {ideal['both']:.2f} ×: {ideal['context_cache']:.2f} "
        f'× by the Context Cache alone, {ideal["action_cache"]:.2f} × by the Action Cache alone. '
        f'{steps:g} denoise steps instead of {result["settings"]["denoise_steps"]} do as much FFN '
        f'work as the Action Cache and give {ideal["fewer_steps"]:.2f} ×.',
        f'Arithmetic intensity of the FFNs at 16 bits: prefill '
        f'{flops["flop_per_byte"]["prefill"]:.0f} FLOP/B (paper '
        f'{PAPER["flop_per_byte_prefill"]:g}), denoising '
        f'{flops["flop_per_byte"]["denoise"]:.0f} (paper {PAPER["flop_per_byte_denoise"]:g}).',
    ]


def _mean(values: Mapping[str, Any] | None, digits: int = 0) -> str:
    """The mean share of a summary, in percent."""
    return words.number(None if values is None else 100 * values['mean'], f'{{:.{digits}f}} %')


def _paper(name: str) -> str:
    return f'{100 * PAPER[name]:.3g} %'


def _against(here: Mapping[str, Any] | None, name: str) -> str:
    """``80 % in the paper, 19 points more``: of the rounded figures, so that they add up."""
    paper = _paper(name)
    if here is None:
        return f'{paper} in the paper'
    digits = 1 if '.' in paper else 0
    points = round(100 * PAPER[name], digits) - round(100 * here['mean'], digits)
    text = f'{abs(points):.{digits}f}'
    if float(text) == 0:
        return f'{paper} in the paper, the same'
    unit = 'point' if text == '1' else 'points'
    return f'{paper} in the paper, {text} {unit} {"more" if points > 0 else "less"}'
