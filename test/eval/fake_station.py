"""A station without physics and actors without a model, for tests of who is asked what when."""

import dataclasses
import types

import numpy as np
from fake_trials import INFO

from rmuscle_ros.types import ActionChunk, Mode, Provenance, Reason, StageTimes

JOINTS = ('left', 'right')
SMALL_INFO = dataclasses.replace(INFO, joint_names=JOINTS, horizon=6, image_size=(4, 4))


class FakeStation:
    """Succeeds when the joints were sent above ``needed`` in the seed's own scene."""

    JOINT_NAMES = JOINTS

    def __init__(self, needed=0.0):
        self.task = types.SimpleNamespace(name='lift_cube', instruction='lift it', steps=50)
        self.steps, self.seed, self.success, self.max_reward = 0, None, False, 0
        self._needed = needed

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def reset(self, seed):
        self.seed, self.steps, self.success = seed, 0, False

    def step(self, targets):
        self.steps += 1
        self.success = bool(targets.mean() > self._needed)
        self.max_reward = 2 * self.success

    def joint_positions(self):
        return np.zeros(len(JOINTS))

    def render(self):
        return {'top': np.zeros((4, 4, 3), np.uint8)}

    @property
    def time_s(self):
        return 0.02 * self.steps


class FakeActor:
    """Answers with the noise plus ``offset``, and writes down what happens to it."""

    def __init__(self, name='actor', events=None, offset=0.0, latency_ms=10.0, drain=None):
        self.info, self.name = SMALL_INFO, name
        self.events = [] if events is None else events
        self.offset, self.latency_ms = offset, latency_ms
        self._drain = drain or (lambda: True)

    def infer(self, observation, *, noise=None):
        self.events.append((self.name, 'infer', noise))
        times = StageTimes(1.0, 3.0, self.latency_ms - 4.0, self.latency_ms, 0.0)
        provenance = Provenance(0, 0, Mode.CACHED, Reason.CACHED, '', times, observation.stamp_s)
        actions = noise + self.offset
        return ActionChunk(actions, JOINTS, 0.02, observation.stamp_s, provenance)

    def reset(self):
        self.events.append((self.name, 'reset', None))

    def end_episode(self, success):
        self.events.append((self.name, 'end', success))

    def drain(self, timeout_s):
        self.events.append((self.name, 'drain', None))
        return self._drain()

    def close(self):
        self.events.append((self.name, 'close', None))


class FakeOracle:
    """Knows that the dense answer is the noise."""

    def __init__(self, events=None):
        self.events = [] if events is None else events

    def error(self, observation, noise, chunk):
        self.events.append(('oracle', 'error', noise))
        return float(np.abs(chunk.actions - noise).mean())

    def spread(self, observation, noise, other):
        self.events.append(('oracle', 'spread', other))
        return float(np.abs(other - noise).mean())
