"""The other methods by name. Importing this imports no PyTorch, calling an entry does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmuscle_ros.eval.methods.settings import (
    NirvanaSettings,
    ReplaySettings,
    StepSkipSettings,
    TokenKvSettings,
)

if TYPE_CHECKING:
    from rmuscle_ros.engine.eager import EagerEngine
    from rmuscle_ros.eval.methods.base import Method
    from rmuscle_ros.memory.library import Library
    from rmuscle_ros.types import PolicyInfo

Settings = StepSkipSettings | NirvanaSettings | TokenKvSettings | ReplaySettings


@dataclass(frozen=True)
class MethodEntry:
    """How to make a method: ``METHODS[name](engine, library, info, **settings)``.

    settings: the tuned defaults. load: imports the class. references: it reads the library.
    """

    summary: str
    source: str
    settings: Settings
    load: Callable[[], Callable[..., Method]]
    references: bool = False

    def __call__(
        self, engine: EagerEngine, library: Library, info: PolicyInfo, **settings: Any
    ) -> Method:
        """settings: fields of the method's settings; a bad one is a ConfigError."""
        return self.load()(engine, library, info, **settings)


def _step_skip() -> Callable[..., Method]:
    from rmuscle_ros.eval.methods.step_skip import StepSkip

    return StepSkip


def _nirvana() -> Callable[..., Method]:
    from rmuscle_ros.eval.methods.nirvana import Nirvana

    return Nirvana


def _token_kv() -> Callable[..., Method]:
    from rmuscle_ros.eval.methods.token_kv import TokenKv

    return TokenKv


def _replay() -> Callable[..., Method]:
    from rmuscle_ros.eval.methods.replay import Replay

    return Replay


METHODS: dict[str, MethodEntry] = {
    'step_skip': MethodEntry(
        'denoise outputs reused on skipped steps',
        'DP-Cache, arXiv 2604.24447',
        StepSkipSettings(),
        _step_skip,
    ),
    'nirvana': MethodEntry(
        "starts late, from a similar past call's intermediate state",
        'NIRVANA, arXiv 2312.04429',
        NirvanaSettings(),
        _nirvana,
        references=True,
    ),
    'token_kv': MethodEntry(
        'K/V of static visual tokens from the previous call',
        'VLA-Cache, arXiv 2502.02175',
        TokenKvSettings(),
        _token_kv,
    ),
    'replay': MethodEntry(
        "the most similar past call's own actions",
        'RT-Cache',
        ReplaySettings(),
        _replay,
        references=True,
    ),
}
