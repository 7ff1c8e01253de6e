"""Strict configuration: frozen dataclasses whose fields carry description, range and unit.

The same fields become ROS parameters (``rmuscle_ros.ros.parameters``), YAML keys and ``--help``
texts, so a setting is described once. Unknown keys and bad values are errors that name the key's
dotted path and what is allowed.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rmuscle_ros.errors import ConfigError


def option(
    default: Any,
    description: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] | None = None,
    live: bool = False,
) -> Any:
    """A dataclass field with its documentation. ``live``: may change while the node is active."""
    metadata = {
        'description': description,
        'minimum': minimum,
        'maximum': maximum,
        'choices': choices,
        'live': live,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class ModelConfig:
    checkpoint: str = option(
        '',
        'Checkpoint directory, or the name of a shipped one; empty: untrained tiny model.',
    )
    seed: int = option(0, 'Seed of the untrained weights (only without a checkpoint).', minimum=0)


@dataclass(frozen=True)
class EngineConfig:
    device: str = option(
        'auto',
        'Where the model runs; auto takes CUDA when present.',
        choices=('auto', 'cpu', 'cuda'),
    )
    dtype: str = option(
        'auto',
        'Precision of the matrix products; auto is float32 on a CPU and bfloat16 on a GPU.',
        choices=('auto', 'float32', 'bfloat16'),
    )
    denoise_steps: int = option(10, 'Euler steps per call.', minimum=1, maximum=100)
    threads: int = option(
        0,
        'CPU threads of the matrix products; 0 takes all cores but one, at most 8.',
        minimum=0,
        maximum=256,
    )


@dataclass(frozen=True)
class CacheConfig:
    enabled: bool = option(
        True, 'Reuse reference states; false runs every call densely.', live=True
    )
    rho_p: float = option(
        0.2,
        'Context Cache: share of visual rows recomputed in prefill (1 = all); with the guard the '
        'least share.',
        minimum=0.0,
        maximum=1.0,
        live=True,
    )
    guard: bool = option(
        True,
        'Estimate the action error before anything is copied and recompute as many rows as the '
        'error budget asks for; false always recomputes rho_p.',
        live=True,
    )
    error_budget: float = option(
        0.02,
        'Guard: action error (mean over the chunk, normalised units) that nine of ten calls are '
        'estimated to stay below.',
        minimum=0.0,
        live=True,
    )
    references: int = option(
        4,
        'Expanded entries that serve a call together: each visual row takes the one it is nearest '
        'to.',
        minimum=1,
        maximum=64,
    )
    rho_n: float = option(
        0.0,
        'Action Cache: share of FFN neurons computed between anchors, rounded up to sixteenths '
        '(1 = all, 0 = these denoise steps are skipped).',
        minimum=0.0,
        maximum=1.0,
        live=True,
    )
    anchors: tuple[int, ...] = option(
        (0, 3, 8),
        'Denoise steps that are computed densely; the first is 0. The steps between them are the '
        "Action Cache's.",
    )
    unselected: str = option(
        'extrapolate',
        'What is not computed between anchors: hold = it keeps its value, extrapolate = it goes '
        'on changing as between the last two anchors, reference = it changes as it did in the '
        'reference (with noise shared).',
        choices=('hold', 'extrapolate', 'reference'),
    )
    mask_source: str = option(
        'both',
        "Whose activity chooses the neurons: the reference's, the call's own at the anchor, or "
        'both.',
        choices=('reference', 'anchor', 'both'),
    )
    score: str = option(
        'delta',
        'Neuron score of the masks: contribution = sum |h|, delta = sum |h - h_anchor|.',
        choices=('contribution', 'delta'),
    )
    without_reference: str = option(
        'anchors',
        'Denoise steps between anchors in a call that no reference serves, where the Action Cache '
        'takes nothing of a reference: anchors = as in cached calls, dense = all computed.',
        choices=('anchors', 'dense'),
    )
    noise: str = option(
        'fresh',
        "Noise of a cached call: fresh, or shared = the reference's own (another policy: each "
        'reference is then one fixed draw).',
        choices=('fresh', 'shared'),
    )
    similarity_threshold: float = option(
        0.7,
        'Similarity fence: below this cosine of visual keys the rest of the episode is dense.',
        minimum=-1.0,
        maximum=1.0,
        live=True,
    )
    drift_fence: bool = option(
        True, 'Run a call densely when a view drifted farther than the library itself does.'
    )
    drift_quantile: float = option(
        0.99,
        "Drift fence: quantile of the library's own leave-one-episode-out drift taken as limit.",
        minimum=0.5,
        maximum=1.0,
    )
    drift_slack: float = option(
        1.5, 'Drift fence: factor on the calibrated quantile.', minimum=1.0, maximum=10.0
    )
    drift_patience: int = option(
        3,
        'Drift fence: consecutive trips after which the rest of the episode is dense.',
        minimum=1,
    )
    candidates: int = option(4, 'Reference episodes followed at once.', minimum=1, maximum=64)
    lookahead: int = option(
        4, 'Positions expanded ahead of the current one, per candidate.', minimum=0, maximum=64
    )
    advance_margin: float = option(
        0.002,
        'How much more similar (cosine) a later slot must be before a candidate moves to it.',
        minimum=0.0,
        maximum=1.0,
    )
    window_mib: float = option(
        2048.0, 'Most memory for expanded entries, MiB; the farthest are skipped.', minimum=0.0
    )


@dataclass(frozen=True)
class LibraryConfig:
    record: bool = option(
        False, 'Record dense episodes as references; takes effect at the next episode.', live=True
    )
    admit: str = option(
        'success', 'Which recorded episodes become references.', choices=('success', 'all')
    )
    directory: str = option(
        '', 'Library loaded at start and saved after each admission; empty: in memory only.'
    )


@dataclass(frozen=True)
class ShadowConfig:
    """Shadow mode: cached calls are rerun densely in idle time, and the two compared."""

    every: int = option(
        5,
        'Every how many cached calls one is rerun densely in idle time; 0: never.',
        minimum=0,
        live=True,
    )
    window: int = option(
        20,
        'Shadows over which the median action error is taken that may warn.',
        minimum=2,
        maximum=256,
    )
    warn_error: float = option(
        0.1,
        'Warn when the median action error (mean |cached - dense| over the chunk, normalised '
        'units) exceeds this.',
        minimum=0.0,
        live=True,
    )


@dataclass(frozen=True)
class PolicyConfig:
    model: ModelConfig = field(default_factory=ModelConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    library: LibraryConfig = field(default_factory=LibraryConfig)
    shadow: ShadowConfig = field(default_factory=ShadowConfig)


def fields_of(config: Any, prefix: str = '') -> Iterator[tuple[str, dataclasses.Field, Any]]:
    """Yield ``(dotted key, field, value)`` for every leaf of a configuration dataclass."""
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            yield from fields_of(value, f'{prefix}{item.name}.')
        else:
            yield f'{prefix}{item.name}', item, value


# What ``Policy.tune`` may change: its keyword -> the option's dotted key.
LIVE_OPTIONS = {
    key.removeprefix('cache.').removeprefix('library.').replace('.', '_'): key
    for key, item, _ in fields_of(PolicyConfig())
    if item.metadata['live']
}


# Keys of earlier versions, and what says the same now.
REPLACED = {
    'cache.group_len': 'list the steps that are computed densely in cache.anchors (group_len 5 of '
    '10 steps is anchors [0, 5])',
}


def check_value(key: str, item: dataclasses.Field, value: Any) -> Any:
    """Return ``value`` in the field's own type, or raise ConfigError naming ``key``."""
    default = item.default
    kind = type(default)
    if isinstance(default, tuple):
        return _checked_list(key, tuple(default), value)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float and number:
        value = _as_float(value)
    if type(value) is not kind:
        raise ConfigError(f'{key}: found {value!r}, expected a {kind.__name__} like {default!r}')
    low, high = item.metadata.get('minimum'), item.metadata.get('maximum')
    too_low = low is not None and not value >= low
    too_high = high is not None and not value <= high
    if too_low or too_high:
        raise ConfigError(f'{key}: found {value}, expected {range_text(low, high)}')
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f'{key}: found {value}, expected a finite number')
    choices = item.metadata.get('choices')
    if choices and value not in choices:
        raise ConfigError(f'{key}: found {value!r}, expected one of {", ".join(choices)}')
    return value


