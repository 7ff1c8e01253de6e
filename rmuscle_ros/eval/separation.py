"""Can the fences tell a repetition from something else?

The scripted expert drives the simulated station, so that every phase of the task is seen. Frames
of test episodes are compared with reference episodes of other seeds: by similarity of keys, and by
the drift of each view's rows at the first prefix site, known before anything is copied.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.cache.guard import CopyErrors
from rmuscle_ros.config import CacheConfig
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval import files
from rmuscle_ros.kernels.token_drift import token_drift, view_drift
from rmuscle_ros.memory.calibration import calibrate
from rmuscle_ros.memory.entry import Entry, Episode, TaskKey
from rmuscle_ros.memory.memory import CALIBRATION_SIMILARITY
from rmuscle_ros.memory.retrieval import KeyIndex
from rmuscle_ros.models.processing import prepare
from rmuscle_ros.models.registry import load_model
from rmuscle_ros.sim.expert import Expert
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.types import ModelInputs, Observation

CALL_STEPS = 25
OTHER_PHASE_CALLS = 3
EXAMPLES = """examples:
  rmuscle eval separation
  rmuscle eval separation --checkpoint DIR --json out/separation.json --html out/separation.html
"""


@dataclass(frozen=True)
class Frame:
    """One frame of an episode: its call number, inputs, key [K] and first-site rows [V, D]."""

    call: int
    inputs: ModelInputs
    key: np.ndarray
    rows: Tensor


@dataclass(frozen=True)
class Distributions:
    """class -> one value per test frame. drift: in units of the limits [views], calibrated on the
    references."""

    similarity: dict[str, list[float]]
    drift: dict[str, list[float]]
    drift_limits: dict[str, float]
    similarity_threshold: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--checkpoint',
        default='',
        help="directory, or a shipped one's name; empty (default): untrained",
    )
    parser.add_argument('--references', type=int, default=4, help='reference episodes (4)')
    parser.add_argument('--tests', type=int, default=4, help='test episodes, other seeds (4)')
    parser.add_argument('--seed', type=int, default=0, help='first scene (0)')
    parser.add_argument('--json', type=Path, metavar='FILE', help='write all values here')
    parser.add_argument('--html', type=Path, metavar='FILE', help='write a page with the plots')


def run(args: argparse.Namespace) -> int:
    if args.references < 2 or args.tests < 1:
        raise ConfigError(
            f'found {args.references} references and {args.tests} tests, expected at least 2 and '
            '1: the drift fence is calibrated leaving one episode out'
        )
    if args.seed < 0:
        raise ConfigError(f'--seed: found {args.seed}, expected a scene from 0 on')
    files.check_outputs(json=args.json, html=args.html)
    model = load_model(args.checkpoint, 0).model
    engine = EagerEngine(model, torch.device('cpu'), torch.float32, 10)
    result = measure(engine, args.references, args.tests, args.seed, print)
    if args.json:
        _write(args.json, json.dumps(as_json(result), indent=2) + '\n')
    if args.html:
        from rmuscle_ros.eval.separation_page import page

        _write(args.html, page(result))
    print(table(result))
    return 0


def measure(
    engine: EagerEngine,
    references: int,
    tests: int,
    seed: int,
    progress: Callable[[str], None],
) -> Distributions:
    """Run the expert on all seeds and compare. Deterministic."""
    recorder = _Recorder(engine)
    reference = []
    for number in range(references):
        progress(f'reference episode {number + 1}/{references}')
        reference.append(recorder.frames(seed + number))
    episodes = [_episode(str(number), frames) for number, frames in enumerate(reference)]
    config = CacheConfig()
    limits = _limits(episodes, reference, config)
    compare = _Comparison(episodes, reference, limits, np.random.default_rng(seed))
    for number in range(tests):
        progress(f'test episode {number + 1}/{tests}')
        episode_seed = seed + references + number
        for frame in recorder.frames(episode_seed):
            compare.normal(frame)
        for camera in engine.model.cameras:
            for frame in recorder.frames(episode_seed, covered=camera):
                compare.covered(frame)
    return Distributions(
        compare.similarity,
        compare.drift,
        dict(zip(engine.model.cameras, map(float, limits), strict=True)),
        config.similarity_threshold,
    )


def _limits(
    episodes: Sequence[Episode], reference: Sequence[Sequence[Frame]], config: CacheConfig
) -> np.ndarray:
    """The drift fence of the reference episodes, float32 [views]."""
    rows = {
        entry.id: frame.rows
        for episode, frames in zip(episodes, reference, strict=True)
        for entry, frame in zip(episode.entries, frames, strict=True)
    }

    def compare(entry: Entry, match: Entry, _checkpoint: Callable[[], None]) -> CopyErrors:
        return CopyErrors(token_drift(rows[entry.id], rows[match.id]), {})

    # As the policy does (``memory.memory``).
    least = max(CALIBRATION_SIMILARITY, config.similarity_threshold)
    calibrations = list(calibrate(episodes, compare, lambda: None, least, {}))
    if not calibrations:
        raise ConfigError(
            'found no two reference episodes that resemble each other above similarity '
            f'{least:g}, expected some: use more --references'
        )
    return calibrations[-1].limits(config.drift_quantile, config.drift_slack)


class _Recorder:
    """Frames of expert episodes, one per CALL_STEPS control steps."""

    def __init__(self, engine: EagerEngine) -> None:
        self._engine = engine
        self._station = AlohaStation(engine.model.image_size)
        self._expert = Expert()

    def frames(self, seed: int, covered: str | None = None) -> list[Frame]:
        station = self._station
        station.reset(seed)
        plan = self._expert.plan(station.cube_position()[:2])
        frames = []
        for call, start in enumerate(range(0, len(plan), CALL_STEPS)):
            frames.append(self._frame(call, covered))
            for targets in plan[start : start + CALL_STEPS]:
                station.step(targets)
        return frames

    def _frame(self, call: int, covered: str | None) -> Frame:
        station, engine = self._station, self._engine
        images = station.render()
        if covered is not None:
            images[covered] = np.zeros_like(images[covered])
        joints = dict(zip(station.JOINT_NAMES, station.joint_positions(), strict=True))
        observation = Observation(images, joints, station.task.instruction, station.time_s)
        inputs = prepare(observation, engine.model)
        key = engine.observe(inputs).key
        return Frame(call, inputs, key, engine.first_site_input(inputs))


class _Comparison:
    """Collects the distributions of test frames against all reference frames."""

    def __init__(
        self,
        episodes: Sequence[Episode],
        reference: Sequence[Sequence[Frame]],
        limits: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        self._index = KeyIndex(episodes)
        self._frames = [frame for frames in reference for frame in frames]
        self._calls = np.array([frame.call for frame in self._frames])
        self._limits, self._rng = limits, rng
        self.similarity: dict[str, list[float]] = {}
        self.drift: dict[str, list[float]] = {}

    def normal(self, frame: Frame) -> None:
        similarity = self._similarities(frame)
        other = np.abs(self._calls - frame.call) >= OTHER_PHASE_CALLS
        best_other = int(np.flatnonzero(other)[similarity[other].argmax()])
        any_other = int(self._rng.choice(np.flatnonzero(other)))
        self._add('same phase (best match)', frame, similarity, int(similarity.argmax()))
        self._add('other phase (its best)', frame, similarity, best_other)
        self._add('random reference', frame, similarity, any_other)

    def covered(self, frame: Frame) -> None:
        similarity = self._similarities(frame)
        self._add('covered camera (best match)', frame, similarity, int(similarity.argmax()))

    def _similarities(self, frame: Frame) -> np.ndarray:
        return np.concatenate(list(self._index.similarities(frame.key).values()))

    def _add(self, name: str, frame: Frame, similarity: np.ndarray, match: int) -> None:
        drift = token_drift(frame.rows, self._frames[match].rows)
        relative = view_drift(drift, len(self._limits)).numpy() / self._limits
        self.similarity.setdefault(name, []).append(float(similarity[match]))
        self.drift.setdefault(name, []).append(float(relative.max()))


def _episode(name: str, frames: Sequence[Frame]) -> Episode:
    """Frames as an Episode; masks and actions play no part in retrieval and calibration."""
    none = np.empty(0, np.float32)
    entries = tuple(
        Entry(name, frame.call, frame.inputs, frame.key, None, none, none, none)  # type: ignore[arg-type]
        for frame in frames
    )
    task = TaskKey(frames[0].inputs.instruction, 'separation', frames[0].inputs.cameras)
    return Episode(name, task, True, entries)


def as_json(result: Distributions) -> dict[str, Any]:
    return {
        'schema': 1,
        'drift_limits': result.drift_limits,
        'similarity_threshold': result.similarity_threshold,
        'similarity': result.similarity,
        'drift': result.drift,
        'stopped_by_drift': {name: stopped_by_drift(result, name) for name in result.drift},
        'stopped': {name: stopped(result, name) for name in result.drift},
    }


def stopped_by_drift(result: Distributions, name: str) -> int:
    """How many frames of a class the drift fence alone would stop."""
    return sum(drift > 1 for drift in result.drift[name])


def stopped(result: Distributions, name: str) -> int:
    """How many frames of a class one of the fences would stop."""
    return sum(
        drift > 1 or similarity < result.similarity_threshold
        for drift, similarity in zip(result.drift[name], result.similarity[name], strict=True)
    )


def table(result: Distributions) -> str:
    """The distributions for a terminal."""
    lines = [
        f'{"":30}{"similarity p5 / p50 / p95":>28}{"drift p5 / p50 / p95":>26}'
        f'{"by drift":>12}{"by either":>12}'
    ]
    for name, values in result.similarity.items():
        similarity = ' / '.join(f'{q:.3f}' for q in np.quantile(values, [0.05, 0.5, 0.95]))
        drift = ' / '.join(f'{q:.2f}' for q in np.quantile(result.drift[name], [0.05, 0.5, 0.95]))
        by_drift = f'{stopped_by_drift(result, name)}/{len(values)}'
        either = f'{stopped(result, name)}/{len(values)}'
        lines.append(f'{name:30}{similarity:>28}{drift:>26}{by_drift:>12}{either:>12}')
    limits = ', '.join(f'{camera} {limit:.4f}' for camera, limit in result.drift_limits.items())
    lines.append(
        f'The last columns count the frames that the fences stop: drift above 1 (its unit is the '
        f'calibrated limit: {limits}), similarity below {result.similarity_threshold:g}.'
    )
    return '\n'.join(lines)


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
