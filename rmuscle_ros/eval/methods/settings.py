"""Settings of the other methods; the defaults are what tuning chose. Imports no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from rmuscle_ros.config import option


@dataclass(frozen=True)
class StepSkipSettings:
    computed: tuple[int, ...] = option(
        (0, 3, 8), 'Denoise steps at which the network runs; the others reuse its outputs.'
    )
    between: str = option(
        'extrapolate',
        'What skipped steps take: the last output (hold), or the line through the last two '
        '(extrapolate).',
        choices=('hold', 'extrapolate'),
    )


@dataclass(frozen=True)
class NirvanaSettings:
    start_step: int = option(
        5, 'Denoise steps that are skipped: the call starts at this one.', minimum=0, maximum=99
    )
    noise: str = option(
        'reference',
        "What the reference's actions are mixed with to give its intermediate state: its own "
        "noise (reference), or this call's (call).",
        choices=('reference', 'call'),
    )
    least_similarity: float = option(
        0.8,
        'Cosine of visual keys below which a call is dense.',
        minimum=-1.0,
        maximum=1.0,
    )


@dataclass(frozen=True)
class TokenKvSettings:
    recompute: float = option(
        0.6,
        'Least share of visual tokens computed: those that changed most since their K/V were.',
        minimum=0.0,
        maximum=1.0,
    )
    most_drift: float = option(
        1.0,
        'Tokens that changed more than this are always computed: rms of the change over rms of '
        'the token.',
        minimum=0.0,
    )


@dataclass(frozen=True)
class ReplaySettings:
    relative: bool = option(
        False,
        "Apply the reference's actions to the robot's present position where the policy's are "
        'relative; false: the joint targets of the reference.',
    )
    least_similarity: float = option(
        0.95,
        'Cosine of visual keys below which a call is dense.',
        minimum=-1.0,
        maximum=1.0,
    )
