"""The process runner, with small processes that misbehave in one way each."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rmuscle_ros.errors import ProcessError, SetupError
from rmuscle_ros.ros.deployment import Deployment, NodeProcess
from rmuscle_ros.ros.runner import Command, Runner, commands, describe, node_command

pytestmark = pytest.mark.timeout(60)

POLITE = """
    import signal, sys, time
    def end(*_):
        print('holding', flush=True)
        sys.exit(0)
    signal.signal(signal.SIGINT, end)
    print('ready', flush=True)
    time.sleep(60)
"""
DEAF = """
    import signal, time
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, {sigterm})
    print('ready', flush=True)
    time.sleep(60)
"""


def python(name, code):
    return Command(name, (sys.executable, '-c', textwrap.dedent(code)))


def wait_for(condition, timeout_s=10.0):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, 'timed out'
        time.sleep(0.02)


def exists(pid):
    try:
        return 'Z' not in Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
    except FileNotFoundError:
        return False


class Run:
    """A runner over commands whose ``ready`` lines have been seen."""

    def __init__(self, directory, *commands, grace_s=(0.5, 0.5)):
        self.shown = []
        self.logs = directory / 'logs'
        self.runner = Runner(commands, os.environ, self.logs, self.shown.append, grace_s)
        self._names = [command.name for command in commands]

    def __enter__(self):
        self.runner.start()
        for name in self._names:
            wait_for(lambda name=name: 'ready' in self.log(name))
        return self

    def __exit__(self, *_):
        self.runner.stop()

    def log(self, name):
        path = self.logs / f'{name}.log'
        return path.read_text() if path.exists() else ''


def test_a_polite_process_ends_with_code_0_and_its_last_words_are_logged(tmp_path):
    with Run(tmp_path, python('node', POLITE)) as run:
        run.runner.check()
        assert run.runner.stop() == {'node': 0}
        assert run.log('node') == 'ready\nholding\n'
        assert run.shown == []


def test_processes_are_stopped_last_started_first(tmp_path):
    with Run(tmp_path, python('station', POLITE), python('node', POLITE)) as run:
        assert list(run.runner.stop()) == ['node', 'station']


@pytest.mark.parametrize(
    ('sigterm', 'code'), [('signal.SIG_DFL', -signal.SIGTERM), ('signal.SIG_IGN', -signal.SIGKILL)]
)
def test_a_process_that_ignores_sigint_is_ended_all_the_same(tmp_path, sigterm, code):
    with Run(tmp_path, python('deaf', DEAF.format(sigterm=sigterm))) as run:
        assert run.runner.stop() == {'deaf': code}
        assert run.shown[0] == '[deaf] still runs, sending SIGTERM'


def test_a_process_that_dies_is_an_error_with_its_last_lines(tmp_path):
    code = "import sys; print('ready'); print('the reason', file=sys.stderr); sys.exit(3)"
    with Run(tmp_path, python('frail', code)) as run:
        wait_for(lambda: 'the reason' in run.log('frail'))
        with pytest.raises(ProcessError, match=r'(?s)frail ended by itself, exit code 3.*reason'):
            wait_for(lambda: run.runner.check())
        assert run.runner.stop() == {'frail': 3}


def test_lines_that_report_errors_are_shown(tmp_path):
    code = POLITE.replace("print('ready'", "print('[ERROR] [1.0] [n]: no camera\\nready'")
    with Run(tmp_path, python('node', code)) as run:
        assert run.shown == ['[node] [ERROR] [1.0] [n]: no camera']


def test_what_a_process_started_is_stopped_with_it(tmp_path):
    code = """
        import subprocess, sys, time
        child = subprocess.Popen(
            [sys.executable, '-c', 'import signal, time; '
             'signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)'])
        print(child.pid, 'ready', flush=True)
        time.sleep(60)
    """
    with Run(tmp_path, python('parent', code)) as run:
        child = int(run.log('parent').split()[0])
        time.sleep(0.3)  # for the child to ignore SIGINT
        run.runner.stop()
        wait_for(lambda: not exists(child))
        assert not exists(child)


def test_no_process_outlives_a_killed_runner(tmp_path):
    code = f"""
        import os, sys, time
        from pathlib import Path
        from rmuscle_ros.ros.runner import Command, Runner
        deaf = {DEAF.format(sigterm='signal.SIG_IGN')!r}
        import textwrap
        command = Command('deaf', (sys.executable, '-c', textwrap.dedent(deaf)))
        runner = Runner([command], os.environ, Path({str(tmp_path)!r}), print)
        runner.start()
        print(runner.pids()['deaf'], flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen(
        [sys.executable, '-c', textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    pid = int(parent.stdout.readline())
    wait_for(lambda: 'ready' in (tmp_path / 'deaf.log').read_text())
    parent.kill()
    parent.wait()
    wait_for(lambda: not exists(pid))
    assert not exists(pid)


def test_when_one_command_cannot_start_the_others_are_stopped(tmp_path):
    commands = [python('good', POLITE), Command('bad', ('/no/such/program',))]
    runner = Runner(commands, os.environ, tmp_path, print)
    with pytest.raises(ProcessError, match='bad: cannot start /no/such/program'):
        runner.start()
    assert runner.pids() == {}


def executable(path, text='#!/bin/sh\nexit 0\n'):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_executables_are_found_in_the_first_prefix_that_has_them(tmp_path):
    path = executable(tmp_path / 'b' / 'lib' / 'rmuscle_ros' / 'node')
    environment = {'AMENT_PREFIX_PATH': f'{tmp_path}/a:{tmp_path}/b'}
    process = NodeProcess(executable='node', name='n')
    assert node_command(process, environment).argv[0] == str(path)


def test_a_missing_executable_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(SetupError, match=r'no executable node below AMENT_PREFIX_PATH \(/x\)'):
        node_command(NodeProcess(executable='node', name='n'), {'AMENT_PREFIX_PATH': '/x'})


@pytest.fixture
def deployment(tmp_path):
    path = tmp_path / 'p.yaml'
    path.write_text('/**: {ros__parameters: {}}\n')
    return Deployment(params_file=path, station_params_file=path)


def test_ros2_launch_is_used_where_it_works(tmp_path, deployment):
    ros2 = executable(tmp_path / 'bin' / 'ros2')
    (command,) = commands(deployment, {'PATH': str(ros2.parent)})
    assert command.argv[:4] == (str(ros2), 'launch', 'rmuscle_ros', 'aloha.launch.py')
    assert command.argv[-1] == 'autostart:=false'
    assert sum(text.startswith('autostart') for text in command.argv) == 1


def test_without_a_working_ros2_launch_the_nodes_are_started_directly(tmp_path, deployment):
    ros2 = executable(tmp_path / 'bin' / 'ros2', '#!/bin/sh\nexit 2\n')
    for name in ('aloha_station', 'rmuscle_node'):
        executable(tmp_path / 'lib' / 'rmuscle_ros' / name)
    environment = {'PATH': str(ros2.parent), 'AMENT_PREFIX_PATH': str(tmp_path)}
    assert [command.name for command in commands(deployment, environment)] == [
        'aloha_station',
        'rmuscle',
    ]


@pytest.mark.parametrize(
    ('code', 'words'), [(0, 'exit code 0'), (3, 'exit code 3'), (-9, 'killed by SIGKILL')]
)
def test_exit_codes_in_words(code, words):
    assert describe(code) == words
