import platform

from rmuscle_ros import machine


def test_versions_name_what_is_installed_and_none_for_the_rest(monkeypatch):
    monkeypatch.setattr(machine, 'PACKAGES', ('numpy', 'surely-not-installed'))
    monkeypatch.setenv('ROS_DISTRO', 'jazzy')
    found = machine.versions()
    assert found['python'] == platform.python_version()
    assert found['numpy'] is not None
    assert found['surely-not-installed'] is None
    assert found['ros_distro'] == 'jazzy'


def test_machine_tells_processor_cores_and_memory():
    found = machine.machine()
    assert found['cpu']
    assert found['cores'] >= 1
    assert found['memory_gib'] is None or found['memory_gib'] > 0


def test_without_nvidia_tools_there_is_no_gpu(monkeypatch):
    monkeypatch.setenv('PATH', '')
    assert machine.machine()['gpu'] is None
