"""What a run is judged by at its checkpoints: the correlation and closed-loop success."""

from __future__ import annotations

import copy
from types import TracebackType

import numpy as np

from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.config import PolicyConfig, with_values
from rmuscle_ros.memory.library import Library
from rmuscle_ros.models.registry import LoadedModel
from rmuscle_ros.models.tiny import TinyVla
from rmuscle_ros.policy import Policy
from rmuscle_ros.rollout import Rollout, roll_out
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.sim.tasks import TASKS
from rmuscle_ros.train.gradients import on_device
from rmuscle_ros.train.objective import Objective
from rmuscle_ros.train.samples import Samples
from rmuscle_ros.train.settings import TrainSettings
from rmuscle_ros.train.shortcut import correlation, early_batch
from rmuscle_ros.train.state import TrainState

# Scenes of the checks: neither demonstrations' nor those the model card is measured on.
FIRST_CHECK_SEED = 500_000


class Checker:
    """Evaluates the averaged weights of a run. Close it where it was created."""

    def __init__(self, settings: TrainSettings, state: TrainState, samples: Samples) -> None:
        self._settings, self._state, self._samples = settings, state, samples
        self._stations: dict[str, AlohaStation] = {}

    def check(self, closed_loop: bool) -> dict[str, float]:
        """``look_r``, and from closed loop per task the share of successes (and of lifts).

        ``look_r`` is missing when there are too few validation episodes for it.
        """
        model = copy.deepcopy(self._state.ema).eval()
        head = copy.deepcopy(self._state.ema_head)
        values = {}
        frames = self._samples.validation
        batch = None if frames is None else early_batch(frames)
        if batch is not None:
            ffn = DenseFfn(model.ffn_modules())
            batch = on_device(batch, model.action_std.device)
            values['look_r'] = correlation(Objective(model, head, ffn), batch, ffn)
        if closed_loop:
            values.update(self._closed_loop(model))
        return values

    def _closed_loop(self, model: TinyVla) -> dict[str, float]:
        config = with_values(PolicyConfig(), {'cache.enabled': False, 'engine.dtype': 'float32'})
        policy = Policy(config, LoadedModel(model, 'run', 'run', True), Library())
        values = {}
        try:
            for task in TASKS:
                results = self._episodes(policy, task)
                values[task] = float(np.mean([result.success for result in results]))
                if task == 'transfer_cube':
                    values['lifted'] = float(np.mean([result.lifted for result in results]))
        finally:
            policy.close()
        return values

    def _episodes(self, policy: Policy, task: str) -> list[Rollout]:
        if task not in self._stations:
            self._stations[task] = AlohaStation(policy.info.image_size[0], task)
        seeds = range(FIRST_CHECK_SEED, FIRST_CHECK_SEED + self._settings.check_episodes)
        return [roll_out(policy, self._stations[task], seed) for seed in seeds]

    def __enter__(self) -> Checker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for station in self._stations.values():
            station.close()
