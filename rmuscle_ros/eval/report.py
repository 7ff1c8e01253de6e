"""The report of a run: one self-contained HTML page, read from top to bottom in a minute."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from rmuscle_ros.eval import markup, sections, words
from rmuscle_ros.eval.markup import text
from rmuscle_ros.eval.records import CACHED, DENSE, RunRecord
from rmuscle_ros.eval.summary import latency_calls
from rmuscle_ros.statistics import largest


def write_report(run: RunRecord, summary: Mapping[str, Any], path: str | Path) -> None:
    """Write the page of ``run`` to ``path``; ``summary`` is ``summarise(run)``.

    Everything is inline: the file needs no network and no other file.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(page(run, summary), encoding='utf-8')


def page(run: RunRecord, summary: Mapping[str, Any]) -> str:
    """The HTML of the page."""
    folder = resources.files('rmuscle_ros.eval')
    parts = {
        'style': folder.joinpath('report.css').read_text(encoding='utf-8'),
        'header': _header(run, summary),
        'tiles': _tiles(summary),
        'speed': sections.speed(run, summary),
        'success': sections.success(summary),
        'calls': sections.calls(run, summary),
        'episodes': sections.episodes(run),
        'motion': sections.motion(run),
        'cameras': sections.cameras(run),
        'incidents': _incidents(summary),
        'setup': _setup(summary),
        'glossary': _glossary(),
    }
    return Template(folder.joinpath('report.html').read_text(encoding='utf-8')).substitute(parts)


def _header(run: RunRecord, summary: Mapping[str, Any]) -> str:
    tasks = dict.fromkeys(episode.task for episode in run.episodes if episode.task)
    machine = ', '.join(
        str(part)
        for part in (
            summary['machine'].get('cpu'),
            _cores(summary['machine'].get('cores')),
            summary['machine'].get('gpu'),
        )
        if part
    )
    lines = [
        f'Ran: {words.what_ran(summary)}',
        f'Policy: {words.model(summary["model"])}',
        f'Task: “{"”, “".join(tasks)}”' if tasks else '',
        f'Machine: {machine}' if machine else '',
        f'Started: {run.started}' if run.started else '',
    ]
    parts = [markup.paragraph(line, kind='lead') for line in lines]
    if summary['model']['trained'] is False:
        parts.append(markup.paragraph(words.UNTRAINED, kind='notice'))
    if run.of_kind(CACHED) and not latency_calls(run, CACHED):
        parts.append(markup.paragraph('No call ran cached; the reasons are below.', kind='notice'))
    if run.incidents:
        found = f'{words.count(len(run.incidents), "incident")} in this run, listed below.'
        parts.append(markup.paragraph(found, kind='notice'))
    return ''.join(parts)


def _cores(cores: int | None) -> str:
    return '' if cores is None else words.count(cores, 'core')


def _tiles(summary: Mapping[str, Any]) -> str:
    dense, cached = (summary['latency_ms'][kind] for kind in (DENSE, CACHED))
    step = {kind: _largest_step(summary, kind) for kind in (CACHED, DENSE)}
    tiles = {
        'A cached call is': (
            words.speedup(summary['speedup_p50']),
            f'median: cached {words.ms(cached["p50"])}, dense {words.ms(dense["p50"])}',
        ),
        'Prefill + denoising': (
            words.of_dense(summary['ratio_prefill_denoise_p50']),
            f'cached {words.ms(cached["prefill_denoise_p50"])}, '
            f'dense {words.ms(dense["prefill_denoise_p50"])}; the part the caches work on',
        ),
        'Calls cached': (
            words.percent(summary['cached_share_after_first']),
            'of those after the first of each cached episode; '
            f'{words.percent(summary["recomputed"]["mean"])} of the image rows recomputed',
        ),
        'Success, cached': (
            words.k_of_n(summary['success'][CACHED]),
            f'dense, for comparison: {words.k_of_n(summary["success"][DENSE])}',
        ),
        'Jump between chunks': (
            words.rad(step[CACHED]),
            f'largest in cached episodes; in dense ones {words.rad(step[DENSE])}',
        ),
    }
    return ''.join(
        f'<div class="tile"><h3>{text(name)}</h3><p class="value">{text(value)}</p>'
        f'<p>{text(note)}</p></div>'
        for name, (value, note) in tiles.items()
    )


def _largest_step(summary: Mapping[str, Any], kind: str) -> float | None:
    return largest(
        episode['boundary_step_rad'] for episode in summary['episodes'] if episode['kind'] == kind
    )


def _incidents(summary: Mapping[str, Any]) -> str:
    if not summary['incidents']:
        return markup.paragraph('None: no rejected trajectory, no diagnostics error.')
    return markup.bullets(summary['incidents'])


def _setup(summary: Mapping[str, Any]) -> str:
    window = summary['window']
    sections = {
        'Settings': summary['settings'],
        'Policy': summary['model'],
        'Versions': _or_not_found(summary['versions']),
        'Machine': _or_not_found(summary['machine']),
        'Window of expanded references, at the end': window or {'window': None},
    }
    return ''.join(
        f'<div class="card"><h3>{text(name)}</h3>{markup.key_values(values)}</div>'
        for name, values in sections.items()
    )


def _or_not_found(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: 'not found' if value is None else value for key, value in values.items()}


def _glossary() -> str:
    return ''.join(
        f'<dt>{text(term)}</dt><dd>{text(meaning)}</dd>'
        for term, meaning in words.GLOSSARY.items()
    )
