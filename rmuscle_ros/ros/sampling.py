"""Puts one observation together from streams that arrive at different instants. Pure: no ROS.

Every source keeps its recent samples. The anchor is the oldest of the sources' newest stamps: the
latest instant at which all of them have something. Each source gives its sample nearest to the
anchor, chosen anew for every observation. Staleness is judged per source twice: by stamp (the
sender's clock: a frozen or late camera) and by time of arrival (a steady clock: a dead link).
"""

from __future__ import annotations

import statistics
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmuscle_ros.errors import ObservationError

JOINTS = 'joint_states'


@dataclass(frozen=True)
class Limits:
    """See the parameters of the same names. ``by_header``: stamps are those of the senders."""

    max_image_age_s: float
    max_joint_age_s: float
    sync_tolerance_s: float
    by_header: bool = True


@dataclass(frozen=True)
class Now:
    """One instant on both clocks: the one that stamps observations, and a steady one."""

    time_s: float
    steady_s: float


@dataclass(frozen=True)
class Sample:
    """stamp_s on the stamping clock, received_s on the steady one."""

    stamp_s: float
    received_s: float
    value: Any


@dataclass(frozen=True)
class SourceReport:
    """A source for diagnostics. ``age_s`` by arrival; None before the first sample."""

    name: str
    topic: str
    age_s: float | None
    received: int
    refused: int
    lost: int
    last_refusal: str | None
    last_refusal_age_s: float | None


@dataclass(frozen=True)
class Selection:
    """One sample per camera and the joint state, all within the tolerance of ``stamp_s``."""

    images: Mapping[str, Any]
    joints: Any
    stamp_s: float


class Source:
    """The recent samples of one topic and what became of its messages."""

    def __init__(self, name: str, topic: str, max_age_s: float) -> None:
        self.name = name
        self.topic = topic
        self.max_age_s = max_age_s
        self.received = 0
        self.refused = 0
        self.lost = 0
        self.refusal: tuple[str, float] | None = None
        self._samples: deque[Sample] = deque()
        self._gaps_s: deque[float] = deque(maxlen=20)

    @property
    def newest(self) -> Sample | None:
        return self._samples[-1] if self._samples else None

    def add(self, sample: Sample) -> None:
        """Keep ``sample`` unless it is a duplicate or late. A far jump back is a new start."""
        self.received += 1
        newest = self.newest
        if newest is not None:
            ahead_s = sample.stamp_s - newest.stamp_s
            if ahead_s > 0.0:
                self._count_lost(ahead_s)
            elif ahead_s == 0.0:
                text = f'stamp {sample.stamp_s:.3f} again; is the source frozen?'
                self.refuse(text, sample.received_s)
                return
            elif ahead_s >= -self.max_age_s:
                return
            else:
                self.forget()
        self._samples.append(sample)
        while self._samples[0].stamp_s < sample.stamp_s - self.max_age_s:
            self._samples.popleft()

    def refuse(self, reason: str, steady_s: float) -> None:
        self.refused += 1
        self.refusal = (reason, steady_s)

    def forget(self) -> None:
        self._samples.clear()
        self._gaps_s.clear()

    def nearest(self, stamp_s: float) -> Sample:
        return min(self._samples, key=lambda sample: abs(sample.stamp_s - stamp_s))

    def problem(self, now: Now, by_header: bool) -> str | None:
        """Why the newest sample cannot be used; None when it can."""
        newest = self.newest
        if newest is None:
            return self._explain(f'nothing usable received on {self.topic}')
        silent_s = now.steady_s - newest.received_s
        if silent_s > self.max_age_s:
            return self._explain(
                f'last received {silent_s:.2f} s ago on {self.topic}, allowed {self.max_age_s:g} s'
            )
        age_s = now.time_s - newest.stamp_s
        if by_header and abs(age_s) > self.max_age_s:
            side = 'old' if age_s > 0 else 'in the future (do the clocks agree?)'
            return f'{self.name}: stamp is {abs(age_s):.2f} s {side}, allowed {self.max_age_s:g} s'
        return None

    def report(self, steady_s: float) -> SourceReport:
        newest = self.newest
        reason, when_s = self.refusal or (None, None)
        return SourceReport(
            name=self.name,
            topic=self.topic,
            age_s=None if newest is None else steady_s - newest.received_s,
            received=self.received,
            refused=self.refused,
            lost=self.lost,
            last_refusal=reason,
            last_refusal_age_s=None if when_s is None else steady_s - when_s,
        )

    def _explain(self, text: str) -> str:
        newest, cause = self.newest, ''
        # An older refusal is not why there is nothing now.
        if self.refusal and (newest is None or self.refusal[1] > newest.received_s):
            cause = f'; last message refused: {self.refusal[0]}'
        return f'{self.name}: {text}{cause}'

    def _count_lost(self, gap_s: float) -> None:
        """A gap of n usual periods means that n - 1 messages never arrived."""
        if len(self._gaps_s) >= 5:
            periods = round(gap_s / statistics.median(self._gaps_s))
            self.lost += max(0, periods - 1)
        self._gaps_s.append(gap_s)


