"""How far actions are from what the dense policy would have answered."""

from __future__ import annotations

import numpy as np
import torch

from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.errors import RecordError
from rmuscle_ros.models.processing import prepare
from rmuscle_ros.types import ActionChunk, ModelInputs, Observation


class DenseOracle:
    """Repeats calls densely, on the same observation with the same noise.

    An action error is the mean over a chunk's rows and joints of |difference| in units of the
    standard deviation of that joint's actions in training ("normalised units").
    """

    def __init__(self, engine: EagerEngine) -> None:
        self._engine = engine

    def error(self, observation: Observation, noise: np.ndarray, chunk: ActionChunk) -> float:
        """Action error of ``chunk``, the answer to ``observation`` with ``noise`` [H, A]."""
        names = self._engine.model.joint_names
        if set(chunk.joint_names) != set(names):
            raise RecordError(
                f'a chunk has the joints {", ".join(chunk.joint_names)}, expected '
                f'{", ".join(names)}; compare modes of one policy'
            )
        order = [chunk.joint_names.index(name) for name in names]
        inputs = prepare(observation, self._engine.model)
        return self._difference(inputs, chunk.actions[:, order], self._actions(inputs, noise))

    def spread(self, observation: Observation, noise: np.ndarray, other: np.ndarray) -> float:
        """The same distance between two dense answers that differ in nothing but their noise."""
        inputs = prepare(observation, self._engine.model)
        return self._difference(inputs, self._actions(inputs, noise), self._actions(inputs, other))

    def _actions(self, inputs: ModelInputs, noise: np.ndarray) -> np.ndarray:
        return self._engine.run(self._engine.observe(inputs), noise=noise).actions

    def _difference(self, inputs: ModelInputs, a: np.ndarray, b: np.ndarray) -> float:
        if a.shape != b.shape:
            raise RecordError(f'a chunk is {a.shape}, expected {b.shape} (horizon, joints)')
        return float(np.mean(np.abs(a - b) / self._scale(inputs)))

    def _scale(self, inputs: ModelInputs) -> np.ndarray:
        """Joint units per normalised unit, float64 [H, J]: ``unnormalise`` is affine."""
        model = self._engine.model
        ones = torch.ones(1, model.horizon, model.action_width, device=self._engine.device)
        high, low = (model.unnormalise(x, inputs).double() for x in (ones, 0 * ones))
        return (high - low).cpu().numpy()
