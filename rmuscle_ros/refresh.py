"""Recorded calls replayed densely: masks for other anchors, steps or another score."""

from __future__ import annotations

import dataclasses

from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.engine.plans import RecordPlan
from rmuscle_ros.memory.entry import Entry, Episode


def record_again(engine: EagerEngine, entry: Entry, anchors: tuple[int, ...], score: str) -> Entry:
    """The entry's inputs and noise run again under a RecordPlan; one whole dense call."""
    result = engine.run(engine.observe(entry.inputs), RecordPlan(anchors, score), entry.noise)
    if result.recorded is None:
        raise RuntimeError('a call under a RecordPlan recorded nothing')
    return dataclasses.replace(
        entry,
        masks=result.recorded.masks,
        actions=result.normalised,
        velocity=result.recorded.velocity,
    )


def record_episode_again(
    engine: EagerEngine, episode: Episode, anchors: tuple[int, ...], score: str
) -> Episode:
    """Every entry of an episode as ``record_again``."""
    entries = tuple(record_again(engine, entry, anchors, score) for entry in episode.entries)
    return dataclasses.replace(episode, entries=entries)