class Sampler:
    """All sources of a policy. Thread-safe: filled by callbacks, read by the inference thread."""

    def __init__(self, camera_topics: Mapping[str, str], joint_topic: str, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._not_before_s: float | None = None
        self._measured: Sample | None = None
        self._all = {
            name: Source(name, topic, limits.max_image_age_s)
            for name, topic in camera_topics.items()
        }
        self._all[JOINTS] = Source(JOINTS, joint_topic, limits.max_joint_age_s)

    def add(self, name: str, header_s: float, now: Now, value: Any) -> None:
        """Take a message that arrived ``now``. ``header_s`` is 0 when its sender left it unset."""
        stamp_s = header_s if self._limits.by_header else now.time_s
        if stamp_s == 0.0:
            text = 'header stamp is zero; fix the driver or set stamp_source to receive'
            self.refuse(name, text, now)
            return
        sample = Sample(stamp_s, now.steady_s, value)
        with self._lock:
            if name == JOINTS:
                self._measured = sample
            # What was on its way when the episode ended belongs to the last one.
            if self._not_before_s is None or stamp_s >= self._not_before_s:
                self._all[name].add(sample)

    def refuse(self, name: str, reason: str, now: Now) -> None:
        """Note a message that cannot be used."""
        with self._lock:
            self._all[name].refuse(reason, now.steady_s)

    def restart(self, now: Now) -> None:
        """Forget everything taken before ``now``, and what of it is still to arrive."""
        with self._lock:
            self._not_before_s = now.time_s
            for source in self._all.values():
                source.forget()

    def problem(self, now: Now) -> str | None:
        """Why there is no observation to be had; None when there is one."""
        try:
            self.select(now)
        except ObservationError as error:
            return str(error)
        return None

    def select(self, now: Now) -> Selection:
        """The newest observation that can be put together; ObservationError names the obstacle."""
        if now.time_s <= 0.0:
            raise ObservationError(
                'the clock stands at 0: use_sim_time is true and nothing arrives on /clock; start '
                'the simulation, or set use_sim_time to false'
            )
        with self._lock:
            problems = [s.problem(now, self._limits.by_header) for s in self._all.values()]
            found = '; '.join(problem for problem in problems if problem)
            if found:
                raise ObservationError(found)
            newest = {name: s.newest for name, s in self._all.items() if s.newest is not None}
            anchor = min(newest, key=lambda name: newest[name].stamp_s)
            stamp_s = newest[anchor].stamp_s
            chosen = {name: source.nearest(stamp_s) for name, source in self._all.items()}
        for name, sample in chosen.items():
            apart_s = abs(sample.stamp_s - stamp_s)
            if apart_s > self._limits.sync_tolerance_s:
                raise ObservationError(
                    f'{name}: nearest sample is {apart_s:.3f} s from {anchor}, allowed '
                    f'{self._limits.sync_tolerance_s:g} s (sync_tolerance_s)'
                )
        joints = chosen.pop(JOINTS).value
        return Selection({name: s.value for name, s in chosen.items()}, joints, stamp_s)

    def joints(self, now: Now) -> Any | None:
        """The newest joint state, restart or not; None when too old to be called measured."""
        with self._lock:
            measured = self._measured
        if measured is None:
            return None
        ages_s = [now.steady_s - measured.received_s]
        if self._limits.by_header:
            ages_s.append(abs(now.time_s - measured.stamp_s))
        return measured.value if max(ages_s) <= self._limits.max_joint_age_s else None

    def reports(self, now: Now) -> list[SourceReport]:
        with self._lock:
            return [source.report(now.steady_s) for source in self._all.values()]
