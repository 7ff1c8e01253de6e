"""Both executables as processes, with the YAML in config/ and the real policy."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip('rclpy', reason='rclpy is not importable: run through `make test`')

from diagnostic_msgs.msg import DiagnosticArray
from ros_support import Peer, deployment, environment, processes_of, start, wait_for
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

from rmuscle_ros.msg import ActionChunk, CacheStatus

pytestmark = [pytest.mark.ros, pytest.mark.timeout(240)]

LOAD_S = 120.0


@pytest.fixture
def system(tmp_path, ros_domain_id):
    """Runner and peer of a station and a node that nobody has configured yet."""
    runner = start(deployment().processes(), environment(ros_domain_id), tmp_path)
    peer = Peer(ros_domain_id, runner.check)
    yield runner, peer
    peer.close()
    runner.stop()


def trajectory_counts(messages):
    """The station's newest trajectory counts by name, such as ``follower_left accepted``."""
    for message in reversed(messages):
        for status in message.status:
            if status.name == '/aloha_station: trajectories':
                return {
                    item.key: int(item.value)
                    for item in status.values
                    if item.key.endswith(('accepted', 'rejected'))
                }
    return {}


def test_the_station_accepts_the_chunks_of_the_node(system, tmp_path):
    runner, peer = system
    diagnostics = peer.listen(DiagnosticArray, '/diagnostics', 50)
    chunks = peer.listen(ActionChunk, '/rmuscle/action_chunk', 50)
    joints = peer.listen(JointState, 'joint_states', 50)
    status = peer.listen(CacheStatus, '/rmuscle/status')
    node = peer.remote('/rmuscle')

    node.change_state('configure', LOAD_S)
    node.change_state('activate')
    wait_for(lambda: len(chunks) >= 4, 'four chunks', 60.0, runner.check)
    counts = wait_for(
        lambda: (
            (found := trajectory_counts(diagnostics)).get('follower_left accepted', 0) >= 3
            and found
        ),
        'accepted trajectories',
        check=runner.check,
    )
    assert counts['follower_right accepted'] >= 3
    assert counts['follower_left rejected'] == counts['follower_right rejected'] == 0
    assert any(velocity != 0.0 for velocity in joints[-1].velocity)
    assert {chunk.mode for chunk in chunks} == {'dense'}
    assert wait_for(lambda: status, 'the status')[-1].enabled

    node.change_state('deactivate')
    count = len(chunks)
    assert node.call('end_episode', SetBool.Request(data=False)).success
    time.sleep(0.5)
    assert len(chunks) == count
    assert runner.stop() == {'rmuscle': 0, 'aloha_station': 0}
    assert 'Traceback' not in (tmp_path / 'rmuscle.log').read_text()


def test_stopping_everything_while_the_arm_moves_is_clean(system, tmp_path):
    runner, peer = system
    chunks = peer.listen(ActionChunk, '/rmuscle/action_chunk', 50)
    node = peer.remote('/rmuscle')
    node.change_state('configure', LOAD_S)
    node.change_state('activate')
    wait_for(lambda: chunks, 'a chunk', 60.0, runner.check)
    assert runner.stop() == {'rmuscle': 0, 'aloha_station': 0}
    for name in ('rmuscle', 'aloha_station'):
        assert 'Traceback' not in (tmp_path / f'{name}.log').read_text()


def demo(tmp_path, *arguments):
    """``rmuscle demo`` with an untrained policy and short episodes, as a process."""
    shipped = (Path(__file__).parents[2] / 'config' / 'aloha.yaml').read_text()
    params = tmp_path / 'untrained.yaml'
    params.write_text(shipped.replace('checkpoint: aloha_transfer_cube', "checkpoint: ''"))
    station = tmp_path / 'station.yaml'
    station.write_text('/**: {ros__parameters: {episode_length_s: 2.0}}\n')
    return subprocess.Popen(
        [
            *(sys.executable, '-m', 'rmuscle_ros', 'demo', '--out', str(tmp_path / 'out')),
            *('--params-file', str(params), '--station-params-file', str(station), *arguments),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_the_demo_runs_its_episodes_and_writes_its_results(tmp_path):
    arguments = ('--reference', '2', '--cached', '1', '--dense', '1', '--seed', '3')
    process = demo(tmp_path, *arguments, '--json', str(tmp_path / 'copy.json'))
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    summary = json.loads((tmp_path / 'out' / 'summary.json').read_text())
    assert json.loads((tmp_path / 'copy.json').read_text()) == summary
    assert summary['schema'] == 1
    assert [e['kind'] for e in summary['episodes']] == ['reference'] * 2 + ['dense', 'cached']
    assert [e['seed'] for e in summary['episodes']] == [3, 4, 103, 103]
    assert [e['admitted'] for e in summary['episodes']] == [True, True, None, None]
    assert all(sum(e['calls'].values()) >= 2 for e in summary['episodes'])
    assert summary['episodes'][3]['calls']['cached'] >= 1
    assert summary['model']['trained'] is False
    assert summary['success']['cached'] == [0, 1]
    assert 'library.admit is set to all' in output
    assert '<html' in (tmp_path / 'out' / 'report.html').read_text()[:200].lower()


def test_ctrl_c_stops_the_demo_and_its_processes(tmp_path):
    process = demo(tmp_path, '--reference', '5')
    log = tmp_path / 'out' / 'logs' / 'rmuscle.log'
    wait_for(lambda: log.exists() and 'policy ready' in log.read_text(), 'the policy', LOAD_S)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert 'Traceback' not in output
    assert not processes_of(tmp_path), output
