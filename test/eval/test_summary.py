import dataclasses
import json

import pytest
from fake_run import CALLS_PER_EPISODE, make_run

from rmuscle_ros.errors import RecordError
from rmuscle_ros.eval.records import CallRecord, EpisodeRecord, ModelRecord, RunRecord
from rmuscle_ros.eval.summary import summarise, table, write_summary

RUN = make_run()
SUMMARY = summarise(RUN)
EMPTY = RunRecord(episodes=(), model=ModelRecord('nothing'))


def call(mode='dense', reason='CACHE_DISABLED', total_ms=100.0, **rest):
    return CallRecord(0, 0.0, mode, reason, total_ms=total_ms, **rest)


def run_of(**calls):
    episodes = [EpisodeRecord(kind, 0, calls=chosen) for kind, chosen in calls.items()]
    return RunRecord(episodes, ModelRecord('m'))


def test_schema_has_every_documented_key():
    assert SUMMARY['schema'] == 1
    assert set(SUMMARY) >= {
        'versions', 'machine', 'model', 'episodes', 'calls', 'latency_ms', 'speedup_p50',
        'success', 'similarity', 'window',
    }  # fmt: skip
    assert set(SUMMARY['calls']) == {'dense', 'cached', 'fallback', 'not_ready', 'no_reference'}
    for kind in ('dense', 'cached'):
        keys = {'p50', 'p99', 'vision', 'prefill', 'denoise', 'prefill_denoise_p50'}
        assert set(SUMMARY['latency_ms'][kind]) >= keys
    assert set(SUMMARY['window']) >= {'entries', 'bytes', 'rebuild_ms_p50', 'misses'}


def test_calls_are_counted_by_category():
    assert SUMMARY['calls'] == {
        'dense': 64, 'cached': 65, 'fallback': 10, 'not_ready': 5, 'no_reference': 16,
    }  # fmt: skip


def test_share_cached_leaves_out_the_first_call_of_each_cached_episode():
    assert SUMMARY['cached_share_after_first'] == pytest.approx(65 / (5 * (CALLS_PER_EPISODE - 1)))


def test_rows_recomputed_are_those_of_cached_calls_in_cached_episodes():
    chosen = [call('cached', 'CACHED', rho_p=share) for share in (0.6, 0.2, 0.6)]
    chosen.append(call(reason='OVER_BUDGET', error_estimate=0.1))
    summary = summarise(run_of(cached=chosen, dense=[call()]))
    assert summary['recomputed']['mean'] == pytest.approx(1.4 / 3)
    assert summary['recomputed']['calls'] == {'0.2': 1, '0.6': 2}
    assert summary['recomputed']['over_budget'] == 1
    assert summarise(EMPTY)['recomputed'] == {'mean': None, 'calls': {}, 'over_budget': 0}


def test_recording_never_enters_the_dense_latency():
    summary = summarise(run_of(reference=[call(total_ms=900.0)] * 4, dense=[call()] * 4))
    assert summary['latency_ms']['dense']['max'] == 100.0
    assert summary['latency_ms']['dense']['n'] == 4


def test_fallbacks_of_cached_episodes_count_neither_as_dense_nor_as_cached():
    slow = call(reason='FALLBACK_DRIFT', total_ms=900.0)
    cached = call('cached', 'CACHED', total_ms=50.0)
    summary = summarise(run_of(cached=[cached, cached, slow], dense=[call(), call()]))
    assert summary['latency_ms']['cached']['max'] == 50.0
    assert summary['speedup_p50'] == pytest.approx(2.0)


def test_ratio_is_cached_over_dense_of_prefill_and_denoise():
    dense = [call(prefill_ms=60.0, denoise_ms=40.0)] * 2
    cached = [call('cached', 'CACHED', prefill_ms=30.0, denoise_ms=40.0)] * 2
    summary = summarise(run_of(dense=dense, cached=cached))
    assert summary['ratio_prefill_denoise_p50'] == pytest.approx(0.7)


def test_p99_needs_a_hundred_calls():
    assert summarise(run_of(dense=[call()] * 99))['latency_ms']['dense']['p99'] is None
    assert summarise(run_of(dense=[call()] * 100))['latency_ms']['dense']['p99'] == 100.0


def test_unjudged_episodes_are_not_failures():
    verdicts = [True, None, False]
    episodes = [EpisodeRecord('cached', i, success=v) for i, v in enumerate(verdicts)]
    summary = summarise(RunRecord([*episodes, EpisodeRecord('dense', 0)], ModelRecord('m')))
    assert summary['success'] == {'reference': None, 'cached': [1, 2], 'dense': None}


def test_an_empty_run_has_nulls_and_never_a_measured_zero():
    summary = summarise(EMPTY)
    for values in summary['latency_ms'].values():
        assert (values.pop('n'), values.pop('first_calls')) == (0, 0)
        assert set(values.values()) == {None}
    for key in ('speedup_p50', 'ratio_prefill_denoise_p50', 'cached_share_after_first', 'window'):
        assert summary[key] is None
    assert summary['similarity'] == {'p5': None, 'p50': None}


@pytest.mark.parametrize('run', [RUN, EMPTY], ids=['full', 'empty'])
def test_file_is_strict_json_and_reads_back(run, tmp_path):
    path = tmp_path / 'out' / 'summary.json'
    write_summary(summarise(run), path)
    text = path.read_text()
    assert 'NaN' not in text
    assert json.loads(text)['schema'] == 1


@pytest.mark.parametrize('value', [float('nan'), object()], ids=['nan', 'object'])
def test_a_setting_json_cannot_hold_is_an_error_and_leaves_no_file(value, tmp_path):
    summary = summarise(dataclasses.replace(RUN, settings={'rho_p': value}))
    with pytest.raises(RecordError, match='None for "no data"'):
        write_summary(summary, tmp_path / 'summary.json')
    assert not (tmp_path / 'summary.json').exists()


def test_table_says_what_ran_how_fast_and_how_well():
    text = table(SUMMARY)
    assert '5 cached and 2 dense episodes, after 3 recorded reference episodes' in text
    assert 'untrained: success is not expected' in text
    assert '0 of 2' in text
    assert '0 of 5' in text
    assert f'{SUMMARY["ratio_prefill_denoise_p50"]:.2f}' in text
    assert 'A 99th percentile needs 100 calls' in text
    assert 'rejected: ends in the past' in text


@pytest.mark.parametrize('run', [RUN, EMPTY], ids=['full', 'empty'])
def test_table_fits_a_terminal_of_any_locale(run):
    lines = table(summarise(run)).splitlines()
    assert max(map(len, lines)) <= 79
    assert all(line.isascii() for line in lines)


def test_table_of_an_empty_run_reads_no_data():
    text = table(summarise(EMPTY))
    assert 'no data' in text
    assert '0 ms' not in text
