"""Made-up paired trials of every mode, with the numbers of a plausible run."""

import datetime
import types

import numpy as np

from rmuscle_ros.eval import closed_loop
from rmuscle_ros.eval.modes import MODES
from rmuscle_ros.eval.trials import Call, Trial
from rmuscle_ros.rollout import Rollout
from rmuscle_ros.types import Mode, PolicyInfo, Provenance, Reason, StageTimes

# mode -> (vision, prefill, denoise) in ms, median action error, chance of success, share cached
PLAUSIBLE = {
    'dense': ((6, 25, 54), 0.0, 0.88, 0.0),
    'rmuscle': ((6, 14, 38), 0.006, 0.87, 0.8),
    'rmuscle_fixed': ((6, 13, 36), 0.011, 0.84, 0.85),
    'rmuscle_paper': ((6, 13, 42), 0.032, 0.80, 0.85),
    'fewer_steps': ((6, 25, 33), 0.011, 0.86, 0.0),
    'step_skip': ((6, 25, 31), 0.022, 0.82, 0.0),
    'nirvana': ((6, 25, 30), 0.05, 0.6, 0.7),
    'token_kv': ((6, 19, 54), 0.009, 0.8, 0.0),
    'replay': ((6, 0.1, 0.1), 0.3, 0.2, 0.9),
}
INFO = PolicyInfo(
    model='rmuscle_tiny (aloha_transfer_cube)',
    parameters=8_464_718,
    fingerprint='0123abcd-float32',
    cameras=('top', 'left_wrist', 'right_wrist'),
    image_size=(96, 96),
    joint_names=tuple(f'joint_{number}' for number in range(14)),
    horizon=50,
    period_s=0.02,
    device='cpu',
    dtype='float32',
    engine='eager',
)


def make_call(rng, name, call=0, reason=None):
    stages, error, _, cached = PLAUSIBLE[name]
    cached_now = rng.random() < cached
    if reason is None:
        reason = Reason.CACHED if cached_now else Reason.CACHE_DISABLED
        if cached and not cached_now:
            reason = Reason.FALLBACK_SIMILARITY
            stages, error = PLAUSIBLE['dense'][:2]
    vision, prefill, denoise = (ms * rng.lognormal(0, 0.04) for ms in stages)
    times = StageTimes(vision, prefill, denoise, vision + prefill + denoise + 0.4, 0.01)
    dense = name == 'dense'
    rebuilds = MODES[name].rebuilds
    rebuild_ms = float(rng.gamma(2, 90)) if rebuilds else None
    mode = Mode.CACHED if reason is Reason.CACHED else Mode.DENSE
    similarity = float(rng.uniform(0.8, 1)) if cached else None
    provenance = Provenance(call, 0, mode, reason, '', times, 0.5 * call, similarity)
    return Call(
        provenance,
        error=None if dense else float(error * rng.lognormal(0, 0.7)),
        rebuild_ms=rebuild_ms,
        missed=rebuild_ms is not None and rebuild_ms > 420,
    )


def make_trial(rng, name, seed, success=None):
    if success is None:
        # Scenes that are hard for one mode are hard for all.
        hardness = np.random.default_rng(seed).random()
        success = hardness + 0.06 * rng.normal() < PLAUSIBLE[name][2]
    calls = 7 if success else 20
    rollout = Rollout('transfer_cube', seed, bool(success), 4 if success else 2, calls * 25, calls)
    return Trial(rollout, tuple(make_call(rng, name, call) for call in range(calls)))


def make_scenes(scenes=50, names=tuple(PLAUSIBLE), seed=0):
    rng = np.random.default_rng(seed)
    return [{name: make_trial(rng, name, scene) for name in names} for scene in range(scenes)]


def _settings(mode):
    if mode.method:
        return {'start_step': 5, 'computed': (0, 2)}
    return {'engine.denoise_steps': 10, 'cache.enabled': True, 'cache.rho_p': 0.4, **mode.values}


def make_result(scenes=50, names=tuple(PLAUSIBLE), spread=None, requested=None, trained=True):
    """The result of a run; scenes: a number, or scenes made elsewhere."""
    scenes = make_scenes(scenes, names) if isinstance(scenes, int) else scenes
    rng = np.random.default_rng(1)
    bench = types.SimpleNamespace(
        info=INFO,
        trained=trained,
        reference_seeds=[500_000, 500_001, 500_003],
        library=types.SimpleNamespace(entries=21),
        settings=_settings,
    )
    spread = list(0.05 * rng.lognormal(0, 0.6, 130)) if spread is None else spread
    loop = types.SimpleNamespace(scenes=scenes, spread=spread)
    request = closed_loop.Request(
        checkpoint='aloha_transfer_cube',
        task='transfer_cube',
        seeds=range(requested or len(scenes)),
        modes=[MODES[name] for name in names],
        references=3,
        command=f'rmuscle eval --episodes {len(scenes)} --modes {",".join(names)}',
    )
    return closed_loop.result(request, bench, loop, datetime.datetime.now(datetime.timezone.utc))
