"""Fixtures of the training tests."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from training_fixtures import MINI, SETTINGS, write_dataset

from rmuscle_ros.train.run import Run


@pytest.fixture(scope='session')
def dataset(tmp_path_factory: pytest.TempPathFactory):
    return write_dataset(tmp_path_factory.mktemp('data'))


@pytest.fixture
def make_run(dataset, tmp_path) -> Callable[..., Run]:
    """make_run('name', **settings) -> a miniature run in a directory of that name."""

    def make(name: str = 'run', workers: int = 1, **settings) -> Run:
        from dataclasses import replace

        return Run(dataset, tmp_path / name, replace(SETTINGS, **settings), MINI, 'cpu', workers)

    return make


@pytest.fixture
def full_disk():
    """``with full_disk(): ...``: files cannot grow beyond 1000 bytes, as on a full disk."""

    @contextmanager
    def limited() -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited
