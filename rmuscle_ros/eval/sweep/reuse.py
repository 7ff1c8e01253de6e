"""What denoise steps lose by reusing one another: dense states, each variant, no closed loop.

The prefill is exact and computed once per state, so that only the denoise steps differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rmuscle_ros.cache.action import ActionPlan
from rmuscle_ros.cache.dense import DenseFfn
from rmuscle_ros.cache.scores import down_norm, effective_rho
from rmuscle_ros.cache.states import NeuronMasks, StepStates
from rmuscle_ros.config import CacheConfig
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.engine.plans import CachedPlan
from rmuscle_ros.engine.runners import action_runner, skip_sampler
from rmuscle_ros.engine.sampler import EulerSampler
from rmuscle_ros.eval.markup import spread
from rmuscle_ros.eval.sweep.variants import FEWER, MASKED, RANDOM, Variant
from rmuscle_ros.memory.entry import Entry, Episode
from rmuscle_ros.memory.retrieval import KeyIndex
from rmuscle_ros.memory.window import Window
from rmuscle_ros.models.processing import prepare
from rmuscle_ros.refresh import record_again
from rmuscle_ros.rollout import Actor, roll_out
from rmuscle_ros.sim.station import AlohaStation
from rmuscle_ros.types import ACTION, ActionChunk, ModelInputs, Observation, Site


@dataclass(frozen=True)
class State:
    """A dense call of a closed loop, and the reference that the window has for it.

    noise: float32 [H, A], the call's own.
    """

    call: int
    inputs: ModelInputs
    noise: np.ndarray
    entry: Entry
    similarity: float


def collect(
    dense: Actor,
    station: AlohaStation,
    seed: int,
    engine: EagerEngine,
    episodes: Sequence[Episode],
    most: int,
) -> list[State]:
    """At most ``most`` states of one dense episode, evenly spread over those a reference serves.

    The window has the default settings; below the similarity fence no reference serves.
    """
    config = CacheConfig()
    window = Window(config.candidates, config.lookahead, config.advance_margin)
    index = KeyIndex(episodes)
    states: list[State] = []

    def on_call(observation: Observation, noise: np.ndarray, chunk: ActionChunk) -> None:
        inputs = prepare(observation, engine.model)
        key = engine.observe(inputs).key
        best = window.update(episodes, index.similarities(key))[0]
        if best.similarity >= config.similarity_threshold:
            states.append(State(chunk.provenance.call, inputs, noise, best.entry, best.similarity))

    roll_out(dense, station, seed, on_call=on_call)
    return [states[number] for number in spread(len(states), most)]


def work(variant: Variant) -> float:
    """FFN neurons computed, in units of a dense step."""
    between = variant.steps - len(variant.anchors)
    return len(variant.anchors) + between * effective_rho(variant.rho_n or 0.0)


class Comparison:
    """Runs variants on states. One thread, one engine."""

    def __init__(self, engine: EagerEngine, variants: Mapping[str, Variant]) -> None:
        self._engine, self._variants = engine, variants
        modules = engine.model.ffn_modules()
        self._dense = DenseFfn(modules)
        self._modules = {site: mlp for site, mlp in modules.items() if site.stack == ACTION}
        self._down_norm = {site: down_norm(mlp) for site, mlp in self._modules.items()}
        self._masks: dict[tuple[str, tuple[int, ...], str], NeuronMasks] = {}

    @torch.inference_mode()
    def errors(self, state: State) -> dict[str, float]:
        """Variant -> action error: mean |difference| from the dense answer, normalised units.

        A variant that needs the reference's noise is given it, and so is its dense answer.
        """
        engine, entry = self._engine, state.entry
        cache = engine.model.prefill(engine.observe(state.inputs).prefix, self._dense)
        noises = {False: state.noise, True: entry.noise}
        expected = {shared: self.denoise(cache, noise) for shared, noise in noises.items()}
        steps_ref = None
        if any(variant.shared and variant.rho_n for variant in self._variants.values()):
            steps_ref = engine.expand(entry.inputs, noise=entry.noise).steps
        found = {}
        for name, variant in self._variants.items():
            plan = self._plan(variant, entry, steps_ref)
            actions = self.denoise(cache, noises[variant.shared], plan, variant.steps)
            found[name] = float((actions - expected[variant.shared]).abs().mean())
        return found

    @torch.inference_mode()
    def denoise(
        self, cache: Any, noise: np.ndarray, plan: ActionPlan | None = None, steps: int = 0
    ) -> Tensor:
        """The engine's own loop over a prefill that is given; [1, H, A], normalised units.

        steps: of the whole denoising; 0 takes the engine's.
        """
        engine = self._engine
        steps = steps or engine.sampler.steps
        cached = CachedPlan((), 1.0, plan)
        sampler = skip_sampler(cached, steps) or EulerSampler(steps)
        ffn = action_runner(self._modules, self._down_norm, cached, steps) or self._dense
        conditions = engine.conditions_at(sampler)

        def velocity(actions: Tensor, step: int) -> Tensor:
            return engine.model.denoise(cache, actions.to(engine.dtype), conditions, step, ffn)

        return sampler(torch.from_numpy(noise)[None].to(engine.device), velocity, ffn)

    def _plan(
        self, variant: Variant, entry: Entry, steps_ref: StepStates | None
    ) -> ActionPlan | None:
        if variant.family == FEWER or variant.unselected is None:
            return None
        masks = None
        if variant.family == MASKED and variant.mask_source != 'anchor':
            masks = self._masks_of(entry, variant.anchors, variant.score or '')
        elif variant.family == RANDOM:
            masks = random_masks(self._down_norm, variant, entry)
        return ActionPlan(
            anchors=variant.anchors,
            rho_n=variant.rho_n or 0.0,
            unselected=variant.unselected,
            mask_source=variant.mask_source or 'reference',
            score=variant.score or 'contribution',
            masks=masks,
            velocity=torch.from_numpy(entry.velocity).float() if variant.shared else None,
            steps_ref=steps_ref if variant.shared and variant.rho_n else None,
        )

    def _masks_of(self, entry: Entry, anchors: tuple[int, ...], score: str) -> NeuronMasks:
        key = (entry.id, anchors, score)
        if key not in self._masks:
            self._masks[key] = record_again(self._engine, entry, anchors, score).masks
        return self._masks[key]


def random_masks(down_norm: Mapping[Site, Tensor], variant: Variant, entry: Entry) -> NeuronMasks:
    """Ranks that know nothing; the same ones for an entry in every run."""
    sites = tuple(down_norm)
    width = next(iter(down_norm.values())).shape[0]
    rng = np.random.default_rng(entry.position)
    scores = rng.random((len(variant.anchors), len(sites), width), np.float32)
    return NeuronMasks.from_scores(
        torch.from_numpy(scores), sites, variant.anchors, variant.steps, 'random'
    )
