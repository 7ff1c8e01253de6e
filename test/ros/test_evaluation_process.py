"""``rmuscle eval --ros`` as a process, with the shipped policy, the station and the nodes."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')

from ros_support import processes_of, wait_for

pytestmark = [pytest.mark.ros, pytest.mark.timeout(240)]

# Not those of the final evaluation.
SEED = 700_000


def test_ctrl_c_after_a_scene_leaves_its_result_and_no_process(tmp_path):
    path, errors = tmp_path / 'ros.json', tmp_path / 'stderr'
    words = ('--episodes', '9', '--seed', str(SEED), '--modes', 'dense,rmuscle')
    with errors.open('w') as stream:
        process = subprocess.Popen(
            [
                *(sys.executable, '-m', 'rmuscle_ros', 'eval', '--ros', *words),
                *('--references', '2', '--json', str(path)),
            ],
            env={**os.environ, 'TMPDIR': str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            start_new_session=True,
        )
    # Two modes on one scene are behind it, and another episode runs.
    wait_for(
        lambda: re.search(r'\b[23]/18\b', errors.read_text()) or process.poll() is not None,
        'the first scene',
        200.0,
    )
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, errors.read_text()
    assert 'Traceback' not in errors.read_text()
    assert not processes_of(tmp_path)
    assert 'NOT COMPLETE' in output
    result = json.loads(path.read_text())
    assert result['complete'] is False
    assert result['command'].startswith('rmuscle eval --ros')
    assert result['references']['seeds'][0] >= 500_000
    dense, cached = result['modes']['dense'], result['modes']['rmuscle']
    assert dense['success'][1] == cached['success'][1] == len(result['episodes']['dense']) >= 1
    assert result['episodes']['rmuscle'][0]['seed'] == SEED
    assert dense['calls']['dense'] == sum(dense['calls'].values()) >= 4
    assert cached['calls']['dense'] == cached['calls']['no_reference'] == 0
    assert dense['latency_ms']['p50'] > 0
    assert result['model']['trained']
    assert path.with_suffix('.html').exists()
