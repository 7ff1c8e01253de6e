"""Background work steps aside: something runs ahead of every FFN of another runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from rmuscle_ros.models.base import Ffn
from rmuscle_ros.types import Site


class YieldingFfn:
    """``ffn`` with ``before_site`` called ahead of every FFN of any stack.

    The rebuild thread waits there while a call is in flight.
    """

    def __init__(self, ffn: Ffn, before_site: Callable[[], None]) -> None:
        self._ffn: Any = ffn
        self._before_site = before_site

    def begin_step(self, step: int) -> None:
        self._ffn.begin_step(step)

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        self._before_site()
        return self._ffn(site, x)
