"""``rmuscle bench call``: one call by stage; plain modules, dense engine and caches in turn."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from rmuscle_ros.bench.plain import plain_denoise, plain_prefill
from rmuscle_ros.bench.timing import Timing, alternate
from rmuscle_ros.cache.action import ActionPlan
from rmuscle_ros.cache.scores import effective_rho
from rmuscle_ros.cache.states import regular_anchors
from rmuscle_ros.config import PolicyConfig, with_values
from rmuscle_ros.engine.device import resolve_threads
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.engine.plans import CachedPlan, Observed, Plan, RecordPlan
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.machine import machine, versions
from rmuscle_ros.models.registry import load_model
from rmuscle_ros.models.tiny import TinyVla
from rmuscle_ros.types import ModelInputs

STAGES = ('prefill', 'denoise')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        'Times one call on this machine. Variants alternate within one run: plain (the modules '
        'without the FFN seam), dense and cached (reference = a slightly different picture).'
    )
    parser.add_argument('--checkpoint', default='', help='checkpoint directory; default: seeded')
    parser.add_argument('--rho-p', type=float, default=0.4, help='visual rows recomputed (0..1)')
    parser.add_argument('--rho-n', type=float, default=0.5, help='neurons computed (0..1)')
    parser.add_argument('--group-len', type=int, default=5, help='denoise steps per anchor')
    parser.add_argument('--steps', type=int, default=10, help='denoise steps')
    parser.add_argument('--repeats', type=int, default=30, help='counted rounds')
    parser.add_argument('--threads', type=int, default=0, help='CPU threads; 0: all cores but one')
    parser.add_argument('--seed', type=int, default=0, help='seed of weights, pictures and noise')
    parser.add_argument('--json', type=Path, metavar='FILE', help='write the result here too')


def run(args: argparse.Namespace) -> int:
    torch.set_num_threads(resolve_threads(args.threads))
    result = measure(args)
    print(table(result))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=2) + '\n')
    return 0


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Time all variants; the result names everything needed to run it again.

    ConfigError for an option out of range.
    """
    with_values(
        PolicyConfig(),
        {
            'cache.rho_p': args.rho_p,
            'cache.rho_n': args.rho_n,
            'engine.denoise_steps': args.steps,
        },
    )
    if args.repeats < 1 or args.group_len < 1:
        raise ConfigError(
            f'found --repeats {args.repeats} and --group-len {args.group_len}, expected at least 1'
        )
    loaded = load_model(args.checkpoint, args.seed)
    engine = EagerEngine(loaded.model, torch.device('cpu'), torch.float32, args.steps)
    reference, later = scene(engine, args.seed)
    shape = (engine.model.horizon, engine.model.action_width)
    noise = np.random.default_rng(args.seed).normal(size=shape).astype(np.float32)
    observed = engine.observe(later)
    anchors = regular_anchors(args.group_len, args.steps)
    recorded = engine.run(
        engine.observe(reference), RecordPlan(anchors, 'contribution'), noise
    ).recorded
    action = ActionPlan(anchors, args.rho_n, masks=recorded.masks if recorded else None)
    plan = CachedPlan((engine.expand(reference),), args.rho_p, action)
    timings = alternate(
        {
            'plain': lambda: _plain(engine, observed, noise),
            'dense': lambda: _engine(engine, observed, None, noise),
            'cached': lambda: _engine(engine, observed, plan, noise),
        },
        args.repeats,
    )
    rows = [_row(name, timing) for name, timing in timings.items()]
    return {
        'schema': 1,
        'versions': versions(),
        'machine': machine() | {'threads': torch.get_num_threads()},
        'model': loaded.name,
        'settings': {
            'rho_p': args.rho_p,
            'rho_n': effective_rho(args.rho_n),
            'group_len': args.group_len,
            'steps': args.steps,
            'repeats': args.repeats,
            'seed': args.seed,
            'prefix_rows': observed.prefix.x.shape[1],
        },
        'rows': rows,
        'ratio_cached_dense': timings['cached'].p50(*STAGES) / timings['dense'].p50(*STAGES),
        'ratio_dense_plain': timings['dense'].minimum(*STAGES) / timings['plain'].minimum(*STAGES),
    }


def scene(engine: EagerEngine, seed: int) -> tuple[ModelInputs, ModelInputs]:
    """A reference observation and a later one: the same pictures with a little sensor noise."""
    rng = np.random.default_rng(seed)
    model = engine.model
    size = model.image_size
    images = rng.integers(0, 256, (len(model.cameras), size, size, 3))
    later = np.clip(images + rng.integers(-8, 9, images.shape), 0, 255)
    state = rng.normal(0, 0.1, len(model.joint_names)).astype(np.float32)
    instruction = 'hand over the red cube from the right to the left arm'
    return tuple(  # type: ignore[return-value]
        ModelInputs(pictures.astype(np.uint8), model.cameras, state, instruction)
        for pictures in (images, later)
    )


def _engine(
    engine: EagerEngine, observed: Observed, plan: Plan, noise: np.ndarray
) -> Mapping[str, float]:
    vision_ms = engine.observe(observed.inputs).vision_ms
    result = engine.run(observed, plan, noise)
    return {'vision': vision_ms, 'prefill': result.prefill_ms, 'denoise': result.denoise_ms}


@torch.inference_mode()
def _plain(engine: EagerEngine, observed: Observed, noise: np.ndarray) -> Mapping[str, float]:
    model = cast(TinyVla, engine.model)
    vision_ms = engine.observe(observed.inputs).vision_ms
    start = time.perf_counter()
    cache = plain_prefill(model, observed.prefix.x)
    middle = time.perf_counter()
    actions = plain_denoise(
        model, cache, engine.conditions, torch.from_numpy(noise)[None], engine.sampler.steps
    )
    model.unnormalise(actions, observed.inputs).numpy()
    end = time.perf_counter()
    return {
        'vision': vision_ms,
        'prefill': (middle - start) * 1e3,
        'denoise': (end - middle) * 1e3,
    }


def _row(name: str, timing: Timing) -> dict[str, Any]:
    stages = ('vision', *STAGES)
    row: dict[str, Any] = {'impl': name, 'ms_p50': timing.p50(*stages)}
    row['ms_min'] = timing.minimum(*stages)
    return row | {f'{stage}_ms_p50': timing.p50(stage) for stage in stages}


def table(result: Mapping[str, Any]) -> str:
    """The result for a terminal."""
    settings = result['settings']
    lines = [
        f'{result["model"]}, float32, {result["machine"]["threads"]} threads, '
        f'{result["machine"]["cpu"]}',
        f'rho_p {settings["rho_p"]:g}, rho_n {settings["rho_n"]:g}, '
        f'groups of {settings["group_len"]}, {settings["steps"]} steps, '
        f'{settings["repeats"]} rounds in turn',
        '',
        f'{"ms (median)":12}{"vision":>9}{"prefill":>9}{"denoise":>9}{"call":>9}{"best":>9}',
    ]
    for row in result['rows']:
        values = (
            row['vision_ms_p50'],
            row['prefill_ms_p50'],
            row['denoise_ms_p50'],
            row['ms_p50'],
            row['ms_min'],
        )
        lines.append(f'{row["impl"]:12}' + ''.join(f'{value:9.2f}' for value in values))
    return '\n'.join(
        [
            *lines,
            '',
            f'cached / dense, prefill + denoise, medians: {result["ratio_cached_dense"]:.3f}',
            f'dense / plain,  prefill + denoise, minima:  {result["ratio_dense_plain"]:.3f}',
        ]
    )
