"""A made-up sweep with the numbers of a plausible one, summed up by the real code."""

import datetime
import types

import numpy as np
from fake_trials import INFO, make_trial

from rmuscle_ros.eval import closed_loop
from rmuscle_ros.eval.sweep import run
from rmuscle_ros.eval.sweep.bench import DENSE_SETTING
from rmuscle_ros.eval.sweep.factors import FACTORS, plan
from rmuscle_ros.eval.sweep.grid import Grid, StateGrid
from rmuscle_ros.eval.sweep.journal import Journal
from rmuscle_ros.eval.sweep.reuse import work
from rmuscle_ros.eval.sweep.variants import MASKED, RANDOM, variants

SAME = {'fingerprint': 'x'}


def make_trials(factors=FACTORS, scenes=20, references=20, journal=None):
    """A filled grid: settings that differ more from the default are farther off."""
    made = plan(factors, references)
    settings = [DENSE_SETTING, *made.settings.values()]
    grid = Grid(settings, range(scenes), journal or Journal(None), SAME)
    rng = np.random.default_rng(0)
    for seed in range(scenes):
        for number, name in enumerate(grid.settings):
            mode = ('rmuscle', 'rmuscle_fixed', 'rmuscle_paper')[number % 3]
            trial = make_trial(rng, 'dense' if name == 'dense' else mode, seed)
            grid.put(name, seed, trial, [0.05] if name == 'dense' else [])
    return grid, made


class FakeComparison:
    """Errors that fall with the work, and are larger for random neurons."""

    def __init__(self, seed=0):
        self._rng = np.random.default_rng(seed)

    def errors(self, state):
        factors = {MASKED: 1.1, RANDOM: 2.0}
        return {
            name: float(
                0.05
                * np.exp(-0.5 * work(variant))
                * factors.get(variant.family, 1.0)
                * (0.4 if variant.shared else 1.0)
                * self._rng.lognormal(0, 0.3)
            )
            for name, variant in variants().items()
        }


def make_states(scenes=20, states=3):
    grid = StateGrid(variants(), range(scenes), Journal(None), SAME)
    state = types.SimpleNamespace(call=0, similarity=0.93)
    for seed in range(scenes):
        grid.put(seed, [state] * states, FakeComparison(seed))
    return grid


def make_result(factors=FACTORS, scenes=20, states=3, trained=True):
    trials, made = make_trials(factors, scenes)
    if not factors:
        trials = Grid([], range(scenes), Journal(None), SAME)
    request = run.Request('some', 'transfer_cube', range(scenes), factors, 20, states, 'rmuscle x')
    bench = types.SimpleNamespace(
        info=INFO,
        trained=trained,
        reference_seeds=[],
        library=types.SimpleNamespace(entries=0),
        settings=lambda mode: dict(mode.values),
        mode=lambda setting: setting,
    )
    swept = types.SimpleNamespace(
        request=request,
        plan=made,
        bench=bench,
        trials=trials,
        states=make_states(scenes, states) if states else StateGrid({}, [], Journal(None), SAME),
        started=datetime.datetime.now(datetime.timezone.utc),
        references=lambda: {'seeds': [500_000, 500_001], 'entries': 14},
        as_request=lambda references: closed_loop.Request(
            'some', 'transfer_cube', range(scenes), (), references, 'rmuscle x'
        ),
    )
    return run.result(swept)
