"""What a comparison ran with, and how to repeat it: fragments of its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmuscle_ros.eval import comparison_words, markup
from rmuscle_ros.eval.comparison_sections import NOT_APPLICABLE, Mode, Result, mode_name
from rmuscle_ros.eval.markup import text


def settings(result: Result) -> str:
    """What every mode is, and the settings in which the modes differ."""
    modes = result['modes']
    policies = [mode['settings'] for mode in modes.values() if not mode['method']]
    differing = [
        key for key in (policies[0] if policies else {})
        if any(other.get(key) != policies[0][key] for other in policies)
    ]  # fmt: skip
    rows = []
    for name, mode in modes.items():
        keys = _shown_keys(mode, differing)
        shown = ', '.join(f'{key} = {_value(mode["settings"][key])}' for key in keys)
        rows.append((mode_name(name, result), mode['description'], shown or NOT_APPLICABLE))
    note = markup.paragraph(
        'Of modes of the policy only settings in which they differ are shown; the JSON file holds '
        'all of them.',
        kind='note',
    )
    return markup.table(('mode', 'what it is', 'settings'), rows, numbers_from=9) + note


def _shown_keys(mode: Mode, differing: list[str]) -> list[str]:
    """All settings of another method; of a policy those that differ and are in use."""
    if mode['method']:
        return list(mode['settings'])
    if mode['settings']['cache.enabled']:
        return differing
    return [key for key in differing if key == 'cache.enabled' or not key.startswith('cache.')]


def repeat(result: Result) -> str:
    """Command, versions, machine."""
    references = result['references']
    recorded = ', '.join(map(str, references['seeds']))
    facts = {
        'checkpoint fingerprint': result['model']['fingerprint'],
        'references': f'{len(references["seeds"])} episodes, {references["entries"]} entries'
        if references['seeds']
        else 'none recorded',
        'scenes of the references': recorded or NOT_APPLICABLE,
        'execution': f'{result["execution"]["horizon"]} steps of '
        f'{result["execution"]["period_s"]:g} s per call',
        'time taken': f'{result["wall_s"] / 60:.1f} min',
    }
    cards = {'Run': facts, 'Versions': result['versions'], 'Machine': result['machine']}
    body = ''.join(
        f'<div class="card"><h3>{text(title)}</h3>{markup.key_values(_present(values))}</div>'
        for title, values in cards.items()
    )
    return f'<pre>{text(result["command"])}</pre><div class="cards">{body}</div>'


def glossary(result: Result) -> str:
    terms = comparison_words.glossary(result).items()
    items = ''.join(f'<dt>{text(term)}</dt><dd>{text(meaning)}</dd>' for term, meaning in terms)
    return f'<dl>{items}</dl>'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, (list, tuple)):
        return ' '.join(map(str, value))
    return str(value)


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: 'not found' if value is None else value for key, value in values.items()}
