"""Observations out of streams. Each test names the field case it pins."""

from __future__ import annotations

import pytest

from rmuscle_ros.errors import ObservationError
from rmuscle_ros.ros.sampling import JOINTS, Limits, Now, Sampler

T0_S = 100.0
LIMITS = Limits(max_image_age_s=0.3, max_joint_age_s=0.2, sync_tolerance_s=0.05)


def now(time_s: float) -> Now:
    return Now(time_s, time_s - 50.0)


def make_sampler(limits: Limits = LIMITS) -> Sampler:
    return Sampler({'high': '/high', 'wrist': '/wrist'}, '/joints', limits)


@pytest.fixture
def sampler() -> Sampler:
    return make_sampler()


def feed(sampler: Sampler, time_s: float, *, skip: tuple[str, ...] = ()) -> None:
    for name in ('high', 'wrist', JOINTS):
        if name not in skip:
            sampler.add(name, time_s, now(time_s), f'{name}@{time_s:g}')


def test_complete_observation(sampler):
    feed(sampler, T0_S)
    selection = sampler.select(now(T0_S + 0.01))
    assert selection.images == {'high': 'high@100', 'wrist': 'wrist@100'}
    assert selection.joints == 'joint_states@100'
    assert selection.stamp_s == T0_S
    assert sampler.problem(now(T0_S + 0.01)) is None


def test_source_that_never_spoke_is_named_with_its_topic(sampler):
    feed(sampler, T0_S, skip=('wrist',))
    with pytest.raises(ObservationError, match='wrist: nothing usable received on /wrist'):
        sampler.select(now(T0_S))


def test_frozen_camera_is_stale_by_header_though_messages_arrive(sampler):
    for step in range(10):
        time_s = T0_S + 0.1 * step
        sampler.add('high', T0_S + 0.001 * step, now(time_s), 'old picture')
        feed(sampler, time_s, skip=('high',))
    with pytest.raises(ObservationError, match=r'high: stamp is 0\.89 s old, allowed 0\.3 s'):
        sampler.select(now(T0_S + 0.9))


def test_dead_link_is_stale_by_arrival_though_its_stamp_is_ahead(sampler):
    for step in range(6):
        time_s = T0_S + 0.1 * step
        feed(sampler, time_s, skip=('wrist',))
    sampler.add('wrist', T0_S + 0.4, now(T0_S), 'sent with a fast clock')
    with pytest.raises(ObservationError, match=r'wrist: last received 0\.50 s ago on /wrist'):
        sampler.select(now(T0_S + 0.5))


def test_stamp_in_the_future_points_at_the_clocks(sampler):
    feed(sampler, T0_S, skip=('high',))
    sampler.add('high', T0_S + 5.0, now(T0_S), 'x')
    with pytest.raises(ObservationError, match=r'high: stamp is 5\.00 s in the future'):
        sampler.select(now(T0_S))


def test_cameras_of_different_instants_are_anchored_on_the_oldest_newest(sampler):
    """The slow camera decides the instant; the fast one gives its picture nearest to that."""
    sampler.add('wrist', T0_S, now(T0_S + 0.1), 'wrist')
    for step in range(6):
        sampler.add('high', T0_S - 0.03 + 0.033 * step, now(T0_S + 0.15), f'high {step}')
        sampler.add(JOINTS, T0_S + 0.02 * step, now(T0_S + 0.15), f'joints {step}')
    selection = sampler.select(now(T0_S + 0.15))
    assert selection.stamp_s == T0_S
    assert selection.images['high'] == 'high 1'
    assert selection.joints == 'joints 0'


def test_all_sources_are_read_anew_for_every_observation(sampler):
    feed(sampler, T0_S)
    sampler.select(now(T0_S))
    feed(sampler, T0_S + 0.1)
    assert sampler.select(now(T0_S + 0.1)).images['high'] == 'high@100.1'


@pytest.mark.parametrize('apart_s', [0.04, 0.06])
def test_source_without_a_sample_near_the_anchor_is_refused(sampler, apart_s):
    feed(sampler, T0_S, skip=('wrist',))
    sampler.add('wrist', T0_S + apart_s, now(T0_S + apart_s), 'x')
    problem = sampler.problem(now(T0_S + apart_s))
    if apart_s <= LIMITS.sync_tolerance_s:
        assert problem is None
    else:
        assert 'wrist: nearest sample is 0.060 s from high, allowed 0.05 s' in problem


