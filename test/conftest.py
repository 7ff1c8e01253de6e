"""For every test: poisoned fresh memory, one thread, ROS on the loopback interface only."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from importlib.util import find_spec

os.environ.setdefault('MUJOCO_GL', 'egl')
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'

import pytest
import torch

pytest_plugins = ['tiny_fixtures']

# Tests share the cores with the processes they start; spinning OpenMP threads would not.
THREADS = 1
# Domains above 101 collide with the ports of outgoing connections on Linux.
DOMAINS = 101
_counter = itertools.count()


def poisoned(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``make`` with its result filled with NaN: a hole in an output must not pass as zeros."""

    @functools.wraps(make)
    def wrapper(*args: object, **kwargs: object) -> torch.Tensor:
        tensor = make(*args, **kwargs)
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.detach().fill_(float('nan'))
        return tensor

    return wrapper


torch.empty = poisoned(torch.empty)
torch.empty_like = poisoned(torch.empty_like)
torch.Tensor.new_empty = poisoned(torch.Tensor.new_empty)
torch.set_num_threads(THREADS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec('rclpy') is None:
        skip = pytest.mark.skip(reason='rclpy is not importable: run through `make test`')
        for item in items:
            if item.get_closest_marker('ros'):
                item.add_marker(skip)


@pytest.fixture
def ros_domain_id(monkeypatch: pytest.MonkeyPatch) -> int:
    """A ROS domain of the test's own, set in this process' environment."""
    domain = 1 + (os.getpid() * 7 + next(_counter)) % DOMAINS
    monkeypatch.setenv('ROS_DOMAIN_ID', str(domain))
    return domain
