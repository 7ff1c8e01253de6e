"""The fences on the real station: a repetition passes, everything else is stopped."""

import argparse
import json

import pytest
import torch

from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.separation import (
    add_arguments,
    as_json,
    measure,
    run,
    stopped_by_drift,
    table,
)
from rmuscle_ros.eval.separation_page import page
from rmuscle_ros.models.tiny_init import untrained


@pytest.fixture(scope='module')
def result():
    engine = EagerEngine(untrained(0), torch.device('cpu'), torch.float32, 10)
    return measure(engine, references=3, tests=2, seed=40, progress=lambda _: None)


def test_normal_frames_pass_both_fences(result):
    assert len(result.drift['same phase (best match)']) == 20
    # the limits are a 99th percentile of few pairs, so a frame at the rim may be computed densely
    assert stopped_by_drift(result, 'same phase (best match)') <= 2
    assert min(result.similarity['same phase (best match)']) > result.similarity_threshold


@pytest.mark.parametrize('name', ['covered camera (best match)', 'random reference'])
def test_the_drift_fence_stops_covered_cameras_and_random_references(result, name):
    count = len(result.drift[name])
    assert count >= 20
    assert stopped_by_drift(result, name) >= 0.95 * count


def test_best_matches_are_nearer_than_any_other_phase(result):
    same = result.drift['same phase (best match)']
    assert max(same) < min(result.drift['random reference'])


def test_outputs_name_every_class_and_the_limits(result):
    data = json.loads(json.dumps(as_json(result)))
    assert set(data['drift']) == set(data['similarity']) == set(data['stopped'])
    assert len(data['drift_limits']) == 3
    assert len(data['drift']) == 4
    html = page(result)
    for name in data['drift']:
        assert name in table(result)
        assert name in html
    assert 'drift fence 1' in html
    assert 'http://' not in html.replace('http://www.w3.org', '')


def test_too_few_references_are_refused():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(ConfigError, match='at least 2'):
        run(parser.parse_args(['--references', '1']))


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--seed', '-1'], '--seed: found -1'),
        (['--json', '/dev/null/s.json'], 'cannot be written'),
        (['--json', 's', '--html', 's'], 'the same file for json and html'),
    ],
)
def test_bad_options_are_refused_before_anything_runs(words, message):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(ConfigError, match=message):
        run(parser.parse_args(words))
