"""The figures of paired trials, on trials whose figures are known."""

import dataclasses
import json

import numpy as np
import pytest
from fake_trials import make_call, make_result, make_scenes, make_trial

from rmuscle_ros.eval.comparison import spread, summarise
from rmuscle_ros.eval.comparison_table import table
from rmuscle_ros.eval.trials import Call, Trial
from rmuscle_ros.statistics import mcnemar, wilson
from rmuscle_ros.types import CALL_CATEGORIES, Reason, StageTimes

RNG = np.random.default_rng(0)


def scenes_of(**wins):
    """wins: mode -> its outcome per scene."""
    count = len(next(iter(wins.values())))
    return [
        {name: make_trial(RNG, name, seed, success=won[seed]) for name, won in wins.items()}
        for seed in range(count)
    ]


def with_calls(name, calls):
    """One scene of one mode with these calls."""
    trial = make_trial(RNG, name, 0, success=True)
    return [{name: Trial(trial.rollout, tuple(calls))}]


def timed(name, total_ms, **changes):
    """A call of this latency: a tenth vision, three tenths prefill, the rest denoising."""
    call = make_call(RNG, name, reason=Reason.CACHED)
    times = StageTimes(0.1 * total_ms, 0.3 * total_ms, 0.6 * total_ms, total_ms, 0.0)
    provenance = dataclasses.replace(call.provenance, times=times)
    return dataclasses.replace(call, provenance=provenance, **changes)


def test_success_is_compared_scene_by_scene():
    found = summarise(
        scenes_of(dense=[1, 1, 1, 0, 0, 1], rmuscle=[1, 0, 0, 1, 0, 0]), ('dense', 'rmuscle')
    )
    dense, rmuscle = found['dense'], found['rmuscle']
    assert dense['success'] == [4, 6] and rmuscle['success'] == [2, 6]
    assert rmuscle['success_interval'] == list(wilson(2, 6))
    assert rmuscle['mcnemar'] == {
        'better': 1,
        'worse': 3,
        'p': mcnemar(1, 3),
        'better_seeds': [3],
        'worse_seeds': [1, 2, 5],
    }
    assert rmuscle['difference']['share'] == pytest.approx(-2 / 6)
    low, high = rmuscle['difference']['interval']
    assert low < -2 / 6 < high
    assert dense['mcnemar'] is None and dense['difference'] is None


def test_without_dense_nothing_is_compared_with_it():
    found = summarise(scenes_of(rmuscle=[1, 0], replay=[0, 0]), ('rmuscle', 'replay'))
    for mode in found.values():
        assert mode['mcnemar'] is mode['difference'] is mode['speedup_p50'] is None


def test_latency_stages_and_speedup():
    times = {'dense': (90, 100, 110), 'replay': (10, 20, 60)}
    scene = {}
    for name, values in times.items():
        scene |= with_calls(name, [timed(name, ms) for ms in values])[0]
    found = summarise([scene], times)
    replay = found['replay']['latency_ms']
    assert (replay['p50'], replay['p99'], replay['mean']) == (20, None, 30)
    assert replay['denoise'] == pytest.approx(12)
    assert sum(replay['stage_means'].values()) == pytest.approx(30)
    assert found['replay']['speedup_p50'] == pytest.approx(5)
    assert found['replay']['speedup_mean'] == pytest.approx(100 / 30)
    assert found['dense']['speedup_p50'] == 1


def test_errors_are_aggregated_over_calls_and_the_tail_needs_enough_of_them():
    calls = [timed('rmuscle', 50, error=error) for error in np.linspace(0, 1, 101)]
    error = summarise(with_calls('rmuscle', calls), ('rmuscle',))['rmuscle']['action_error']
    assert error == pytest.approx({'mean': 0.5, 'p50': 0.5, 'p99': 0.99, 'max': 1.0, 'calls': 101})
    few = summarise(with_calls('rmuscle', calls[:99]), ('rmuscle',))['rmuscle']['action_error']
    assert few['p99'] is None and few['max'] == pytest.approx(0.98)
    assert spread([0.2, 0.4])['p50'] == pytest.approx(0.3)


def test_a_mode_is_dominated_by_what_is_faster_and_closer_on_average():
    points = {
        'dense': (100, 0.0),
        'fewer_steps': (60, 0.02),
        'rmuscle': (60, 0.03),
        'replay': (5, 0.9),
        'token_kv': (120, 0.01),
    }
    scene = {}
    for name, (ms, error) in points.items():
        error = None if name == 'dense' else error
        scene |= with_calls(name, [timed(name, ms, error=error)])[0]
    found = summarise([scene], points)
    assert {name: mode['dominated_by'] for name, mode in found.items()} == {
        'dense': [],
        'fewer_steps': [],
        'rmuscle': ['fewer_steps'],
        'replay': [],
        'token_kv': ['dense'],
    }


