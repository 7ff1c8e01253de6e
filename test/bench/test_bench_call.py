import argparse
import json
from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from rmuscle_ros.bench import call
from rmuscle_ros.bench.plain import plain_denoise, plain_prefill
from rmuscle_ros.bench.timing import alternate
from rmuscle_ros.cache.action import ActionPlan
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.engine.plans import CachedPlan, RecordPlan
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.models.tiny_init import untrained


class OpCounter(TorchDispatchMode):
    """Counts operations; views are free and not counted."""

    def __init__(self):
        super().__init__()
        self.ops = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not func.is_view:
            self.ops[str(func)] += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture(scope='module')
def setup():
    engine = EagerEngine(untrained(0), torch.device('cpu'), torch.float32, 10)
    reference, later = call.scene(engine, 0)
    noise = np.random.default_rng(0).normal(size=(50, 14)).astype(np.float32)
    record = RecordPlan((0, 5), 'contribution')
    recorded = engine.run(engine.observe(reference), record, noise).recorded
    actions = {
        'masked': ActionPlan((0, 5), 0.5, masks=recorded.masks),
        'skipped': ActionPlan((0, 5), 0.0),
    }
    state = engine.expand(reference)
    plans = {name: CachedPlan((state,), 0.4, action) for name, action in actions.items()}
    return engine, engine.observe(later), plans, noise


def test_the_seam_adds_no_operation_to_the_dense_path(setup):
    engine, observed, _, noise = setup
    with OpCounter() as dense:
        engine.run(observed, None, noise)
    with torch.inference_mode(), OpCounter() as plain:
        cache = plain_prefill(engine.model, observed.prefix.x)
        actions = plain_denoise(
            engine.model, cache, engine.conditions, torch.from_numpy(noise)[None], 10
        )
        engine.model.unnormalise(actions, observed.inputs)
    assert dense.ops == plain.ops
    assert dense.ops.total() > 500


@pytest.mark.parametrize(('kind', 'least', 'most'), [('masked', 0.5, 0.7), ('skipped', 0.3, 0.5)])
def test_the_caches_save_the_flops_they_promise(setup, kind, least, most):
    engine, observed, plans, noise = setup
    flops = []
    for each in (None, plans[kind]):
        with FlopCounterMode(display=False) as counter:
            engine.run(observed, each, noise)
        flops.append(counter.get_total_flops())
    assert least < flops[1] / flops[0] < most


def test_variants_run_in_turn_and_warm_up_is_not_counted():
    order = []

    def variant(name):
        order.append(name)
        return {'stage': float(len(order))}

    timings = alternate({n: lambda n=n: variant(n) for n in 'ab'}, repeats=2, warm_up=1)
    assert order == ['a', 'b', 'b', 'a', 'a', 'b']
    assert timings['a'].runs == {'stage': [4.0, 5.0]}
    assert timings['b'].p50('stage') == pytest.approx(4.5)


@pytest.mark.parametrize('option', ['--rho-p=1.5', '--rho-n=-1', '--group-len=0', '--repeats=0'])
def test_an_option_out_of_range_is_refused(option):
    parser = argparse.ArgumentParser()
    call.add_arguments(parser)
    with pytest.raises(ConfigError, match='expected'):
        call.run(parser.parse_args([option]))


def test_the_benchmark_writes_what_it_prints(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    call.add_arguments(parser)
    path = tmp_path / 'new' / 'call.json'
    assert call.run(parser.parse_args(['--repeats', '2', '--json', str(path)])) == 0
    result = json.loads(path.read_text())
    assert [row['impl'] for row in result['rows']] == ['plain', 'dense', 'cached']
    assert all(row['ms_min'] <= row['ms_p50'] for row in result['rows'])
    assert f'{result["ratio_cached_dense"]:.3f}' in capsys.readouterr().out
    assert result['settings']['prefix_rows'] == 3 * 64 + 53 + 1
