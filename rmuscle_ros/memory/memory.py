"""Which reference serves a call, or why none does: library, window, fences and rebuild joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rmuscle_ros.cache.guard import Guard
from rmuscle_ros.cache.states import ExpandedState
from rmuscle_ros.config import CacheConfig
from rmuscle_ros.memory.calibration import Calibration, Compare, calibrate
from rmuscle_ros.memory.entry import Entry, Episode, TaskKey
from rmuscle_ros.memory.gate import Gate
from rmuscle_ros.memory.library import Library
from rmuscle_ros.memory.rebuild import Expand, Rebuilder
from rmuscle_ros.memory.retrieval import KeyIndex
from rmuscle_ros.memory.window import Slot, Window
from rmuscle_ros.types import Reason, WindowStatus

MIB = 2**20
# What the drift fence takes for normal is learned from close pairs only, however low the other
# fence is set: from pairs further apart it learned limits that let covered cameras pass.
CALIBRATION_SIMILARITY = 0.8


@dataclass(frozen=True)
class Match:
    """The outcome of one call's search.

    entry, states: set only for CACHED; the best entry, and the expanded states that serve
        together, the entry's first. drift_limits, guard: None where they are switched off.
    """

    reason: Reason
    detail: str
    similarity: float | None = None
    entry: Entry | None = None
    states: tuple[ExpandedState, ...] = ()
    drift_limits: np.ndarray | None = None
    guard: Guard | None = None


class ReferenceMemory:
    """State of the current episode over a library. Used by one thread at a time.

    The rebuild thread works in the background; ``gate`` keeps it out of calls.
    """

    def __init__(
        self,
        config: CacheConfig,
        library: Library,
        expand: Expand,
        compare: Compare,
    ) -> None:
        self.config = config
        self.library = library
        self.gate = Gate()
        self.rebuilder = Rebuilder(expand, self.gate, config.window_mib * MIB)
        self.latched: Reason | None = None
        self._compare = compare
        self._windows: dict[TaskKey, Window] = {}
        self._task: TaskKey | None = None
        self._episodes: list[Episode] = []
        self._index: KeyIndex | None = None
        self._calibrations: dict[TaskKey, Calibration] = {}
        self._trips = 0
        self._misses = 0

    def begin_episode(self, task: TaskKey | None = None) -> None:
        """Forget the episode; expand the entries the next one will probably start from.

        task: what the next episode is expected to be; None keeps the last one.
        """
        self.latched, self._trips = None, 0
        self._windows.clear()
        task = task or self._task
        if task is not None:
            self._use(task)
        # Any episode may turn out to be the candidate: as many first entries as a window holds.
        window = self.config.candidates * (1 + self.config.lookahead)
        latest = reversed(self._episodes[-window:])
        self.rebuilder.want([episode.entries[0] for episode in latest])

    def match(self, key: np.ndarray, task: TaskKey) -> Match:
        """Find the reference for a call with visual ``key`` [K]."""
        self.rebuilder.check()
        if task != self._task:
            # A camera came or went: other references, with a window of their own. A latched
            # fallback stays latched, and the window is taken up again where the camera returns.
            self._use(task)
        if self.latched is not None:
            return Match(self.latched, 'latched until the episode ends')
        if self._index is None:
            return Match(Reason.NO_REFERENCE, self._why_none(task))
        window = self._windows.setdefault(task, self._new_window())
        slots = window.update(self._episodes, self._index.similarities(key))
        best = slots[0]
        # Not "<": a similarity that is not a number must not pass.
        if not best.similarity >= self.config.similarity_threshold:
            detail = f'{best.similarity:.3f} < {self.config.similarity_threshold:g}'
            return self._latch(Reason.FALLBACK_SIMILARITY, detail, best.similarity)
        match = self._serve(slots)
        self.rebuilder.want(window.wanted(), pinned=match.entry)
        return match

    def _why_none(self, task: TaskKey) -> str:
        """Why no episode of the library may serve ``task``."""
        text = f'no episode of this task ({task.instruction!r})'
        others = [
            f'{sum(getattr(e.task, part) != getattr(task, part) for e in self.library)} of {name}'
            for part, name in (
                ('instruction', 'another instruction'),
                ('fingerprint', 'another model'),
                ('cameras', 'other cameras'),
            )
        ]
        count = len(self.library)
        return f'{text}; the library has {count}: {", ".join(others)}' if count else text

    def _serve(self, slots: list[Slot]) -> Match:
        """The best ready slots above the fence, or why there is none."""
        best, config = slots[0].similarity, self.config
        limits = self.drift_limits() if config.drift_fence else None
        guard = self._guard() if config.guard else None
        missing = (config.drift_fence and limits is None) or (config.guard and guard is None)
        if missing and config.rho_p < 1:
            return Match(Reason.NOT_CALIBRATED, self._why_not_calibrated(), best)
        ready: list[tuple[Slot, ExpandedState]] = []
        for slot in slots:
            state = self.rebuilder.get(slot.entry)
            if slot.similarity < config.similarity_threshold or len(ready) == config.references:
                break
            if state is not None:
                ready.append((slot, state))
        if not ready:
            self._misses += 1
            return Match(Reason.REFERENCE_NOT_READY, self._why_not_ready(), best)
        slot = ready[0][0]
        states = tuple(state for _, state in ready)
        return Match(Reason.CACHED, '', slot.similarity, slot.entry, states, limits, guard)

    def _guard(self) -> Guard | None:
        """The guard; None while not calibrated."""
        slope = self.guard_slope()
        return None if slope is None else Guard(slope, self.config.error_budget)

    def _why_not_ready(self) -> str:
        window = self.status()
        if window.skipped_over_cap and not window.capacity:
            return (
                f'not one expanded entry fits into cache.window_mib ({self.config.window_mib:g}); '
                'raise it'
            )
        return 'no slot above the fence is expanded'

    def _why_not_calibrated(self) -> str:
        if self._calibration is not None and self._calibration.slope is None:
            return (
                'the guard cannot be calibrated: the reference episodes are copies of each other; '
                'record others, or set cache.guard to false'
            )
        if len(self._episodes) < 2:
            return 'the drift fence and the guard need two reference episodes of the task'
        return (
            'the drift fence and the guard are being calibrated, or no two reference episodes '
            f'resemble each other above similarity {self._least_similarity:g}'
        )

    def note_drift(self, tripped: bool) -> None:
        """Tell whether the cached call that just ended exceeded the drift fence."""
        self._trips = self._trips + 1 if tripped else 0
        if tripped and self._task is not None:
            window = self._windows[self._task]
            window.undo()
            self.rebuilder.want(window.wanted())
        if self._trips >= self.config.drift_patience:
            self._latch(Reason.FALLBACK_DRIFT, '', None)

    def _latch(self, reason: Reason, detail: str, similarity: float | None) -> Match:
        self.latched = reason
        self.rebuilder.want([])
        return Match(reason, detail, similarity)

    def add(self, episode: Episode) -> None:
        """Admit an episode; fence and guard of its task are calibrated in the background."""
        self.library.add(episode)
        self._use(episode.task)
        self.calibrate(episode.task)

    def calibrate(self, task: TaskKey) -> None:
        """Calibrate drift fence and guard of ``task`` in the rebuild thread."""

        def job(checkpoint: Callable[[], None]) -> None:
            for calibration in calibrate(
                self.library.of_task(task),
                self._compare,
                checkpoint,
                self._least_similarity,
                self.library.pairs,
            ):
                self._calibrations[task] = calibration

        self.rebuilder.submit(job, 'calibrating the drift fence and the guard')

    @property
    def _least_similarity(self) -> float:
        """Pairs of entries below this are not calibrated on."""
        return max(CALIBRATION_SIMILARITY, self.config.similarity_threshold)

    def drift_limits(self) -> np.ndarray | None:
        """The drift fence, float32 [views]; None while not calibrated."""
        calibration, config = self._calibration, self.config
        if calibration is None:
            return None
        return calibration.limits(config.drift_quantile, config.drift_slack)

    def guard_slope(self) -> float | None:
        """Action error per residual drift of the task in use; None while not calibrated."""
        return None if self._calibration is None else self._calibration.slope

    def status(self) -> WindowStatus:
        return self.rebuilder.status(self._misses)

    def close(self) -> None:
        self.rebuilder.close()

    @property
    def _calibration(self) -> Calibration | None:
        return None if self._task is None else self._calibrations.get(self._task)

    def _new_window(self) -> Window:
        config = self.config
        return Window(config.candidates, config.lookahead, config.advance_margin)

    def _use(self, task: TaskKey) -> None:
        self._task = task
        self._episodes = self.library.of_task(task)
        self._index = KeyIndex(self._episodes) if self._episodes else None