def test_zero_stamp_is_flagged_and_not_used(sampler):
    feed(sampler, T0_S, skip=('wrist',))
    sampler.add('wrist', 0.0, now(T0_S), 'x')
    with pytest.raises(ObservationError, match=r'header stamp is zero.*stamp_source'):
        sampler.select(now(T0_S))


def test_zero_stamps_work_on_receipt():
    sampler = make_sampler(Limits(0.3, 0.2, 0.05, by_header=False))
    for name in ('high', 'wrist', JOINTS):
        sampler.add(name, 0.0, now(T0_S), 'x')
    assert sampler.select(now(T0_S + 0.1)).stamp_s == T0_S


def test_restart_forgets_what_was_seen_and_what_is_still_on_its_way(sampler):
    feed(sampler, T0_S)
    sampler.restart(now(T0_S + 0.05))
    assert sampler.problem(now(T0_S + 0.05))
    feed(sampler, T0_S + 0.04)
    assert sampler.problem(now(T0_S + 0.06))
    feed(sampler, T0_S + 0.07)
    assert sampler.problem(now(T0_S + 0.07)) is None


def test_measured_joints_survive_a_restart_but_not_their_age(sampler):
    feed(sampler, T0_S)
    sampler.restart(now(T0_S + 0.05))
    assert sampler.joints(now(T0_S + 0.05)) == 'joint_states@100'
    assert sampler.joints(now(T0_S + 0.3)) is None


def test_refused_messages_are_counted_and_explain_the_silence(sampler):
    feed(sampler, T0_S, skip=(JOINTS,))
    for _ in range(3):
        sampler.refuse(JOINTS, 'left_elbow is nan', now(T0_S))
    with pytest.raises(ObservationError, match='last message refused: left_elbow is nan'):
        sampler.select(now(T0_S))
    report = next(r for r in sampler.reports(now(T0_S + 1.0)) if r.name == JOINTS)
    assert (report.refused, report.last_refusal_age_s) == (3, 1.0)
    assert report.age_s is None


def test_lost_images_are_counted_by_gaps(sampler):
    for step in (*range(10), 12, 13, 17):
        sampler.add('high', T0_S + step / 30, now(T0_S + step / 30), 'x')
    reports = {report.name: report for report in sampler.reports(now(T0_S + 1.0))}
    assert reports['high'].lost == 5
    assert reports['high'].received == 13
    assert reports['wrist'].lost == 0


def test_duplicates_and_late_messages_do_not_replace_newer_ones(sampler):
    feed(sampler, T0_S)
    for stamp_s in (T0_S, T0_S - 0.03):
        sampler.add('high', stamp_s, now(T0_S + 0.01), 'late')
    assert sampler.select(now(T0_S + 0.01)).images['high'] == 'high@100'


def test_stamps_that_jump_far_back_start_anew(sampler):
    feed(sampler, T0_S)
    feed(sampler, T0_S - 60.0)
    assert sampler.select(now(T0_S - 60.0)).stamp_s == T0_S - 60.0


def test_source_that_repeats_its_stamp_is_called_frozen(sampler):
    for step in range(10):
        time_s = T0_S + 0.1 * step
        sampler.add('high', T0_S, now(time_s), 'same picture')
        feed(sampler, time_s, skip=('high',))
    with pytest.raises(ObservationError, match=r'high: .*stamp 100\.000 again; .* frozen'):
        sampler.select(now(T0_S + 0.9))


def test_a_refusal_before_the_last_good_message_is_no_cause(sampler):
    sampler.refuse('high', 'unknown encoding', now(T0_S - 10.0))
    feed(sampler, T0_S)
    assert 'unknown encoding' not in sampler.problem(now(T0_S + 1.0))
    sampler.refuse('high', 'unknown encoding', now(T0_S + 0.5))
    assert 'high: last received 1.00 s ago' in sampler.problem(now(T0_S + 1.0))
    assert 'unknown encoding' in sampler.problem(now(T0_S + 1.0))


def test_a_clock_that_nobody_sets_is_named(sampler):
    feed(sampler, T0_S)
    assert 'nothing arrives on /clock' in sampler.problem(Now(0.0, 50.0))
