"""What a sweep measures, scene by scene: found in the journal, or measured and put there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rmuscle_ros.config import CacheConfig, PolicyConfig, fields_of, with_values
from rmuscle_ros.eval.closed_loop import rotated
from rmuscle_ros.eval.sweep.encoding import decode, encode
from rmuscle_ros.eval.sweep.factors import Setting
from rmuscle_ros.eval.sweep.journal import Journal
from rmuscle_ros.eval.sweep.reuse import Comparison, State
from rmuscle_ros.eval.sweep.variants import Variant
from rmuscle_ros.eval.trials import Scene, Trial


def resolved(setting: Setting) -> dict[str, Any]:
    """Every option of cache and engine, the defaults too: they may be others tomorrow."""
    options = fields_of(with_values(PolicyConfig(), setting.values))
    return {key: value for key, _, value in options if key.startswith(('cache.', 'engine.'))}


class Grid:
    """Trials of every setting on every scene.

    settings: by name. found: how many trials the journal already had.
    """

    def __init__(
        self,
        settings: Sequence[Setting],
        seeds: Sequence[int],
        journal: Journal,
        circumstances: Mapping[str, Any],
    ) -> None:
        self.settings = {setting.name: setting for setting in settings}
        self._seeds = list(seeds)
        self._journal = journal
        self._circumstances = dict(circumstances)
        self._values: dict[tuple[str, int], Any] = {}
        for setting in settings:
            for seed in self._seeds:
                value = journal.get(self._about(setting, seed))
                if value is not None:
                    self._values[setting.name, seed] = value
        self.found = len(self._values)

    def __len__(self) -> int:
        return len(self.settings) * len(self._seeds)

    def missing(self) -> list[str]:
        """Settings that are to be run on some scene."""
        names = {name for row in self.pending().values() for name in row}
        return [name for name in self.settings if name in names]

    def pending(self) -> dict[int, list[str]]:
        """Scene -> settings to be run on it, in an order that rotates from scene to scene.

        Scenes without any are left out.
        """
        names = list(self.settings)
        rows = {
            seed: [n for n in rotated(names, number) if (n, seed) not in self._values]
            for number, seed in enumerate(self._seeds)
            if names
        }
        return {seed: names for seed, names in rows.items() if names}

    def put(self, name: str, seed: int, trial: Trial, spread: Sequence[float]) -> None:
        """Keep one measured trial."""
        value = {'trial': encode(trial), 'spread': list(spread)}
        about = self._about(self.settings[name], seed)
        self._journal.put(about, f'{name}, scene {seed}', value)
        self._values[name, seed] = value

    def finished(self) -> list[int]:
        """The scenes that all settings have ended."""
        pending = self.pending()
        return [seed for seed in self._seeds if self.settings and seed not in pending]

    def scenes(self) -> list[Scene]:
        """Their trials, in that order."""
        return [
            {name: decode(self._values[name, seed]['trial']) for name in self.settings}
            for seed in self.finished()
        ]

    @property
    def spread(self) -> list[float]:
        """Of those trials; see ``ClosedLoop``."""
        values = (self._values[name, seed] for seed in self.finished() for name in self.settings)
        return [distance for value in values for distance in value['spread']]

    def _about(self, setting: Setting, seed: int) -> dict[str, Any]:
        return {
            **self._circumstances,
            'settings': resolved(setting),
            'references': setting.references,
            'seed': seed,
        }


class StateGrid:
    """Errors of every variant on states of every scene.

    rows: scene -> its states, each ``{'call', 'similarity', 'errors': {variant: error}}``.
    found: how many scenes the journal already had.
    """

    def __init__(
        self,
        variants: Mapping[str, Variant],
        seeds: Sequence[int],
        journal: Journal,
        circumstances: Mapping[str, Any],
    ) -> None:
        """circumstances: those of the closed loop, and what chooses states and references."""
        self.variants = variants
        self._seeds, self._journal = list(seeds), journal
        self._circumstances = {
            **circumstances,
            'variants': {name: variant.settings() for name, variant in variants.items()},
            'cache': dataclasses.asdict(CacheConfig()),
        }
        known = {seed: journal.get(self._about(seed)) for seed in self._seeds}
        self.rows: dict[int, list[dict[str, Any]]] = {
            seed: row for seed, row in known.items() if row is not None
        }
        self.found = len(self.rows)

    def __len__(self) -> int:
        return len(self._seeds)

    def pending(self) -> list[int]:
        """Scenes that are to be measured."""
        return [seed for seed in self._seeds if seed not in self.rows]

    def put(self, seed: int, states: Sequence[State], comparison: Comparison) -> None:
        """Measure the states of one scene."""
        row = [
            {
                'call': state.call,
                'similarity': state.similarity,
                'errors': comparison.errors(state),
            }
            for state in states
        ]
        self._journal.put(self._about(seed), f'Action Cache, scene {seed}', row)
        self.rows[seed] = row

    def _about(self, seed: int) -> dict[str, Any]:
        return {**self._circumstances, 'seed': seed}
