"""Ways in which denoise steps reuse one another, compared per unit of FFN work. No PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from rmuscle_ros.config import CacheConfig
from rmuscle_ros.eval.modes import DENSE_STEPS
from rmuscle_ros.eval.sweep.factors import ANCHORS
from rmuscle_ros.presets import PAPER

# Families, in the order in which they are shown.
FEWER = 'fewer steps'
SKIPPED = 'skipped steps'
MASKED = 'masked neurons'
RANDOM = 'random neurons'
FAMILIES = (FEWER, SKIPPED, MASKED, RANDOM)
PLAIN_STEPS = (1, 2, 3, 4, 5, 6, 7, 8)
RHOS_N = (0.125, 0.25, 0.5)
UNSELECTED = ('hold', 'extrapolate', 'reference')
MASK_SOURCES = ('reference', 'anchor', 'both')
SCORES = ('contribution', 'delta')


@dataclass(frozen=True)
class Variant:
    """One way to denoise. anchors: the steps computed in full, of ``steps``; settings that mean
    nothing here are None."""

    family: str
    steps: int
    anchors: tuple[int, ...]
    rho_n: float | None = None
    unselected: str | None = None
    mask_source: str | None = None
    score: str | None = None

    @property
    def shared(self) -> bool:
        """Whether it needs the reference's noise."""
        return self.unselected == 'reference'

    @property
    def name(self) -> str:
        if self.family == FEWER:
            return '1 step' if self.steps == 1 else f'{self.steps} steps'
        at = ' '.join(map(str, self.anchors))
        if self.family == SKIPPED:
            return f'skip between {at}, {self.unselected}'
        mask = {
            RANDOM: 'random neurons',
            MASKED: f'{self.score} of {_SOURCE_WORDS.get(self.mask_source or "")}',
        }[self.family]
        return f'ρn {self.rho_n:g} between {at}, {self.unselected}, {mask}'

    def settings(self) -> dict[str, Any]:
        """Its fields, as far as they mean something."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {key: value for key, value in values.items() if value is not None}


_SOURCE_WORDS = {'reference': 'the reference', 'anchor': 'the own anchor', 'both': 'both'}


def of_cache(anchors: tuple[int, ...], rho_n: float, unselected: str, **mask: str) -> Variant:
    """The variant that a configuration of the cache amounts to; mask: mask_source and score."""
    if rho_n == 0:
        return Variant(SKIPPED, DENSE_STEPS, anchors, unselected=unselected)
    return Variant(MASKED, DENSE_STEPS, anchors, rho_n, unselected, **mask)


_CONFIG = CacheConfig()
DEFAULT_VARIANT = of_cache(
    _CONFIG.anchors,
    _CONFIG.rho_n,
    _CONFIG.unselected,
    mask_source=_CONFIG.mask_source,
    score=_CONFIG.score,
)
PAPER_VARIANT = of_cache(
    PAPER['cache.anchors'],
    PAPER['cache.rho_n'],
    PAPER['cache.unselected'],
    mask_source=PAPER['cache.mask_source'],
    score=PAPER['cache.score'],
)


def variants() -> dict[str, Variant]:
    """All of them by name, each once."""
    found = {variant.name: variant for variant in _all()}
    for variant in (DEFAULT_VARIANT, PAPER_VARIANT):
        found.setdefault(variant.name, variant)
    return found


def _all() -> Iterator[Variant]:
    for steps in PLAIN_STEPS:
        yield Variant(FEWER, steps, tuple(range(steps)))
    for anchors, unselected in product(ANCHORS.values(), UNSELECTED):
        yield Variant(SKIPPED, DENSE_STEPS, anchors, unselected=unselected)
    masked = (DEFAULT_VARIANT.anchors, PAPER_VARIANT.anchors)
    for anchors, rho_n, unselected in product(masked, RHOS_N, UNSELECTED):
        for source, score in product(MASK_SOURCES, SCORES):
            yield Variant(MASKED, DENSE_STEPS, anchors, rho_n, unselected, source, score)
        if unselected != 'reference':
            yield Variant(RANDOM, DENSE_STEPS, anchors, rho_n, unselected)
