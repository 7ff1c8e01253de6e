"""``infer(obs) -> ActionChunk``: joins engine and memory.

One call: prepare the observation, run the vision tower, match its key in memory, prefill and
denoise (dense or cached), wrap the actions with their provenance. The rebuild thread is held off
from start to end.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rmuscle_ros.cache.guard import SHARES, CopyErrors
from rmuscle_ros.cache.scores import effective_rho
from rmuscle_ros.cache.states import ExpandedState
from rmuscle_ros.config import LIVE_OPTIONS, PolicyConfig, with_values
from rmuscle_ros.engine.device import resolve_device, resolve_dtype, resolve_threads
from rmuscle_ros.engine.eager import EagerEngine, check_finite
from rmuscle_ros.engine.plans import CallResult, Observed, Plan, RecordPlan
from rmuscle_ros.errors import ConfigError, LibraryError
from rmuscle_ros.memory.calibration import Checkpoint
from rmuscle_ros.memory.entry import Entry, TaskKey
from rmuscle_ros.memory.library import Library
from rmuscle_ros.memory.memory import Match, ReferenceMemory
from rmuscle_ros.memory.recorder import EpisodeRecorder
from rmuscle_ros.memory.shadow import Shadow
from rmuscle_ros.models.processing import prepare
from rmuscle_ros.models.registry import LoadedModel, load_model
from rmuscle_ros.planning import (
    Planned,
    check_settings,
    needs_step_states,
    outcome,
    plan_call,
    why_action_off,
)
from rmuscle_ros.refresh import record_episode_again
from rmuscle_ros.types import (
    CALL_CATEGORIES,
    ActionChunk,
    EpisodeEnd,
    Mode,
    Observation,
    PolicyInfo,
    PolicyStatus,
    Provenance,
    Reason,
    StageTimes,
)


class Policy:
    """A cached VLA policy. ``infer``, ``reset`` and ``end_episode``: one thread at a time."""

    def __init__(self, config: PolicyConfig, loaded: LoadedModel, library: Library) -> None:
        """Prefer ``from_config``. Starts the rebuild thread; ``close`` ends it."""
        device = resolve_device(config.engine.device)
        dtype = resolve_dtype(config.engine.dtype, device)
        self._config = config
        self._tuning = threading.Lock()
        self._engine = EagerEngine(loaded.model, device, dtype, config.engine.denoise_steps)
        self._fingerprint = f'{loaded.fingerprint}-{str(dtype).removeprefix("torch.")}'
        check_settings(config.cache, config.engine.denoise_steps)
        self._memory = ReferenceMemory(config.cache, library, self._expand, self._compare)
        self._shadow = Shadow(self._engine.dense_actions, self._memory.rebuilder.submit)
        self.info = self._describe(loaded)
        self.trained = loaded.trained
        self._calls: Counter[str] = Counter(dict.fromkeys(CALL_CATEGORIES, 0))
        self._call = 0
        self._episode = 0
        self._instruction: str | None = None
        self._recorder = EpisodeRecorder(config.library.record)
        self._last: Provenance | None = None
        self._adopt_library()

    @classmethod
    def from_config(cls, config: PolicyConfig) -> Policy:
        """Load model and library. Raises RmuscleError with what to do."""
        torch.set_num_threads(resolve_threads(config.engine.threads))
        loaded = load_model(config.model.checkpoint, config.model.seed)
        directory = _directory(config)
        library = Library() if directory is None else Library.load(directory)
        if config.library.record and directory is not None:
            library.check_writable(directory)
        return cls(config, loaded, library)

    def infer(self, observation: Observation, *, noise: np.ndarray | None = None) -> ActionChunk:
        """One call. noise: float32 [H, A] for tests and paired comparisons, else fresh; with
        ``cache.noise`` shared a cached call takes its reference's instead.

        Raises ObservationError (nothing was computed; the episode goes on), PolicyError for
        actions that are not finite or, while the caches are enabled, RebuildError: go on densely
        with ``tune(enabled=False)``, or stop.
        """
        start = time.perf_counter()
        # tune() may run in another thread: what holds now holds for the whole call.
        self._memory.config = self._config.cache
        with self._memory.gate.call() as gate_wait_ms:
            inputs = prepare(observation, self._engine.model)
            if self._instruction not in (None, inputs.instruction):
                self.reset()
            self._instruction = inputs.instruction
            observed = self._engine.observe(inputs)
            task = TaskKey(inputs.instruction, self._fingerprint, inputs.cameras)
            match = self._match(observed, task)
            planned = plan_call(match, self._memory.config, self._engine.sampler.steps)
            result = self._engine.run(observed, self._plan(match, planned), noise)
            check_finite(result.actions, self.info.model)
            reason, detail = match.reason, match.detail
            if match.entry is not None and planned is not None:
                reason, detail = outcome(match, planned, result)
                self._memory.note_drift(reason is Reason.FALLBACK_DRIFT)
            total_ms = (time.perf_counter() - start) * 1e3
        times = StageTimes(
            observed.vision_ms, result.prefill_ms, result.denoise_ms, total_ms, gate_wait_ms
        )
        provenance = self._provenance(observation, match, result, reason, detail, times)
        self._record(observed, task, result, reason)
        self._shadow.note(
            provenance, inputs, result.noise, result.normalised, self._config.shadow.every
        )
        self._calls[reason.category] += 1
        self._call += 1
        self._last = provenance
        return ActionChunk(
            result.actions,
            self.info.joint_names,
            self.info.period_s,
            observation.stamp_s,
            provenance,
        )

    def warm_up(self) -> None:
        """A dense call on zeros, so that the first real one finds everything allocated."""
        info = self.info
        size = (*info.image_size, 3)
        observation = Observation(
            images={camera: np.zeros(size, np.uint8) for camera in info.cameras},
            joints=dict.fromkeys(info.joint_names, 0.0),
            instruction='warm up',
            stamp_s=0.0,
        )
        with self._memory.gate.call():
            observed = self._engine.observe(prepare(observation, self._engine.model))
            check_finite(self._engine.run(observed).actions, self.info.model)

    def reset(self) -> None:
        """Begin a new episode; what was recorded of the old one is discarded."""
        self._recorder = EpisodeRecorder(self._config.library.record)
        self._instruction = None
        self._episode += 1
        self._memory.begin_episode()

    def end_episode(self, success: bool) -> EpisodeEnd:
        """End the episode and begin the next one; admit the recorded one by the library's rule."""
        library = self._config.library
        episode, end = self._recorder.finish(success, library.admit)
        if episode is not None:
            self._memory.add(episode)
        self.reset()
        directory = _directory(self._config)
        if episode is not None and directory is not None:
            self._memory.library.save(directory)
        return end

    def refresh_library(self) -> int:
        """Record episodes again that the Action Cache cannot use (other anchors or denoise steps);
        returns how many. If there are any a new episode begins: the running one follows the old.

        Their stored inputs and noise are replayed densely, one whole call per entry: not while
        the robot waits. Files of ``library.directory`` are not touched. LibraryError while an
        episode is being recorded, which would be lost.
        """
        if len(self._recorder):
            raise LibraryError(
                f'found {len(self._recorder)} recorded calls of the running episode, expected '
                'none: refreshing begins a new one; end it with end_episode or reset first'
            )
        library, cache, steps = (
            self._memory.library,
            self._config.cache,
            self._engine.sampler.steps,
        )
        old = [
            episode
            for episode in library
            if episode.task.fingerprint == self._fingerprint
            and why_action_off(episode.entries[0], cache, steps)
        ]
        with self._memory.gate.call():
            for episode in old:
                library.replace(
                    record_episode_again(self._engine, episode, cache.anchors, cache.score)
                )
        if old:
            self.reset()
        return len(old)

    def tune(self, **changes: Any) -> None:
        """Change live options (keys of ``config.LIVE_OPTIONS``), from any thread.

        Raises ConfigError, or LibraryError for ``record`` with a directory that cannot be written;
        then nothing changed. ``record`` takes effect when the next episode begins, the others with
        the next call.
        """
        unknown = [name for name in changes if name not in LIVE_OPTIONS]
        if unknown:
            raise ConfigError(
                f'{", ".join(unknown)}: cannot be tuned while running; live options are '
                f'{", ".join(LIVE_OPTIONS)}'
            )
        values = {LIVE_OPTIONS[name]: value for name, value in changes.items()}
        with self._tuning:
            config = with_values(self._config, values)
            directory = _directory(config)
            if changes.get('record') and directory is not None:
                self._memory.library.check_writable(directory)
            self._config = config

    def status(self) -> PolicyStatus:
        """A snapshot; may be called from another thread while a call runs."""
        memory = self._memory
        limits = memory.drift_limits()
        return PolicyStatus(
            calls=dict(self._calls),
            episode=self._episode,
            library_episodes=len(memory.library),
            library_entries=memory.library.entries,
            window=memory.status(),
            latched=memory.latched,
            drift_limits=None if limits is None else tuple(map(float, limits)),
            guard_slope=memory.guard_slope(),
            rebuild_error=memory.rebuilder.error,
            last=self._last,
            recording=self._recorder.active,
            shadow=self._shadow.status(self._config.shadow),
        )

    def drain(self, timeout_s: float) -> bool:
        """Wait until the rebuild thread has nothing to do (for tests and offline evaluation)."""
        return self._memory.rebuilder.drain(timeout_s)

    def close(self) -> None:
        """Stop the rebuild thread. The policy cannot be used afterwards."""
        self._memory.close()

    def _match(self, observed: Observed, task: TaskKey) -> Match:
        if not self._memory.config.enabled:
            return Match(Reason.CACHE_DISABLED, 'cache.enabled is false')
        return self._memory.match(observed.key, task)

    def _plan(self, match: Match, planned: Planned | None) -> Plan:
        if match.entry is None and self._recorder.active:
            return RecordPlan(self._memory.config.anchors, self._memory.config.score)
        return planned.plan if planned else None

    def _expand(self, entry: Entry, checkpoint: Checkpoint) -> ExpandedState:
        noise = entry.noise if needs_step_states(self._config.cache) else None
        return self._engine.expand(entry.inputs, checkpoint, noise)

    def _compare(self, entry: Entry, match: Entry, checkpoint: Checkpoint) -> CopyErrors:
        """For calibration: what copying the match's rows does to the entry's call."""
        state = self._engine.expand(match.inputs, checkpoint)
        # Two shares say as much as all: the error per drift hardly depends on the share.
        shares = SHARES[1::2]
        return self._engine.copy_errors(entry.inputs, entry.noise, state, shares, checkpoint)

    def _provenance(
        self,
        observation: Observation,
        match: Match,
        result: CallResult,
        reason: Reason,
        detail: str,
        times: StageTimes,
    ) -> Provenance:
        cached = reason is Reason.CACHED
        context = result.context
        return Provenance(
            call=self._call,
            episode=self._episode,
            mode=Mode.CACHED if cached else Mode.DENSE,
            reason=reason,
            detail=detail,
            times=times,
            observation_stamp_s=observation.stamp_s,
            similarity=match.similarity,
            drift=context.drift if context else None,
            reference_id=match.entry.id if cached and match.entry else None,
            rho_p=context.rho_p if context else None,
            rho_n=effective_rho(result.action.rho_n) if result.action else None,
            error_estimate=context.estimate if context else None,
        )

    def _record(
        self, observed: Observed, task: TaskKey, result: CallResult, reason: Reason
    ) -> None:
        if not self._recorder.active:
            return
        if result.recorded is None:
            self._recorder.spoil(
                f'call {self._call} ran without recording ({reason.value}); set cache.enabled to '
                'false while recording'
            )
            return
        self._recorder.add(
            task,
            observed.inputs,
            observed.key,
            result.recorded.masks,
            result.noise,
            result.normalised,
            result.recorded.velocity,
        )

    def _adopt_library(self) -> None:
        """Expand the likely first entries of a loaded library, then calibrate its tasks."""
        tasks = {
            episode.task: None
            for episode in self._memory.library
            if episode.task.fingerprint == self._fingerprint
        }
        latest_first = list(reversed(tasks))
        if latest_first:
            self._memory.begin_episode(latest_first[0])
        for task in latest_first:
            self._memory.calibrate(task)

    def _describe(self, loaded: LoadedModel) -> PolicyInfo:
        model, engine = loaded.model, self._engine
        return PolicyInfo(
            model=loaded.name,
            parameters=sum(p.numel() for p in model.parameters()),
            fingerprint=self._fingerprint,
            cameras=model.cameras,
            image_size=(model.image_size, model.image_size),
            joint_names=model.joint_names,
            horizon=model.horizon,
            period_s=model.period_s,
            device=str(engine.device),
            dtype=str(engine.dtype).removeprefix('torch.'),
            engine=engine.name,
        )


def _directory(config: PolicyConfig) -> Path | None:
    directory = config.library.directory
    return Path(directory).expanduser() if directory else None
