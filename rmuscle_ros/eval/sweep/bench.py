"""Policies of a sweep: many settings over the same recorded episodes, calibrated once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rmuscle_ros.config import with_values
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.errors import ConfigError, RebuildError
from rmuscle_ros.eval.modes import DENSE, DENSE_VALUES, EvalMode
from rmuscle_ros.eval.oracle import DenseOracle
from rmuscle_ros.eval.sweep.factors import Setting
from rmuscle_ros.eval.workbench import Workbench
from rmuscle_ros.memory.calibration import Pair
from rmuscle_ros.memory.entry import Episode
from rmuscle_ros.memory.library import Library
from rmuscle_ros.planning import needs_masks
from rmuscle_ros.policy import Policy
from rmuscle_ros.refresh import record_episode_again
from rmuscle_ros.types import ActionChunk, Observation

BUILD_S = 600.0
DENSE_SETTING = Setting(DENSE, DENSE_VALUES, 0)


class SweepBench(Workbench):
    """A bench whose policies share masks and calibrations wherever these must be equal."""

    def __init__(self, checkpoint: str) -> None:
        super().__init__(checkpoint)
        self._engine = self.engine()
        self._recorded: dict[tuple[str, tuple[int, ...], str], Episode] = {}
        # What calibration measured, by what it depends on: the episodes, and a call's steps.
        self._pairs: dict[tuple[int, int], dict[str, Pair]] = {}

    def policy(self, setting: Setting) -> Policy:
        """A policy with a library of its own, everything expanded and calibrated.

        ConfigError for settings that contradict each other.
        """
        config = with_values(self.base, setting.values)
        library = Library()
        depends_on = (setting.references, config.engine.denoise_steps)
        library.pairs = self._pairs.setdefault(depends_on, {})
        for episode in list(self.library)[: setting.references]:
            if needs_masks(config.cache):
                episode = self._recorded_with(episode, config.cache.anchors, config.cache.score)
            library.add(episode)
        if len(library) < setting.references:
            raise ConfigError(
                f'{setting.name}: found {len(library)} recorded episodes, expected '
                f'{setting.references}; record more'
            )
        policy = Policy(config, self._loaded, library)
        if not policy.drain(BUILD_S):
            policy.close()
            raise RebuildError(
                f'{setting.name}: expanding and calibrating has not ended in {BUILD_S:g} s; use '
                'fewer references'
            )
        return policy

    def mode(self, setting: Setting) -> EvalMode:
        """The setting as a mode of the closed loop."""
        cached = setting.references > 0
        return EvalMode(
            setting.name,
            '',
            setting.values,
            references=cached,
            rebuilds=cached,
        )

    def noises(self) -> dict[str, np.ndarray]:
        """Entry id -> its noise, float32 [H, A]."""
        entries = (entry for episode in self.library for entry in episode.entries)
        return {entry.id: entry.noise for entry in entries}

    def _recorded_with(self, episode: Episode, anchors: tuple[int, ...], score: str) -> Episode:
        if (anchors, score) == (self.base.cache.anchors, self.base.cache.score):
            return episode
        key = (episode.id, anchors, score)
        if key not in self._recorded:
            self._recorded[key] = record_episode_again(self._engine, episode, anchors, score)
        return self._recorded[key]


class SharedNoiseOracle(DenseOracle):
    """Compares a call that took its reference's noise with the dense answer to that noise."""

    def __init__(self, engine: EagerEngine, noise_of: Mapping[str, np.ndarray]) -> None:
        """noise_of: entry id -> float32 [H, A]."""
        super().__init__(engine)
        self._noise_of = noise_of

    def error(self, observation: Observation, noise: np.ndarray, chunk: ActionChunk) -> float:
        # A call takes another noise only from a reference that serves it.
        reference = chunk.provenance.reference_id
        return super().error(
            observation, noise if reference is None else self._noise_of[reference], chunk
        )
