"""The sections of the report page that show a run's measurements, as HTML fragments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rmuscle_ros.eval import markup, plots, svg, words
from rmuscle_ros.eval.markup import Raw, text
from rmuscle_ros.eval.motion import Step, boundary_steps
from rmuscle_ros.eval.records import CACHED, DENSE, KINDS, EpisodeRecord, RunRecord
from rmuscle_ros.eval.summary import latency_calls
from rmuscle_ros.statistics import largest, ratio, wilson

MAX_EPISODES = 12
GLYPHS = {'o': '●', 's': '■', 'X': '✖', 'D': '◆', 'P': '✚', 'v': '▼', '^': '▲', '*': '★'}
KIND_WORDS = {
    'reference': 'reference (dense, recorded)',
    'cached': 'cached',
    'dense': 'dense (for comparison)',
}


def speed(run: RunRecord, summary: Mapping[str, Any]) -> str:
    dense, cached = (summary['latency_ms'][kind] for kind in (DENSE, CACHED))
    rows = {
        'vision tower': 'vision',
        'prefill': 'prefill',
        'denoising': 'denoise',
        'prefill + denoising': 'prefill_denoise_p50',
        'whole call': 'p50',
        'whole call, 95th percentile': 'p95',
        'whole call, 99th percentile': 'p99',
        'whole call, slowest': 'max',
    }
    header = ('median, unless said', 'dense', 'cached', 'cached / dense')
    body = [
        (
            label,
            words.ms(dense[key]),
            words.ms(cached[key]),
            words.number(ratio(cached[key], dense[key])),
        )
        for label, key in rows.items()
    ]
    body.append(('calls timed', dense['n'], cached['n'], ''))
    body.append(('of them first in an episode', dense['first_calls'], cached['first_calls'], ''))
    note = markup.paragraph(
        'Dense calls are those of the comparison episodes; reference episodes are left out, '
        'because recording costs time. The first call of an episode may follow idle time and be '
        'slower; it is kept.',
        f'Cached calls compute {steps}.' if (steps := words.steps(run.settings)) else '',
        *words.missing_p99(summary),
        kind='note',
    )
    table = f'<div>{markup.table(header, body)}{note}</div>'
    return f'<div class="split"><div>{_latency_figure(run)}</div>{table}</div>'


def _latency_figure(run: RunRecord) -> str:
    calls = {kind: latency_calls(run, kind) for kind in (DENSE, CACHED)}
    if not any(calls.values()):
        return markup.paragraph('No call to compare.', kind='none')
    legend = markup.legend([(svg.DENSE, '●', 'dense call'), (svg.CACHED, '●', 'cached call')])
    return legend + markup.figure(plots.latency(calls), 'One dot per call; the bar is the median.')


def success(summary: Mapping[str, Any]) -> str:
    rows = []
    for kind in KINDS:
        success = summary['success'][kind]
        interval = None
        if success is not None:
            low, high = wilson(*success)
            interval = f'{low:.0%} to {high:.0%}'.replace('%', ' %')
        rewards = [e['max_reward'] for e in summary['episodes'] if e['kind'] == kind]
        rows.append((KIND_WORDS[kind], words.k_of_n(success), interval, largest(rewards)))
    header = ('episodes', 'succeeded', '95 % interval', 'best reward')
    notes = ''.join(markup.paragraph(note) for note in _success_notes(summary))
    return f'<div class="split"><div>{markup.table(header, rows)}</div><div>{notes}</div></div>'


def _success_notes(summary: Mapping[str, Any]) -> list[str]:
    success = summary['success']
    notes = []
    if success[CACHED] and success[DENSE]:
        (low, high), (other_low, other_high) = wilson(*success[CACHED]), wilson(*success[DENSE])
        if low <= other_high and other_low <= high:
            notes.append(
                'The intervals of cached and dense overlap: this run cannot tell them apart.'
            )
    if summary['model']['trained'] is False:
        notes.append(words.UNTRAINED)
    failed = [e for e in summary['episodes'] if e['admitted'] and e['success'] is not True]
    if failed:
        what = words.count(len(failed), 'recorded episode')
        notes.append(f'{what} entered the library without a confirmed success.')
    return notes


def calls(run: RunRecord, summary: Mapping[str, Any]) -> str:
    """Why calls ran as they did, and how much of the image rows cached ones recomputed."""
    counts = {
        kind: Counter(call.reason for e in run.of_kind(kind) for call in e.calls) for kind in KINDS
    }
    rows = []
    for reason, (colour, marker) in svg.REASON_MARKS.items():
        numbers = [counts[kind][reason] for kind in KINDS]
        if any(numbers):
            mark = Raw(f'<b style="color: {svg.css(colour)}">{GLYPHS[marker]}</b>')
            name = f'<span class="reason">{text(reason.value)}</span>'
            rows.append((mark, Raw(f'{name} {text(words.REASON_WORDS[reason])}'), *numbers))
    if not rows:
        return markup.paragraph('No call was recorded.', kind='none')
    header = ('', 'why a call ran as it did', 'reference', 'cached', 'dense')
    return markup.table(header, rows, numbers_from=2) + _recomputed(summary)


def _recomputed(summary: Mapping[str, Any]) -> str:
    recomputed = summary['recomputed']
    if recomputed['mean'] is None:
        return ''
    shares = ', '.join(f'{share} in {n}' for share, n in recomputed['calls'].items())
    return markup.paragraph(
        f'Cached calls recomputed {words.percent(recomputed["mean"])} of the image rows on '
        f'average and copied the rest; the share is {words.rows(summary)}. Calls by share: '
        f'{shares}.',
        kind='note',
    )


def episodes(run: RunRecord) -> str:
    """A card per episode in which calls were matched; the others in one sentence."""
    matched = [e for e in run.episodes if any(c.similarity is not None for c in e.calls)]
    if not matched:
        return markup.paragraph('No call was matched with a reference.', kind='none')
    shown = [matched[i] for i in markup.spread(len(matched), MAX_EPISODES)]
    shared = plots.scales(shown, run.settings)
    cards = ''.join(
        f'<div class="card"><h3>{text(_episode_title(e))}</h3>'
        f'{markup.figure(plots.episode(e, shared), _episode_caption(e))}</div>'
        for e in shown
    )
    rest = len(run.episodes) - len(matched)
    note = markup.paragraph(
        'Marks as in the table. Hollow marks on the time axis: no similarity (or drift) was '
        'computed for that call.',
        f'{words.count(rest, "episode")} without any matched call not drawn.' if rest else '',
        f'{len(shown)} of {len(matched)} drawn.' if len(shown) < len(matched) else '',
        kind='note',
    )
    return f'<div class="cards">{cards}</div>{note}'


def _episode_title(episode: EpisodeRecord) -> str:
    outcome = {True: 'success', False: 'no success', None: 'not judged'}[episode.success]
    seed = '' if episode.seed is None else f' · seed {episode.seed}'
    return f'{episode.kind.capitalize()} {episode.index}{seed} · {outcome}'


def _episode_caption(episode: EpisodeRecord) -> str:
    cached = sum(call.cached for call in episode.calls)
    caption = f'{cached} of {words.count(len(episode.calls), "call")} cached'
    return f'{caption}; {episode.note}' if episode.note else caption


def motion(run: RunRecord) -> str:
    parts: list[str] = []
    names: list[str] = []
    for kind in (CACHED, DENSE):
        found = next((e for e in run.of_kind(kind) if e.joints is not None), None)
        if found is None or found.joints is None:
            parts.append(markup.paragraph(f'{kind.capitalize()}: no joint trace.', kind='none'))
            continue
        steps = boundary_steps(found.joints)
        names = names or plots.most_moved(found.joints)
        caption = (
            f'Largest commanded step at {words.count(steps.boundaries, "chunk boundary")}: '
            f'{_step(steps.boundary)}; between boundaries: {_step(steps.inside)}.'
        )
        picture = markup.figure(plots.joints(found.joints, kind, names), caption)
        parts.append(f'<div><h3>{text(_episode_title(found))}</h3>{picture}</div>')
    legend = markup.legend(
        [
            (svg.CACHED, '━', 'commanded, cached'),
            (svg.DENSE, '━', 'commanded, dense'),
            (svg.MUTED, '╍', 'measured'),
            (svg.MUTED, '│', 'a new chunk takes over'),
        ]
    )
    return f'{legend if names else ""}<div class="split">{"".join(parts)}</div>'


def _step(step: Step | None) -> str:
    return words.NO_DATA if step is None else f'{words.rad(step.rad)} ({step.joint})'


def cameras(run: RunRecord) -> str:
    parts: list[str] = []
    for kind in (CACHED, DENSE):
        found = next((e for e in run.of_kind(kind) if e.frames), None)
        if found is None:
            parts.append(markup.paragraph(f'{kind.capitalize()}: no pictures.', kind='none'))
            continue
        strip = markup.film_strip(found.frames)
        parts.append(f'<h3>{text(_episode_title(found))}</h3>{strip}')
    return ''.join(parts)
