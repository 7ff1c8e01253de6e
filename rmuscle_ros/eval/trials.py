"""What paired closed-loop runs leave behind: scenes of trials of calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rmuscle_ros.rollout import Rollout
from rmuscle_ros.types import Provenance


@dataclass(frozen=True)
class Call:
    """One call of a trial.

    error: action error against the dense policy (``oracle.DenseOracle``); None for dense calls.
    rebuild_ms: background work after the call; None in a mode without any.
    missed: that work took longer than an arm would have moved before the next call.
    """

    provenance: Provenance
    error: float | None = None
    rebuild_ms: float | None = None
    missed: bool = False


@dataclass(frozen=True)
class Trial:
    """One mode on one scene."""

    rollout: Rollout
    calls: tuple[Call, ...]


# Mode name -> its trial; every scene of a run has the same modes.
Scene = Mapping[str, Trial]