def _as_float(value: float) -> float:
    """An integer too large for a float becomes infinity, which no option allows."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _checked_list(key: str, default: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """A list as a tuple of the default's element type (names for an empty default)."""
    kind = type(default[0]) if default else str
    right = isinstance(value, (list, tuple)) and all(type(item) is kind for item in value)
    if not right or (kind is str and '' in value):
        word = 'names' if kind is str else 'whole numbers'
        raise ConfigError(f'{key}: found {value!r}, expected a list of {word}')
    return tuple(value)


def range_text(low: float | None, high: float | None) -> str:
    """The allowed range in words."""
    if low is None:
        return f'a value of at most {high:g}'
    if high is None:
        return f'a value of at least {low:g}'
    return f'a value from {low:g} to {high:g}'


def with_values(config: Any, values: Mapping[str, Any]) -> Any:
    """A copy of ``config`` with ``values`` (dotted keys) set, each of them checked."""
    known = {key: (item, old) for key, item, old in fields_of(config)}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(_why_unknown(key, value, known))
        config = _replace(config, key.split('.'), check_value(key, known[key][0], value))
    return config


def _why_unknown(key: str, value: Any, known: Iterable[str]) -> str:
    inside = sorted(name for name in known if name.startswith(f'{key}.'))
    if inside:
        return f'{key}: found {value!r}, expected a section with keys of {", ".join(inside)}'
    if key in REPLACED:
        return f'{key}: unknown key; it was replaced: {REPLACED[key]}'
    return f'{key}: unknown key{hint(key, known)}; known keys: {", ".join(sorted(known))}'


def hint(name: str, known: Iterable[str]) -> str:
    """`` (did you mean …?)`` when a known name is close, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f' (did you mean {close[0]}?)' if close else ''


def _replace(config: Any, path: list[str], value: Any) -> Any:
    head, *rest = path
    new = _replace(getattr(config, head), rest, value) if rest else value
    return dataclasses.replace(config, **{head: new})


def flatten(tree: Mapping[str, Any], prefix: str = '') -> dict[str, Any]:
    """Nested mappings to dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f'{prefix}{name}.'))
        else:
            flat[f'{prefix}{name}'] = value
    return flat


def load_config(path: str | Path) -> PolicyConfig:
    """Read a library configuration (plain YAML, sections as in PolicyConfig), strictly."""
    path = Path(path)
    try:
        tree = yaml.safe_load(path.read_text()) or {}
    except OSError as error:
        raise ConfigError(f'{path}: cannot be read ({error.strerror}); check the path') from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f'{path}: not valid YAML: {error}') from error
    if not isinstance(tree, Mapping):
        raise ConfigError(
            f'{path}: found a {type(tree).__name__}, expected sections like "cache:"'
        )
    return with_values(PolicyConfig(), flatten(tree))
