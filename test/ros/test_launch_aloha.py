"""``aloha.launch.py`` in a real launch service; skipped where launch is not installed."""

import sys
from pathlib import Path

import pytest

# Not ``launch``: the folder of that name beside this package's sources can be imported, too.
pytest.importorskip('launch_ros', reason='launch_ros is not installed (it is no PyPI package)')
pytest.importorskip('launch_pytest', reason='launch_pytest is not installed')

import launch_pytest
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_pytest.actions import ReadyToTest
from lifecycle_msgs.msg import State
from ros_support import CONFIG, Peer, wait_for

from launch import LaunchDescription
from rmuscle_ros.msg import ActionChunk

# launch_pytest waits for ever when a description fails before ReadyToTest.
pytestmark = [pytest.mark.ros, pytest.mark.timeout(180)]

PLUGIN_IS_LOADED = 'launch_pytest.plugin' in sys.modules
LAUNCH_FILE = Path(__file__).parents[2] / 'launch' / 'aloha.launch.py'


def launched(fixture):
    """The plugin's marker; without the plugin, pytest would not even know it."""
    if not PLUGIN_IS_LOADED:
        return pytest.mark.skip(reason='the pytest plugin launch_pytest is switched off')
    return pytest.mark.launch(fixture=fixture)


def description(**arguments):
    files = {
        'params_file': str(CONFIG / 'aloha.yaml'),
        'station_params_file': str(CONFIG / 'station.yaml'),
    }
    include = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(LAUNCH_FILE)),
        launch_arguments={**files, **arguments}.items(),
    )
    return LaunchDescription([include, ReadyToTest()])


@launch_pytest.fixture
def started(ros_domain_id):
    return description()


@launch_pytest.fixture
def in_a_namespace_by_hand(ros_domain_id):
    return description(namespace='cell', autostart='false')


@launched(started)
def test_the_node_is_brought_up_and_moves_the_station(ros_domain_id):
    peer = Peer(ros_domain_id)
    chunks = peer.listen(ActionChunk, '/rmuscle/action_chunk')
    wait_for(lambda: len(chunks) >= 2, 'two chunks', 120.0)
    assert peer.remote('/rmuscle').state() == State.PRIMARY_STATE_ACTIVE
    peer.close()


@launched(in_a_namespace_by_hand)
def test_without_autostart_the_node_waits_in_its_namespace(ros_domain_id):
    peer = Peer(ros_domain_id)
    assert peer.remote('/cell/rmuscle').state(60.0) == State.PRIMARY_STATE_UNCONFIGURED
    assert peer.remote('/cell/aloha_station').get_parameters(['seed']) == {'seed': 0}
    peer.close()
