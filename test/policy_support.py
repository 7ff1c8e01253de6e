"""What the tests of the whole policy share."""

from typing import Any

import numpy as np

from rmuscle_ros.types import Observation, Provenance

# Neither fence nor guard stops a call; one that no reference serves is dense throughout.
OPEN: dict[str, Any] = {
    'cache.similarity_threshold': -1.0,
    'cache.drift_slack': 10.0,
    'cache.error_budget': 1e6,
    'cache.without_reference': 'dense',
}
NOISE = np.random.default_rng(1).normal(size=(7, 14)).astype(np.float32)


def infer_all(
    policy: Any, make_observation: Any, calls: int = 4, jitter: int = 30, **observation: Any
) -> list[Provenance]:
    """Calls of one episode, each with idle time behind it."""
    out = []
    for call in range(calls):
        out.append(policy.infer(make_observation(call, jitter, **observation)).provenance)
        assert policy.drain(20)
    return out


def infer_dense(policy: Any, observation: Observation, noise: np.ndarray = NOISE) -> np.ndarray:
    """The actions of a call with the caches off; they are on again afterwards."""
    policy.tune(enabled=False)
    actions = policy.infer(observation, noise=noise).actions
    policy.tune(enabled=True)
    return actions


def spy_on_runs(policy: Any) -> list[tuple[Any, Any]]:
    """A list that grows by (arguments, result) with every call of the engine's ``run``."""
    runs: list[tuple[Any, Any]] = []
    run = policy._engine.run

    def kept(*args: Any) -> Any:
        runs.append((args, run(*args)))
        return runs[-1][1]

    policy._engine.run = kept
    return runs
