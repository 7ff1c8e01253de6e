"""Episodes become references, or do not, and serve later ones."""

import pytest
from policy_support import OPEN, infer_all

from rmuscle_ros.errors import LibraryError
from rmuscle_ros.memory.library import Library
from rmuscle_ros.types import Reason


def test_recorded_episodes_serve_later_ones(make_policy, make_observation, record_episodes):
    policy = make_policy(OPEN)
    ends = record_episodes(policy)
    assert [end.admitted for end in ends] == [True, True]
    assert ends[0].entries == 4
    calls = infer_all(policy, make_observation)
    assert [call.reason for call in calls] == [Reason.CACHED] * 4
    assert [call.reference_id.split('/')[1] for call in calls] == ['0', '1', '2', '3']
    assert all((call.rho_p, call.rho_n) == (0.2, 0.0) for call in calls)
    assert policy.status().calls['cached'] == 4


@pytest.mark.parametrize(
    ('admit', 'success', 'admitted'),
    [('success', True, True), ('success', False, False), ('all', False, True)],
)
def test_admission_rule(make_policy, make_observation, admit, success, admitted):
    policy = make_policy({'library.record': True, 'library.admit': admit})
    policy.infer(make_observation())
    end = policy.end_episode(success)
    assert end.admitted is admitted
    assert policy.status().library_episodes == int(admitted)


def test_reset_discards_what_was_recorded(make_policy, make_observation):
    policy = make_policy({'library.record': True, 'library.admit': 'all'})
    policy.infer(make_observation())
    policy.reset()
    end = policy.end_episode(True)
    assert not end.admitted and end.detail == 'no call was made'


def test_an_episode_with_a_cached_call_is_not_admitted(
    make_policy, make_observation, record_episodes
):
    policy = make_policy(OPEN | {'library.record': True, 'library.admit': 'all'})
    record_episodes(policy)
    infer_all(policy, make_observation, calls=1)
    end = policy.end_episode(True)
    assert not end.admitted and 'CACHED' in end.detail


def test_recording_is_switched_with_the_next_episode(make_policy, make_observation):
    policy = make_policy()
    policy.tune(record=True)
    policy.infer(make_observation())
    assert not policy.end_episode(True).admitted
    policy.infer(make_observation())
    assert policy.end_episode(True).admitted


def test_library_survives_a_restart(make_policy, make_observation, record_episodes, tmp_path):
    values = OPEN | {'library.directory': str(tmp_path / 'library')}
    record_episodes(make_policy(values))
    again = make_policy(values, library=Library.load(tmp_path / 'library'))
    assert again.status().library_entries == 8
    assert again.drain(20)
    assert infer_all(again, make_observation, calls=1)[0].reason is Reason.CACHED


def test_recording_into_a_directory_that_cannot_be_written_is_refused_before(
    make_policy, tmp_path
):
    (tmp_path / 'file').write_text('')
    policy = make_policy({'library.directory': str(tmp_path / 'file' / 'library')})
    with pytest.raises(LibraryError, match='cannot be written'):
        policy.tune(record=True)
    policy.reset()
    assert not policy.status().recording
