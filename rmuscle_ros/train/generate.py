"""Fills a dataset with demonstrations on all processors; goes on where it was interrupted."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from rmuscle_ros.errors import DatasetError
from rmuscle_ros.sim.expert import Expert
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.train.dataset import (
    DatasetSettings,
    episode_path,
    open_dataset,
    write_demonstration,
)
from rmuscle_ros.train.demonstrations import demonstrate

# Scenes of demonstrations; evaluations use seeds below this.
FIRST_SEED = 1_000_000
CHUNK = 8


@dataclass(frozen=True)
class Job:
    """One episode to make."""

    task: str
    seed: int


def plan_jobs(counts: dict[str, int], first_seed: int = FIRST_SEED) -> list[Job]:
    """``counts`` episodes per task. Tasks have scenes of their own."""
    jobs, seed = [], first_seed
    for task, count in counts.items():
        jobs += [Job(task, seed + index) for index in range(count)]
        seed += 100_000
    return jobs


def generate(
    directory: Path, jobs: Sequence[Job], settings: DatasetSettings, processes: int
) -> int:
    """Make the episodes that are not there yet; how many were made.

    The files do not depend on ``processes`` or on interruptions. Raises DatasetError for a
    directory of other settings, a full disk or a process that was killed.
    """
    open_dataset(directory, settings)
    for leftover in directory.glob('*/*.partial'):
        leftover.unlink()
    missing = [job for job in jobs if not episode_path(directory, job.task, job.seed).exists()]
    parts = [missing[begin : begin + CHUNK] for begin in range(0, len(missing), CHUNK)]
    bar = tqdm(total=len(jobs), initial=len(jobs) - len(missing), unit='episode', smoothing=0.05)
    context = multiprocessing.get_context('spawn')
    with bar, ProcessPoolExecutor(processes, context) as pool:
        futures = [pool.submit(_make, directory, part, settings.image_size) for part in parts]
        for future in futures:
            future.add_done_callback(lambda done: bar.update(_made(done)))
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BrokenProcessPool as error:
            raise DatasetError(
                f'{directory}: a worker process was killed (out of memory?); run the same command '
                'again, it goes on where it stopped'
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)
    return len(missing)


def _made(future: Future[int]) -> int:
    return 0 if future.cancelled() or future.exception() else future.result()


_workers: dict[str, AlohaStation] = {}
_experts: list[Expert] = []


def _make(directory: Path, jobs: Sequence[Job], image_size: int) -> int:
    """Runs in a worker process, which keeps its stations and expert."""
    if not _experts:
        _experts.append(Expert())
    for job in jobs:
        if job.task not in _workers:
            _workers[job.task] = AlohaStation(image_size, job.task)
        demonstration = demonstrate(_workers[job.task], _experts[0], job.seed)
        write_demonstration(directory, demonstration)
    return len(jobs)
