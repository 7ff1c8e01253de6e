"""Trials as plain values that JSON keeps exactly, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rmuscle_ros.eval.trials import Call, Trial
from rmuscle_ros.rollout import Rollout
from rmuscle_ros.types import Mode, Provenance, Reason, StageTimes


def encode(trial: Trial) -> dict[str, Any]:
    return dataclasses.asdict(trial)


def decode(values: Mapping[str, Any]) -> Trial:
    """The inverse of ``encode``."""
    return Trial(Rollout(**values['rollout']), tuple(map(_call, values['calls'])))


def _call(values: Mapping[str, Any]) -> Call:
    provenance = dict(values['provenance'])
    provenance['mode'] = Mode(provenance['mode'])
    provenance['reason'] = Reason(provenance['reason'])
    provenance['times'] = StageTimes(**provenance['times'])
    return Call(**{**values, 'provenance': Provenance(**provenance)})
