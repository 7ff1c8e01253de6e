"""The sliding window: which entries an episode follows now. Pure logic, no threads.

A slot is (candidate, position). Candidates are chosen by the first call of an episode and stay;
each has a current position that only ever advances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rmuscle_ros.memory.entry import Entry, Episode


@dataclass(frozen=True)
class Slot:
    """An entry the window follows. ahead: positions after its candidate's current one."""

    entry: Entry
    similarity: float
    ahead: int


class Window:
    """Follows ``candidates`` episodes by visual similarity, for one episode of the robot."""

    def __init__(self, candidates: int, lookahead: int, advance_margin: float) -> None:
        self._count, self._lookahead, self._margin = candidates, lookahead, advance_margin
        self._candidates: list[Episode] = []
        self._position: dict[str, int] = {}
        self._before: dict[str, int] = {}
        self._similarity: dict[str, np.ndarray] = {}

    def update(
        self, episodes: Sequence[Episode], similarities: Mapping[str, np.ndarray]
    ) -> list[Slot]:
        """Choose candidates (first call), advance positions, return all slots, best first.

        similarities: episode id -> [entries], the call's similarity to each entry.
        """
        if not self._candidates:
            first = sorted(episodes, key=lambda e: -similarities[e.id][0])
            self._candidates = first[: self._count]
            self._position = {episode.id: 0 for episode in self._candidates}
        self._before = dict(self._position)
        self._similarity = {e.id: similarities[e.id] for e in self._candidates}
        for episode in self._candidates:
            self._position[episode.id] = self._advance(
                self._position[episode.id], similarities[episode.id]
            )
        return sorted(self._slots(), key=lambda slot: -slot.similarity)

    def undo(self) -> None:
        """Take the last update's advances back: its picture proved to be no repetition."""
        self._position = dict(self._before)

    def _advance(self, position: int, similarity: np.ndarray) -> int:
        """The best position within the lookahead that beats the current one by the margin.

        When the best lies at the window's edge the search goes on from there by keys alone. A
        window without lookahead still looks one position ahead, or it would never move.
        """
        reach = max(1, self._lookahead)
        while True:
            ahead = similarity[position : position + reach + 1]
            best = int(np.argmax(ahead))
            if best == 0 or ahead[best] <= ahead[0] + self._margin:
                return position
            position += best
            if best < reach:
                return position

    def _slots(self) -> list[Slot]:
        slots = []
        for episode in self._candidates:
            position = self._position[episode.id]
            entries = episode.entries[position : position + self._lookahead + 1]
            slots += [
                Slot(entry, float(self._similarity[episode.id][entry.position]), ahead)
                for ahead, entry in enumerate(entries)
            ]
        return slots

    def wanted(self) -> list[Entry]:
        """Entries to keep expanded, most urgent first.

        Current positions, then nearest lookahead, best candidate first.
        """
        current = {
            e.id: float(self._similarity[e.id][self._position[e.id]]) for e in self._candidates
        }
        slots = sorted(
            self._slots(), key=lambda slot: (slot.ahead, -current[slot.entry.episode_id])
        )
        return [slot.entry for slot in slots]
