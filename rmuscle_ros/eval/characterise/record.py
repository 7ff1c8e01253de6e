"""The policy's own dense episodes, and what the FFNs did in each of their calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.cache.record import RecordFfn
from rmuscle_ros.cache.scores import down_norm, neuron_score
from rmuscle_ros.config import PolicyConfig, with_values
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.errors import RecordError
from rmuscle_ros.memory.entry import Entry, Episode
from rmuscle_ros.memory.library import Library
from rmuscle_ros.models.registry import LoadedModel
from rmuscle_ros.nn.mlp import Mlp
from rmuscle_ros.policy import Policy
from rmuscle_ros.rollout import roll_out
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.types import ACTION, ModelInputs, Site

SCORES = ('contribution', 'delta')
ANCHOR = 'anchor'


@dataclass(frozen=True)
class Activity:
    """What the FFNs of one dense call did.

    x, y: inputs and outputs of the visual rows, prefix site -> [V, D].
    sites: the action sites.
    scores: fp32 [groups, sites, F]. ``contribution`` and ``delta`` (``cache.scores``) over the
        steps after each group's anchor, ``anchor``: the contribution in the anchor step alone.
    actions: float32 [H, A], normalised.
    """

    x: dict[Site, Tensor]
    y: dict[Site, Tensor]
    sites: tuple[Site, ...]
    scores: dict[str, Tensor]
    actions: np.ndarray


@dataclass(frozen=True)
class Call:
    """One dense call of an episode: its compact record, and what its FFNs did."""

    entry: Entry
    activity: Activity


@dataclass(frozen=True)
class Recording:
    """One dense closed-loop episode of the policy on scene ``scene``."""

    scene: int
    episode: Episode
    calls: tuple[Call, ...]


class ScoreNeurons:
    """Dense; sums both neuron scores of every action site over each group's steps.

    The ``StepFfn`` seam of one call; groups are ``group_len`` consecutive steps, anchor first.
    """

    def __init__(self, modules: Mapping[Site, Mlp], group_len: int, steps: int) -> None:
        self._modules = {site: mlp for site, mlp in modules.items() if site.stack == ACTION}
        self._norm = {site: down_norm(mlp) for site, mlp in self._modules.items()}
        self.sites = tuple(self._modules)
        self._group_len, self._step = group_len, 0
        self._anchor: dict[Site, Tensor] = {}
        width = next(iter(self._norm.values())).shape[0]
        shape = (-(-steps // group_len), len(self.sites), width)
        self.scores = {name: torch.zeros(shape) for name in (*SCORES, ANCHOR)}

    def begin_step(self, step: int) -> None:
        self._step = step

    def __call__(self, site: Site, x: Tensor) -> Tensor:
        """x [1, R, D] -> y [1, R, D]."""
        mlp, norm, row = self._modules[site], self._norm[site], self.sites.index(site)
        h = mlp.hidden(x)
        group, position = divmod(self._step, self._group_len)
        if position == 0:
            self._anchor[site] = h[0]
            self.scores[ANCHOR][group, row] = neuron_score(h[0], h[0], norm, 'contribution')
        else:
            for name in SCORES:
                self.scores[name][group, row] += neuron_score(h[0], self._anchor[site], norm, name)
        return mlp.project(h)


class Recorder:
    """Records dense calls of one model, in groups of ``group_len`` denoise steps."""

    def __init__(self, engine: EagerEngine, loaded: LoadedModel, group_len: int) -> None:
        """loaded: the model that ``engine`` runs."""
        self.engine = engine
        self._loaded, self._group_len = loaded, group_len

    def episode(self, station: AlohaStation, scene: int) -> Recording:
        """Let the policy act densely on ``scene``, then replay each of its calls.

        A policy of its own for every episode: its library holds nothing else.
        """
        library = Library()
        with closing(Policy(self._config(), self._loaded, library)) as policy:
            rollout = roll_out(policy, station, scene)
            end = policy.end_episode(rollout.success)
        if not end.admitted:
            raise RecordError(
                f'scene {scene} of {station.task.name}: found no recorded episode '
                f'({end.detail}), expected every call to be recorded'
            )
        episode = _named(next(iter(library)), f'{station.task.name}-{scene}')
        calls = tuple(
            Call(entry, self.replay(entry.inputs, entry.noise)) for entry in episode.entries
        )
        return Recording(scene, episode, calls)

    def _config(self) -> PolicyConfig:
        engine = self.engine
        values = {
            'engine.device': str(engine.device),
            'engine.dtype': str(engine.dtype).removeprefix('torch.'),
            'engine.denoise_steps': engine.sampler.steps,
            'cache.enabled': False,
            'library.record': True,
            'library.admit': 'all',
        }
        return with_values(PolicyConfig(), values)

    @torch.inference_mode()
    def replay(self, inputs: ModelInputs, noise: np.ndarray) -> Activity:
        """One dense call, with everything this study looks at. noise: float32 [H, A]."""
        engine, model = self.engine, self.engine.model
        modules = model.ffn_modules()
        record = RecordFfn(modules)
        features = model.vision(torch.from_numpy(inputs.images).to(engine.device), record)
        prefix = model.embed(features, inputs)
        record.visual = prefix.visual
        cache = model.prefill(prefix, record)
        ffn = ScoreNeurons(modules, self._group_len, engine.sampler.steps)
        actions = engine.sampler(
            torch.from_numpy(noise)[None].to(engine.device),
            lambda a, step: model.denoise(cache, a.to(engine.dtype), engine.conditions, step, ffn),
            ffn,
        )
        return Activity(record.x, record.y, ffn.sites, ffn.scores, actions[0].cpu().numpy())


def _named(episode: Episode, name: str) -> Episode:
    """``episode`` under a name that is the same in every run."""
    entries = tuple(dataclasses.replace(entry, episode_id=name) for entry in episode.entries)
    return dataclasses.replace(episode, id=name, entries=entries)
