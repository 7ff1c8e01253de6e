"""The training loop."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from rmuscle_ros.engine.device import resolve_device
from rmuscle_ros.models.tiny import TinyConfig
from rmuscle_ros.models.tiny_init import untrained
from rmuscle_ros.train.check import Checker
from rmuscle_ros.train.dataset import read_settings
from rmuscle_ros.train.gradients import Gradients
from rmuscle_ros.train.journal import Journal
from rmuscle_ros.train.objective import CubeHead
from rmuscle_ros.train.samples import Samples
from rmuscle_ros.train.settings import TrainSettings
from rmuscle_ros.train.state import TrainState, load_state, save_state

JOURNAL_EVERY = 10
# What may differ between the pieces of a run. A longer run bends the learning rate's curve from
# where it is.
CHANGEABLE = ('steps', 'look_every', 'check_every', 'check_episodes', 'save_every')


class Run:
    """One training run in its directory; a second one in the same directory goes on with it.

    data: a dataset made by ``generate``. Raises RmuscleError for what cannot be trained.
    """

    def __init__(
        self,
        data: Path,
        directory: Path,
        settings: TrainSettings,
        config: TinyConfig | None = None,
        device: str = 'auto',
        workers: int = 1,
    ) -> None:
        self.settings, self.directory = settings, directory
        self.device = resolve_device(device)
        self.workers = 1 if self.device.type == 'cuda' else workers
        data_settings = read_settings(data)
        self.config = config or TinyConfig(image_size=data_settings.image_size)
        self.samples = Samples(data, data_settings, self.config.horizon, settings)
        self.samples.check_shares(self.workers)
        self.state = self._initial_state()
        kept = {key: value for key, value in asdict(settings).items() if key not in CHANGEABLE}
        self._identity = _as_json(
            {
                **kept,
                'workers': self.workers,
                'config': asdict(self.config),
                'episodes': self.samples.episodes,
            }
        )
        load_state(self.state, self._identity, directory)
        self._journal = Journal(directory, self.state.step)

    def _initial_state(self) -> TrainState:
        model = untrained(self.settings.seed, self.config)
        for name, value in self.samples.statistics().items():
            model.get_buffer(name).copy_(value)
        torch.manual_seed(self.settings.seed)
        head = CubeHead(self.config.vision_width, self.config.width)
        model, head = model.to(self.device), head.to(self.device)
        ema, ema_head = copy.deepcopy(model), copy.deepcopy(head)
        ema.requires_grad_(False)
        ema_head.requires_grad_(False)
        model.requires_grad_(True)
        optimiser = torch.optim.AdamW(
            [*model.parameters(), *head.parameters()],
            lr=self.settings.learning_rate,
            betas=(0.9, 0.99),
            weight_decay=self.settings.weight_decay,
            fused=True,
        )
        return TrainState(model, ema, head, ema_head, optimiser)

    def train(self, until: int | None = None) -> None:
        """Take the steps that are left (up to ``until``), with checks and checkpoints."""
        settings, state = self.settings, self.state
        last = min(settings.steps, until or settings.steps)
        bar = tqdm(total=settings.steps, initial=state.step, unit='step', smoothing=0.05)
        checker = Checker(settings, state, self.samples)
        gradients = Gradients(state.model, state.head, self.samples, settings, self.workers)
        with bar, checker, gradients:
            while state.step < last:
                begin = time.perf_counter()
                values = self._step(gradients)
                state.step += 1
                values['step_s'] = time.perf_counter() - begin
                bar.update()
                self._journal.add(state.step, values)
                if state.step % JOURNAL_EVERY == 0:
                    bar.set_postfix(self._journal.recent())
                look, act = (
                    every and (state.step % every == 0 or state.step == settings.steps)
                    for every in (settings.look_every, settings.check_every)
                )
                if look or act or state.step % settings.save_every == 0 or state.step == last:
                    save_state(state, self._identity, self.directory)
                    if look or act:
                        checks = checker.check(closed_loop=bool(act))
                        self._journal.add_check(state.step, checks)
                    self._journal.write()

    def _step(self, gradients: Gradients) -> dict[str, float]:
        settings, state = self.settings, self.state
        rate = learning_rate(settings, state.step)
        for group in state.optimiser.param_groups:
            group['lr'] = rate
        losses = gradients.backward(state.step)
        parameters = list(state.parameters().values())
        norm = torch.nn.utils.clip_grad_norm_(parameters, settings.gradient_norm)
        state.optimiser.step()
        state.optimiser.zero_grad()
        self._average()
        return {**losses, 'gradient': float(norm), 'rate': rate}

    @torch.no_grad()
    def _average(self) -> None:
        """Exponential moving average; it follows faster while it is young."""
        step = self.state.step
        decay = min(self.settings.ema, (1 + step) / (10 + step))
        pairs = ((self.state.ema, self.state.model), (self.state.ema_head, self.state.head))
        for average, trained in pairs:
            torch._foreach_lerp_(list(average.parameters()), list(trained.parameters()), 1 - decay)


def learning_rate(settings: TrainSettings, step: int) -> float:
    """Linear warm-up at the start of each phase, then a cosine to 0 at the last step."""
    before_flow = settings.look_steps + settings.blind_steps
    looking = step < before_flow
    into_phase = step if looking else step - before_flow
    warm_up = min(1.0, (into_phase + 1) / settings.warm_up_steps)
    if looking:
        return settings.learning_rate * warm_up
    share = into_phase / max(1, settings.steps - before_flow)
    return settings.learning_rate * warm_up * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))


def _as_json(values: Any) -> Any:
    """``values`` as a checkpoint holds them: JSON has no tuples."""
    if isinstance(values, dict):
        return {key: _as_json(value) for key, value in values.items()}
    return [_as_json(value) for value in values] if isinstance(values, (list, tuple)) else values
