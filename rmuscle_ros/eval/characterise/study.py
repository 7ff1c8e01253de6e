"""Records the episodes and joins all measures into one result, ready for JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from rmuscle_ros.cache.guard import CopyErrors
from rmuscle_ros.config import CacheConfig
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.characterise import flops, observations, similarity
from rmuscle_ros.eval.characterise.record import Call, Recorder, Recording
from rmuscle_ros.eval.characterise.similarity import References
from rmuscle_ros.eval.workbench import MOST_REFERENCE_TRIES, REFERENCE_SEED
from rmuscle_ros.kernels.token_drift import token_drift
from rmuscle_ros.machine import machine, versions
from rmuscle_ros.memory.calibration import calibrate
from rmuscle_ros.memory.entry import Entry
from rmuscle_ros.memory.memory import CALIBRATION_SIMILARITY
from rmuscle_ros.models.registry import LoadedModel
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.sim.tasks import TASKS


@dataclass(frozen=True)
class Settings:
    """What is studied, at the paper's setting: rho_p and rho_n are its, the groups this project's.

    references, tests: episodes; of the other task as many as tests, on scenes of their own.
    seed: the first test scene. admit: which episodes become references, ``success`` or ``all``.
    """

    task: str
    references: int
    tests: int
    seed: int
    admit: str = 'success'
    denoise_steps: int = 10
    group_len: int = 5
    rho_p: float = 0.4
    rho_n: float = 0.5

    def __post_init__(self) -> None:
        if self.references < 2 or self.tests < 1 or self.seed < 0:
            raise ConfigError(
                f'found {self.references} references, {self.tests} tests from scene {self.seed} '
                'on, expected at least 2 references (the drift fence compares them), 1 test '
                'and a scene from 0 on'
            )
        first, last = self.test_scenes.start, self.other_scenes.stop - 1
        references = self.reference_scenes
        if first < references.stop and references.start <= last:
            raise ConfigError(
                f'found test scenes {first} to {last}, expected none of the reference scenes '
                f'{references.start} to {references.stop - 1}: choose another seed'
            )

    @property
    def other_task(self) -> str:
        return next(name for name in TASKS if name != self.task)

    @property
    def test_scenes(self) -> range:
        return range(self.seed, self.seed + self.tests)

    @property
    def other_scenes(self) -> range:
        """Test scenes of the other task: the same scene would show the very same pictures."""
        return range(self.test_scenes.stop, self.test_scenes.stop + self.tests)

    @property
    def reference_scenes(self) -> range:
        """The scenes tried; references are the first of them that are admitted."""
        return range(REFERENCE_SEED, REFERENCE_SEED + MOST_REFERENCE_TRIES * self.references)


def study(loaded: LoadedModel, settings: Settings) -> dict[str, Any]:
    """Everything measured, as plain values. Deterministic for a seed; runs on the CPU."""
    engine = EagerEngine(loaded.model, torch.device('cpu'), torch.float32, settings.denoise_steps)
    recorder = Recorder(engine, loaded, settings.group_len)
    with AlohaStation(engine.model.image_size, settings.task) as station:
        references = _references(recorder, station, settings)
        limits = _drift_limits(references)
        tests = _tests(recorder, station, settings.test_scenes)
    with AlohaStation(engine.model.image_size, settings.other_task) as station:
        other = _tests(recorder, station, settings.other_scenes)
    index = References(references)
    data = _served(recorder, index, tests, other, settings.seed)
    rho_p, rho_n = settings.rho_p, settings.rho_n
    return {
        'schema': 1,
        'settings': asdict(settings) | {'other_task': settings.other_task},
        'model': {key: getattr(loaded, key) for key in ('name', 'fingerprint', 'trained')},
        'episodes': {
            'references': _summary(references),
            'tests': _summary(tests),
            'other': _summary(other),
        },
        'served': [len(data.calls), len(_calls(tests))],
        'context': observations.context(data, rho_p),
        'action': observations.action(data, rho_n),
        'overlap': observations.overlap(data, rho_n),
        'similarity': _similarity(engine, index, tests, other, limits),
        'flops': flops.count(engine, data.calls[0].entry.inputs, rho_p, rho_n, settings.group_len),
        'versions': versions(),
        'machine': machine(),
    }


def _references(recorder: Recorder, station: AlohaStation, settings: Settings) -> list[Recording]:
    """The first admitted episodes of the reference scenes."""
    found: list[Recording] = []
    with tqdm(total=settings.references, desc='references', unit='episode') as bar:
        for scene in settings.reference_scenes:
            recording = recorder.episode(station, scene)
            if settings.admit == 'all' or recording.episode.success:
                found.append(recording)
                bar.update()
            if len(found) == settings.references:
                return found
    raise ConfigError(
        f'found {len(found)} successes in {len(settings.reference_scenes)} episodes of '
        f'{settings.task}, expected {settings.references}: this policy does not do the task; give '
        'a trained --checkpoint, or take failures for references with --admit all'
    )


def _tests(recorder: Recorder, station: AlohaStation, scenes: range) -> list[Recording]:
    """The episodes of all ``scenes``, whether they succeed or not."""
    bar = tqdm(scenes, desc=station.task.name, unit='episode')
    return [recorder.episode(station, scene) for scene in bar]


def _similarity(
    engine: EagerEngine,
    index: References,
    tests: list[Recording],
    other: list[Recording],
    limits: np.ndarray,
) -> dict[str, Any]:
    """Every test call against the references, by kind of call."""
    calls = _calls(tests)
    apart = [(call, index.best_other_phase(call)) for call in calls]
    kinds = {
        'same_task': [(call, index.best(call)) for call in calls],
        'other_phase': [(call, match) for call, match in apart if match is not None],
        'other_task': [(call, index.best(call)) for call in _calls(other)],
    }
    fence = CacheConfig().similarity_threshold
    return similarity.study(kinds, limits, engine.model.cameras, fence)


def _served(
    recorder: Recorder,
    index: References,
    tests: list[Recording],
    other: list[Recording],
    seed: int,
) -> observations.Data:
    """The test calls that a reference may serve, and all that they are compared with.

    Calls below the similarity fence run densely, so what caches would do there does not matter.
    """
    fence = CacheConfig().similarity_threshold
    matched = [(call, index.best(call)) for call in _calls(tests)]
    served = [(call, match) for call, match in matched if match.similarity >= fence]
    if not served:
        raise ConfigError(
            f'found no test call of {len(matched)} whose best match reaches the similarity fence '
            f'{fence:g}, expected some: use more --references'
        )
    calls = [call for call, _ in served]
    apart = [index.best_other_phase(call) for call in calls]
    other_index = References(other)
    rng = np.random.default_rng(seed)
    return observations.Data(
        calls=calls,
        matches=[match.call for _, match in served],
        other_phase=[None if match is None else match.call for match in apart],
        other_noise=[
            recorder.replay(
                call.entry.inputs, rng.standard_normal(call.entry.noise.shape, np.float32)
            )
            for call in tqdm(calls, desc='other noise', unit='call')
        ],
        other_match=[other_index.best(call).call for call in calls],
        references=index.calls,
        other_task=_calls(other),
    )


def _drift_limits(references: list[Recording]) -> np.ndarray:
    """The drift fence of these references, float32 [views], with the default settings."""
    rows = {call.entry.id: next(iter(call.activity.x.values())) for call in _calls(references)}

    def compare(entry: Entry, match: Entry, _checkpoint: Callable[[], None]) -> CopyErrors:
        # Nothing is copied: the errors would calibrate the guard, which is not studied here.
        return CopyErrors(token_drift(rows[entry.id], rows[match.id]), {})

    episodes = [recording.episode for recording in references]
    calibrations = list(calibrate(episodes, compare, lambda: None, CALIBRATION_SIMILARITY, {}))
    if not calibrations:
        raise ConfigError(
            'found no two reference episodes that resemble each other above similarity '
            f'{CALIBRATION_SIMILARITY:g}, expected some: use more --references'
        )
    config = CacheConfig()
    return calibrations[-1].limits(config.drift_quantile, config.drift_slack)


def _calls(recordings: list[Recording]) -> list[Call]:
    return [call for recording in recordings for call in recording.calls]


def _summary(recordings: list[Recording]) -> dict[str, Any]:
    successes = sum(recording.episode.success for recording in recordings)
    return {
        'scenes': [recording.scene for recording in recordings],
        'success': [successes, len(recordings)],
        'calls': len(_calls(recordings)),
    }
