"""Gradients of one optimiser step, by one process per processor core.

Two processes with one thread each take a third of the time of one process with two threads: at
these matrix sizes threads wait for each other after every product, processes once per step.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType

import torch
import torch.multiprocessing
from torch import Tensor, nn

from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.engine.device import cpu_has_bfloat16
from rmuscle_ros.errors import ProcessError
from rmuscle_ros.models.tiny import TinyVla
from rmuscle_ros.train.objective import CubeHead, Objective, draw_flow
from rmuscle_ros.train.samples import Batch, Samples
from rmuscle_ros.train.settings import TrainSettings

Losses = dict[str, float]


@dataclass(frozen=True)
class Share:
    """One process' part of the work. ``buffer`` [P] takes the gradients of all
    parameters back to the first process, which needs none itself."""

    model: TinyVla
    head: CubeHead
    samples: Samples
    settings: TrainSettings
    worker: int
    workers: int
    buffer: Tensor

    def parameters(self) -> list[nn.Parameter]:
        return [*self.model.parameters(), *self.head.parameters()]


class ShareGradients:
    """Computes the gradients of one share in this process."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._device = share.model.action_std.device
        self._objective = Objective(share.model, share.head, DenseFfn(share.model.ffn_modules()))
        self._bfloat16 = self._device.type == 'cuda' or cpu_has_bfloat16()

    def backward(self, step: int) -> Losses:
        """Add the gradients of this share of ``step``; its share of the losses."""
        share = self._share
        sums = {'flow': 0.0, 'cube': 0.0}
        for part, batch in enumerate(share.samples.batches(step, share.worker, share.workers)):
            seed = (share.settings.seed, step, part, share.worker)
            for name, value in self._part(on_device(batch, self._device), step, seed).items():
                sums[name] += value
        return sums

    def _part(self, batch: Batch, step: int, seed: tuple[int, ...]) -> Losses:
        settings, model = self._share.settings, self._share.model
        share = len(batch.states) / settings.batch
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bfloat16):
            flow: Tensor | None = None
            if step < settings.look_steps:
                loss = cube = self._objective.look(batch).mean() * share
            elif step < settings.look_steps + settings.blind_steps:
                loss = cube = self._objective.blind(batch).mean() * share
            else:
                shape = (model.horizon, model.action_width)
                draw = draw_flow(len(batch.states), settings.draws, shape, seed)
                losses = self._objective.flow(batch, draw.to(self._device))
                flow, cube = (value.mean() * share for value in losses)
                loss = flow + settings.cube_weight * cube
        loss.backward()
        return {'flow': math.nan if flow is None else flow.item(), 'cube': cube.item()}


class Gradients:
    """All shares: the first one here, the others in processes of their own until ``close``.

    With several processes each of them, this one included, has one thread until then.
    """

    def __init__(
        self,
        model: TinyVla,
        head: CubeHead,
        samples: Samples,
        settings: TrainSettings,
        workers: int,
    ) -> None:
        share = Share(model, head, samples, settings, 0, workers, torch.zeros(0))
        self._parameters = share.parameters()
        self._own = ShareGradients(share)
        self._others: list[_Worker] = []
        self._threads = torch.get_num_threads()
        if workers > 1:
            torch.set_num_threads(1)
            model.share_memory()
            head.share_memory()
        size = sum(parameter.numel() for parameter in self._parameters)
        for worker in range(1, workers):
            buffer = torch.zeros(size).share_memory_()
            other = dataclasses.replace(share, worker=worker, buffer=buffer)
            self._others.append(_Worker(other))

    def backward(self, step: int) -> Losses:
        """Add the gradients of ``step`` to the parameters; its losses."""
        for other in self._others:
            other.begin(step)
        sums = self._own.backward(step)
        for other in self._others:
            for name, value in other.finish(self._parameters).items():
                sums[name] += value
        return sums

    def close(self) -> None:
        """End the processes."""
        for other in self._others:
            other.close()
        torch.set_num_threads(self._threads)

    def __enter__(self) -> Gradients:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Worker:
    """A process that computes one share on demand."""

    def __init__(self, share: Share) -> None:
        context = torch.multiprocessing.get_context('spawn')
        self._pipe, other = context.Pipe()
        self._share = share
        self._process = context.Process(target=_serve, args=(share, other), daemon=True)
        self._process.start()
        other.close()

    def begin(self, step: int) -> None:
        try:
            self._pipe.send(step)
        except OSError as error:
            raise self._died() from error

    def finish(self, parameters: list[nn.Parameter]) -> Losses:
        """Wait for the share and add its gradients."""
        try:
            losses: Losses | Exception = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if isinstance(losses, Exception):
            raise losses
        buffer = self._share.buffer
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, part in zip(parameters, buffer.split(sizes), strict=True):
            if parameter.grad is not None:
                parameter.grad += part.view_as(parameter)
        return losses

    def close(self) -> None:
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.terminate()

    def _died(self) -> ProcessError:
        self._process.join(5)
        return ProcessError(
            f'training process {self._share.worker} ended with code {self._process.exitcode} '
            '(out of memory?); run the same command again, it goes on from its last checkpoint'
        )


def _serve(share: Share, pipe: Connection) -> None:
    """Runs in a worker process until the other end of ``pipe`` is closed."""
    torch.set_num_threads(1)
    gradients, parameters = ShareGradients(share), share.parameters()
    sizes = [parameter.numel() for parameter in parameters]
    while True:
        try:
            step = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            losses = gradients.backward(step)
            for parameter, part in zip(parameters, share.buffer.split(sizes), strict=True):
                if parameter.grad is not None:
                    part.copy_(parameter.grad.flatten())
                    parameter.grad = None
            pipe.send(losses)
        except KeyboardInterrupt:
            return
        except Exception as error:  # noqa: BLE001  raised again by the process that asked
            pipe.send(error)


def on_device(batch: Batch, device: torch.device) -> Batch:
    """The same batch with its tensors on ``device``."""
    return Batch(
        batch.instruction,
        batch.images.to(device),
        batch.states.to(device),
        batch.targets.to(device),
        batch.cubes.to(device),
    )
