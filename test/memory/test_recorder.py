import numpy as np
import pytest

from rmuscle_ros.memory.entry import TaskKey
from rmuscle_ros.memory.recorder import EpisodeRecorder

TASK = TaskKey('stack the cups', 'mini', ('cam',))
OTHER = TaskKey('stack the cups', 'mini', ('cam', 'other'))
NOTHING = np.zeros(0, np.float32)
VELOCITY = np.zeros((2, 3, 1), np.float16)


def record(recorder, task=TASK, calls=2):
    for _ in range(calls):
        recorder.add(task, None, NOTHING, None, NOTHING, NOTHING, VELOCITY)
    return recorder


def test_entries_are_numbered_and_carry_the_episode():
    episode, end = record(EpisodeRecorder(active=True)).finish(True, 'success')
    assert end.admitted
    assert [entry.id for entry in episode.entries] == [f'{episode.id}/0', f'{episode.id}/1']
    assert (end.episode_id, end.entries, episode.task) == (episode.id, 2, TASK)
    assert all(entry.velocity is VELOCITY for entry in episode.entries)


def test_one_unrecorded_call_spoils_the_episode():
    recorder = record(EpisodeRecorder(active=True))
    recorder.spoil('call 2 ran without recording (CACHED)')
    recorder.spoil('a later reason')
    episode, end = record(recorder).finish(True, 'all')
    assert episode is None
    assert end.detail == 'call 2 ran without recording (CACHED)'


def test_a_change_of_cameras_spoils_the_episode():
    recorder = record(record(EpisodeRecorder(active=True)), OTHER)
    episode, end = recorder.finish(True, 'all')
    assert episode is None
    assert 'changed' in end.detail


@pytest.mark.parametrize(
    ('active', 'calls', 'success', 'why'),
    [
        (False, 0, True, 'library.record was off'),
        (True, 0, True, 'no call was made'),
        (True, 2, False, 'did not succeed'),
    ],
)
def test_refusals_say_why(active, calls, success, why):
    episode, end = record(EpisodeRecorder(active), calls=calls).finish(success, 'success')
    assert episode is None
    assert why in end.detail


def test_ids_sort_by_time():
    ids = [record(EpisodeRecorder(True)).finish(True, 'all')[0].id for _ in range(2)]
    assert ids[0][:15] <= ids[1][:15]
    assert ids[0] != ids[1]
