"""Shadow mode: now and then a cached call is rerun densely, in idle time, and the two compared.

The fences of a call test its pictures; only this tests its actions. When the error rises while
calls still pass the fences, the reference library no longer fits: it has gone stale.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from rmuscle_ros.config import ShadowConfig
from rmuscle_ros.errors import PolicyError
from rmuscle_ros.memory.rebuild import Checkpoint, Job
from rmuscle_ros.statistics import largest, median, quantile
from rmuscle_ros.types import (
    ModelInputs,
    Provenance,
    Reason,
    ShadowedReference,
    ShadowRecord,
    ShadowStatus,
)

HISTORY = 256
# Every how many shadows the policy's own spread is measured again, by one more dense run.
SPREAD_EVERY = 8
# A median of fewer shadows never warns.
FEWEST = 5

DenseActions = Callable[[ModelInputs, np.ndarray, Checkpoint], np.ndarray]
Submit = Callable[[Job, str], None]


@dataclass(frozen=True)
class _Sample:
    """A cached call to rerun. noise, actions: float32 [H, A], normalised units."""

    provenance: Provenance
    inputs: ModelInputs
    noise: np.ndarray
    actions: np.ndarray


class Shadow:
    """Chooses the calls, reruns them in the rebuild thread and keeps the last errors."""

    def __init__(self, dense_actions: DenseActions, submit: Submit) -> None:
        """dense_actions(inputs, noise, checkpoint) -> normalised actions, float32 [H, A].

        submit(job, what it does): runs a job in the rebuild thread.
        """
        self._dense_actions, self._submit = dense_actions, submit
        self._lock = threading.Lock()
        self._records: deque[ShadowRecord] = deque(maxlen=HISTORY)
        self._spreads: deque[float] = deque(maxlen=HISTORY)
        # A generator of its own: the calls' noise must not depend on idle time.
        self._random = np.random.default_rng()
        self._pending: deque[_Sample] = deque(maxlen=1)
        self._cached_calls = self._runs = self._skipped = 0

    def note(
        self,
        provenance: Provenance,
        inputs: ModelInputs,
        noise: np.ndarray,
        actions: np.ndarray,
        every: int,
    ) -> None:
        """Tell of a call that ended; each ``every``-th cached one is rerun (0: none).

        noise, actions: float32 [H, A], normalised units. One call waits at most: a newer one takes
        its place, for it tells more about the present.
        """
        if every == 0 or provenance.reason is not Reason.CACHED:
            return
        self._cached_calls += 1
        if self._cached_calls % every:
            return
        # Copies: the caller's own noise array may be drawn into again.
        sample = _Sample(provenance, inputs, noise.copy(), actions.copy())
        with self._lock:
            waiting = bool(self._pending)
            self._skipped += waiting
            self._pending.append(sample)
        if not waiting:
            self._submit(self._job, 'rerunning a cached call densely (shadow mode)')

    def _job(self, checkpoint: Checkpoint) -> None:
        checkpoint()
        with self._lock:
            sample = self._pending.pop()
            spread_due = len(self._spreads) < 2 or self._runs % SPREAD_EVERY == 0
        dense = self._rerun(sample, sample.noise, checkpoint)
        spread = None
        if spread_due:
            noise = self._random.standard_normal(sample.noise.shape, np.float32)
            spread = float(np.abs(self._rerun(sample, noise, checkpoint) - dense).mean())
        difference = np.abs(sample.actions - dense)
        call = sample.provenance
        record = ShadowRecord(
            call=call.call,
            reference_id=call.reference_id,
            similarity=call.similarity,
            drift=call.drift,
            error=float(difference.mean()),
            largest=float(difference.max()),
        )
        with self._lock:
            self._runs += 1
            self._records.append(record)
            if spread is not None:
                self._spreads.append(spread)

    def _rerun(self, sample: _Sample, noise: np.ndarray, checkpoint: Checkpoint) -> np.ndarray:
        actions = self._dense_actions(sample.inputs, noise, checkpoint)
        if not np.isfinite(actions).all():
            raise PolicyError(
                f'the dense rerun of call {sample.provenance.call} gave actions that are not '
                'finite, although the cached call did not; the weights are damaged: copy the '
                'checkpoint again'
            )
        return actions

    def status(self, config: ShadowConfig) -> ShadowStatus:
        """The figures so far; from any thread."""
        with self._lock:
            records, spreads = list(self._records), list(self._spreads)
            runs, skipped = self._runs, self._skipped
        errors = [record.error for record in records]
        references = _by_reference(records, config.window)
        recent = median(errors[-config.window :])
        spread = median(spreads)
        return ShadowStatus(
            runs=runs,
            skipped=skipped,
            p50=median(errors),
            p99=quantile(errors, 0.99),
            max=largest(errors),
            recent_p50=recent,
            spread_p50=spread,
            last=records[-1] if records else None,
            references=references,
            warning=_warning(len(errors), recent, references, spread, config),
        )


def _by_reference(records: Iterable[ShadowRecord], window: int) -> tuple[ShadowedReference, ...]:
    """The last ``window`` errors of each reference episode, largest median first."""
    errors: dict[str, deque[float]] = {}
    for record in records:
        if record.reference_id is None:
            continue
        episode = record.reference_id.rpartition('/')[0]
        errors.setdefault(episode, deque(maxlen=window)).append(record.error)
    found = [
        ShadowedReference(episode, len(values), median(values), max(values))
        for episode, values in errors.items()
    ]
    return tuple(sorted(found, key=lambda reference: -(reference.p50 or 0.0)))


def _warning(
    count: int,
    recent: float | None,
    references: Iterable[ShadowedReference],
    spread: float | None,
    config: ShadowConfig,
) -> str | None:
    """What has gone stale and what to do about it; None while nothing has."""
    limit = config.warn_error
    stale = [
        f'{reference.episode_id} ({reference.p50:.3f} over {reference.count})'
        for reference in references
        if reference.count >= FEWEST and (reference.p50 or 0.0) > limit
    ]
    found = []
    if count >= FEWEST and recent is not None and recent > limit:
        found.append(f'the last {min(count, config.window)} shadowed calls by {recent:.3f}')
    if stale:
        found.append(f'calls served by {", ".join(stale)}')
    if not found:
        return None
    own = '' if spread is None else f'; two noise draws of the policy differ by {spread:.3f}'
    return (
        f'cached actions differ from dense ones: {"; ".join(found)} (medians, normalised units; '
        f'shadow.warn_error is {limit:g}{own}). The references no longer fit what the robot sees: '
        'record new ones, or recompute more (a smaller cache.error_budget, more cache.anchors)'
    )