def test_dense_calls_of_a_mode_count_in_its_averages():
    calls = [timed('rmuscle', 50, error=0.1), timed('rmuscle', 100, error=0.0)]
    found = summarise(with_calls('rmuscle', calls), ('rmuscle',))['rmuscle']
    assert found['latency_ms']['mean'] == 75
    assert found['action_error']['mean'] == pytest.approx(0.05)


def test_every_scene_has_the_same_weight_in_the_means():
    """A failed episode has more calls, and would drown the others where a mode fails more."""
    short, long = ([timed('rmuscle', ms, error=ms / 1e3)] * n for ms, n in ((50, 2), (90, 18)))
    scenes = [*with_calls('rmuscle', short), *with_calls('rmuscle', long)]
    found = summarise(scenes, ('rmuscle',))['rmuscle']
    assert found['latency_ms']['mean'] == pytest.approx(70)
    assert sum(found['latency_ms']['stage_means'].values()) == pytest.approx(70)
    assert found['action_error']['mean'] == pytest.approx(0.07)
    assert found['latency_ms']['p50'] == 90


def test_rebuilds_are_timed_where_there_was_work_and_missed_where_it_was_late():
    times = [0.01, 0.02, 100.0, 200.0, 600.0]
    calls = [timed('rmuscle', 50, rebuild_ms=ms, missed=ms > 450) for ms in times]
    rebuild = summarise(with_calls('rmuscle', calls), ('rmuscle',))['rmuscle']['rebuild']
    assert rebuild == {
        'ms': {'p50': 200.0, 'p99': None, 'max': 600.0},
        'worked': 3,
        'misses': 1,
        'calls': 5,
    }
    idle = [dataclasses.replace(call, rebuild_ms=None) for call in calls]
    assert summarise(with_calls('rmuscle', idle), ('rmuscle',))['rmuscle']['rebuild'] is None


def test_calls_are_counted_by_why_they_ran_as_they_did():
    reasons = [Reason.CACHED, Reason.FALLBACK_DRIFT, Reason.FALLBACK_SIMILARITY]
    calls = [make_call(RNG, 'rmuscle', reason=reason) for reason in reasons]
    found = summarise(with_calls('rmuscle', calls), ('rmuscle',))['rmuscle']
    assert found['calls'] == dict.fromkeys(CALL_CATEGORIES, 0) | {'cached': 1, 'fallback': 2}


def test_a_mode_without_calls_has_no_data_rather_than_zeros():
    found = summarise(with_calls('rmuscle', []), ('rmuscle',))['rmuscle']
    assert found['latency_ms']['p50'] is found['latency_ms']['mean'] is None
    assert found['action_error'] == {
        'mean': None, 'p50': None, 'p99': None, 'max': None, 'calls': 0,
    }  # fmt: skip
    assert found['similarity'] == {'p5': None, 'p50': None}
    assert found['dominated_by'] == []


def test_the_json_has_what_others_read():
    result = json.loads(json.dumps(make_result(5), allow_nan=False))
    assert result['schema'] == 2 and result['complete'] is True
    assert {'versions', 'machine', 'seeds', 'command', 'spread', 'episodes', 'model'} <= set(
        result
    )
    for name, mode in result['modes'].items():
        assert {
            'success', 'success_interval', 'mcnemar', 'lifted', 'calls', 'latency_ms',
            'speedup_p50', 'action_error', 'similarity', 'rebuild', 'settings', 'description',
        } <= set(mode)  # fmt: skip
        assert {'p50', 'p99', 'vision', 'prefill', 'denoise'} <= set(mode['latency_ms'])
        for trial in result['episodes'][name]:
            assert len({len(column) for column in trial['calls'].values()}) == 1
    errors = result['episodes']['rmuscle'][0]['calls']['action_error']
    calls = make_scenes(5)[0]['rmuscle'].calls
    assert errors == pytest.approx([call.error for call in calls], rel=1e-4)


def test_the_table_shows_every_mode_and_no_data_as_a_dash():
    text = table(make_result(3))
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    assert 'rmuscle_paper' in lines and 'of 3' in lines['replay']
    assert lines['dense'].split().count('-') == 4
    assert 'None' not in text and 'nan' not in text
    assert 'NOT COMPLETE' not in text
    assert 'NOT COMPLETE' in table(make_result(3, requested=9))
    assert max(map(len, text.splitlines())) < 150


def test_a_call_is_as_it_was_made():
    assert Call(make_call(RNG, 'dense').provenance).missed is False
