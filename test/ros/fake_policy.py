"""A policy without a model: settable latency and faults, and a record of what was asked of it.

Run as a program it is the node ``rmuscle`` with this policy, for tests of the process.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import numpy as np

from rmuscle_ros.config import PolicyConfig
from rmuscle_ros.types import (
    ActionChunk,
    EpisodeEnd,
    Mode,
    Observation,
    PolicyInfo,
    PolicyStatus,
    Provenance,
    Reason,
    ShadowStatus,
    StageTimes,
    WindowStatus,
)

JOINTS = ('left_a', 'left_b', 'right_a', 'right_b')
CAMERAS = ('cam_high', 'cam_low')
HORIZON = 20
PERIOD_S = 0.02


def make_chunk(
    stamp_s: float,
    actions: np.ndarray | None = None,
    horizon: int = HORIZON,
    period_s: float = PERIOD_S,
    call: int = 0,
) -> ActionChunk:
    """By default row k moves every joint to k."""
    if actions is None:
        actions = np.repeat(np.arange(horizon, dtype=np.float32)[:, None], len(JOINTS), axis=1)
    origin = Provenance(
        call=call,
        episode=0,
        mode=Mode.DENSE,
        reason=Reason.NO_REFERENCE,
        detail='fake',
        times=StageTimes(1.0, 2.0, 3.0, 6.0, 0.0),
        observation_stamp_s=stamp_s,
    )
    return ActionChunk(actions, JOINTS, period_s, stamp_s, origin)


class FakePolicy:
    """latency_s: how long ``infer`` takes. fault: raised by ``infer`` while it is set."""

    def __init__(
        self,
        config: PolicyConfig | None = None,
        latency_s: float = 0.05,
        period_s: float = PERIOD_S,
    ) -> None:
        self.info = PolicyInfo(
            model='fake',
            parameters=1,
            fingerprint='0',
            cameras=CAMERAS,
            image_size=(4, 4),
            joint_names=JOINTS,
            horizon=HORIZON,
            period_s=period_s,
            device='cpu',
            dtype='float32',
            engine='fake',
        )
        self.config = config
        self.latency_s = latency_s
        self.fault: Exception | None = None
        self.rebuild_error: str | None = None
        self.recording = False
        self.shadow = ShadowStatus()
        self.observations: list[Observation] = []
        self.tuned: dict[str, Any] = {}
        self.resets = self.ends = self.warm_ups = self.closes = 0
        self.in_call = threading.Event()
        self._serial = threading.Lock()

    def infer(self, obs: Observation) -> ActionChunk:
        with self._one_at_a_time():
            self.observations.append(obs)
            self.in_call.set()
            try:
                time.sleep(self.latency_s)
                if self.fault is not None:
                    raise self.fault
            finally:
                self.in_call.clear()
            start = np.array([obs.joints[name] for name in JOINTS], np.float32)
            ramp = np.linspace(0.0, 0.1, HORIZON, dtype=np.float32)[:, None]
            actions, period_s = start + ramp, self.info.period_s
            return make_chunk(obs.stamp_s, actions, period_s=period_s, call=len(self.observations))

    def warm_up(self) -> None:
        self.warm_ups += 1

    def reset(self) -> None:
        with self._one_at_a_time():
            self.resets += 1

    def end_episode(self, success: bool) -> EpisodeEnd:
        with self._one_at_a_time():
            self.ends += 1
            return EpisodeEnd(admitted=success, detail=f'success {success}', entries=3)

    def tune(self, **changes: Any) -> None:
        self.tuned.update(changes)

    def status(self) -> PolicyStatus:
        return PolicyStatus(
            calls={'no_reference': len(self.observations)},
            episode=self.resets + self.ends,
            library_episodes=0,
            library_entries=0,
            window=WindowStatus(),
            rebuild_error=self.rebuild_error,
            recording=self.recording,
            shadow=self.shadow,
        )

    def close(self) -> None:
        self.closes += 1

    def _one_at_a_time(self) -> _Serial:
        return _Serial(self._serial)


class _Serial:
    """Fails, rather than waits, when two threads use the policy at once."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        assert self._lock.acquire(blocking=False), 'the policy was called by two threads at once'

    def __exit__(self, *_: object) -> None:
        self._lock.release()


if __name__ == '__main__':
    from rmuscle_ros.ros.node import run

    latency_s = float(os.environ.get('FAKE_LATENCY_S', '0.05'))
    sys.exit(run(sys.argv, lambda config: FakePolicy(config, latency_s)))
