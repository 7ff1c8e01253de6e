"""What the modes of a comparison are built from: one checkpoint and its recorded references."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import torch
from tqdm import tqdm

from rmuscle_ros.config import PolicyConfig, fields_of, with_values
from rmuscle_ros.engine.device import resolve_device, resolve_dtype, resolve_threads
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.methods import METHODS
from rmuscle_ros.eval.modes import DENSE_STEPS, DENSE_VALUES, EvalMode
from rmuscle_ros.memory.library import Library
from rmuscle_ros.models.registry import load_model
from rmuscle_ros.policy import Policy
from rmuscle_ros.rollout import Actor, roll_out
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.types import PolicyInfo

# Reference episodes come from scenes that no evaluation uses.
REFERENCE_SEED = 500_000
MOST_REFERENCE_TRIES = 4


def check_references(count: int) -> None:
    """Raise ConfigError for fewer episodes than the caches can be calibrated on."""
    if count < 2:
        raise ConfigError(
            f'references: found {count}, expected at least 2: drift fence and guard compare them'
        )


class Workbench:
    """Builds actors that share one model and one set of reference episodes."""

    def __init__(self, checkpoint: str) -> None:
        """Load the checkpoint (a directory, a shipped one's name, or '' for untrained weights)."""
        # Shadow calls would be taken for rebuild time.
        values = {'model.checkpoint': checkpoint, 'shadow.every': 0}
        self.base = with_values(PolicyConfig(), values)
        torch.set_num_threads(resolve_threads(self.base.engine.threads))
        self._loaded = load_model(checkpoint, self.base.model.seed)
        self.trained = self._loaded.trained
        self.library = Library()
        self.reference_seeds: list[int] = []
        with closing(self._policy(DENSE_VALUES, Library())) as policy:
            self.info: PolicyInfo = policy.info

    def record(self, station: AlohaStation, count: int) -> None:
        """Record ``count`` successful dense episodes; ConfigError when there are too few."""
        check_references(count)
        bar = tqdm(total=count, desc='references', unit='episode')
        recording = DENSE_VALUES | {'library.record': True}
        with closing(self._policy(recording, self.library)) as policy, bar:
            for seed in range(REFERENCE_SEED, REFERENCE_SEED + MOST_REFERENCE_TRIES * count):
                rollout = roll_out(policy, station, seed)
                if policy.end_episode(rollout.success).admitted:
                    self.reference_seeds.append(seed)
                    bar.update()
                if len(self.reference_seeds) == count:
                    return
        raise ConfigError(
            f'found {len(self.reference_seeds)} successes in {MOST_REFERENCE_TRIES * count} '
            f'episodes of {station.task.name}, expected {count}: this policy does not do the '
            'task; give a trained --checkpoint or --modes dense'
        )

    def engine(self) -> EagerEngine:
        """A dense engine of its own over the shared weights."""
        device = resolve_device(self.base.engine.device)
        dtype = resolve_dtype(self.base.engine.dtype, device)
        return EagerEngine(self._loaded.model, device, dtype, DENSE_STEPS)

    def actor(self, mode: EvalMode) -> Actor:
        """A new actor with a library of its own, which holds the recorded episodes."""
        if mode.method:
            make = METHODS[mode.method]
            return make(self.engine(), self._own_library(), self.info, **mode.values)
        policy = self._policy(mode.values, self._own_library())
        policy.refresh_library()
        return policy

    def settings(self, mode: EvalMode) -> dict[str, Any]:
        """Everything that must be equal to repeat the mode."""
        defaults = METHODS[mode.method].settings if mode.method else self.base
        return {key: value for key, _, value in fields_of(with_values(defaults, mode.values))}

    def _policy(self, values: Mapping[str, Any], library: Library) -> Policy:
        return Policy(with_values(self.base, values), self._loaded, library)

    def _own_library(self) -> Library:
        """Another library of the same episodes: a policy may replace its own entries.

        What calibration measured does not depend on the settings and is shared.
        """
        library = Library()
        library.pairs = self.library.pairs
        for episode in self.library:
            library.add(episode)
        return library
