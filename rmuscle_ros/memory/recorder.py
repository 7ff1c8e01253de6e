"""Collects the calls of one episode until its end decides whether it becomes a reference."""

from __future__ import annotations

import dataclasses
import secrets
import time

import numpy as np

from rmuscle_ros.cache.states import NeuronMasks
from rmuscle_ros.memory.entry import Entry, Episode, TaskKey
from rmuscle_ros.types import EpisodeEnd, ModelInputs


class EpisodeRecorder:
    """Entries of the running episode. One call that was not recorded spoils the episode."""

    def __init__(self, active: bool) -> None:
        self.active = active
        self._entries: list[Entry] = []
        self._task: TaskKey | None = None
        self._spoiled = ''

    def __len__(self) -> int:
        return len(self._entries)

    def spoil(self, why: str) -> None:
        """A call of the episode ran without recording, so the episode cannot be a reference."""
        if self.active and not self._spoiled:
            self._spoiled = why

    def add(
        self,
        task: TaskKey,
        inputs: ModelInputs,
        key: np.ndarray,
        masks: NeuronMasks,
        noise: np.ndarray,
        actions: np.ndarray,
        velocity: np.ndarray,
    ) -> None:
        """Keep one densely executed call; arguments as in Entry."""
        if self._task not in (None, task):
            self.spoil('cameras or instruction changed within the episode')
        self._task = task
        position = len(self._entries)
        self._entries.append(Entry('', position, inputs, key, masks, noise, actions, velocity))

    def finish(self, success: bool, admit: str) -> tuple[Episode | None, EpisodeEnd]:
        """The episode if the rule ``admit`` (success | all) lets it in, and what was decided."""
        refusal = self._refusal(success, admit)
        if refusal or self._task is None:
            return None, EpisodeEnd(False, refusal, len(self._entries))
        # Sortable by time, so that a library on disk keeps its order.
        episode_id = f'{time.strftime("%Y%m%dT%H%M%S", time.gmtime())}-{secrets.token_hex(3)}'
        entries = tuple(dataclasses.replace(e, episode_id=episode_id) for e in self._entries)
        detail = f'admitted with {len(entries)} entries'
        episode = Episode(episode_id, self._task, success, entries)
        return episode, EpisodeEnd(True, detail, len(entries), episode_id)

    def _refusal(self, success: bool, admit: str) -> str:
        if not self.active:
            return 'library.record was off when the episode began'
        if not self._entries:
            return self._spoiled or 'no call was made'
        if self._spoiled:
            return self._spoiled
        if admit == 'success' and not success:
            return 'the episode did not succeed and library.admit is success'
        return ''
