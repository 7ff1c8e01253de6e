"""Shadow mode without a model: which calls are rerun, and what is made of the errors."""

import numpy as np
import pytest

from rmuscle_ros.config import ShadowConfig
from rmuscle_ros.errors import PolicyError
from rmuscle_ros.memory.shadow import HISTORY, Shadow
from rmuscle_ros.types import Mode, Provenance, Reason, StageTimes

SHAPE = (7, 3)
CONFIG = ShadowConfig(every=1, window=6, warn_error=0.1)


class Bench:
    """A shadow whose jobs run when told, on a dense policy that returns its noise scaled."""

    def __init__(self):
        self.jobs, self.reruns = [], []
        self.checkpoints = 0
        self.shadow = Shadow(self.dense_actions, lambda job, doing: self.jobs.append(job))
        self.noise = np.random.default_rng(0).standard_normal(SHAPE, np.float32)

    def dense_actions(self, inputs, noise, checkpoint):
        checkpoint()
        self.reruns.append(inputs)
        return 0.5 * noise

    def call(self, number=0, error=0.0, reason=Reason.CACHED, reference='ep/3', every=1):
        """A call whose actions are off by ``error`` at every place."""
        provenance = Provenance(
            call=number,
            episode=0,
            mode=Mode.CACHED,
            reason=reason,
            detail='',
            times=StageTimes(0, 0, 0, 0, 0),
            observation_stamp_s=0.0,
            similarity=0.9,
            drift=0.4,
            reference_id=reference,
        )
        self.shadow.note(provenance, number, self.noise, 0.5 * self.noise + error, every)

    def run(self):
        for job in self.jobs:
            job(self.checkpoint)
        self.jobs.clear()

    def checkpoint(self):
        self.checkpoints += 1

    def status(self, config=CONFIG):
        return self.shadow.status(config)


@pytest.fixture
def bench():
    return Bench()


def test_without_shadows_there_are_no_figures(bench):
    status = bench.status()
    assert (status.runs, status.skipped, status.references) == (0, 0, ())
    assert {status.p50, status.p99, status.max, status.recent_p50, status.spread_p50} == {None}
    assert status.last is None and status.warning is None


def test_only_cached_calls_are_counted_and_every_nth_is_rerun(bench):
    for number, reason in enumerate([Reason.CACHED, Reason.FALLBACK_DRIFT, Reason.NO_REFERENCE]):
        bench.call(number, reason=reason, every=3)
    for number in range(3, 9):
        bench.call(number, every=3)
        bench.run()
    # The cached calls are 0, 3, 4, 5, 6, 7, 8; a fresh spread reruns its call once more.
    assert sorted(set(bench.reruns)) == [4, 7]
    assert bench.status().runs == 2


def test_zero_switches_it_off(bench):
    for number in range(20):
        bench.call(number, every=0)
    assert not bench.jobs


def test_a_planted_error_is_found(bench):
    bench.call(12, error=0.03)
    bench.run()
    last = bench.status().last
    assert (last.call, last.reference_id, last.similarity, last.drift) == (12, 'ep/3', 0.9, 0.4)
    assert last.error == pytest.approx(0.03, abs=1e-6)
    assert last.largest == pytest.approx(0.03, abs=1e-6)


def test_error_is_the_mean_and_largest_the_maximum_over_the_chunk(bench):
    error = np.zeros(SHAPE, np.float32)
    error[2, 1] = -0.42
    bench.call(error=error)
    bench.run()
    last = bench.status().last
    assert last.error == pytest.approx(0.42 / error.size, rel=1e-5)
    assert last.largest == pytest.approx(0.42, rel=1e-5)


def test_the_callers_noise_may_be_drawn_into_again(bench):
    bench.call()
    bench.noise[:] = 9.0
    bench.run()
    assert bench.status().last.error < 1e-6


def test_one_call_waits_at_most_and_the_newest_wins(bench):
    for number in range(5):
        bench.call(number)
    assert len(bench.jobs) == 1
    bench.run()
    assert set(bench.reruns) == {4}
    assert (bench.status().runs, bench.status().skipped) == (1, 4)
    bench.call(5)
    bench.run()
    assert bench.status().last.call == 5 and bench.status().skipped == 4


def test_a_call_that_comes_during_a_rerun_waits_for_its_end(bench):
    bench.call(1)
    (job,) = bench.jobs
    job(lambda: bench.call(2) if len(bench.jobs) == 1 and bench.reruns else None)
    assert bench.status().last.call == 1 and bench.status().skipped == 0
    bench.jobs[1](bench.checkpoint)
    assert bench.status().last.call == 2


def test_spread_is_what_two_noise_draws_differ_by(bench):
    bench.shadow._random = np.random.default_rng(1)
    for number in range(40):
        bench.call(number)
        bench.run()
    # Half the mean distance of two standard normal numbers, 2 / sqrt(pi).
    assert bench.status().spread_p50 == pytest.approx(0.5 * 1.128, abs=0.1)
    assert 40 < len(bench.reruns) < 50, 'the spread costs a second run now and then only'


def test_figures_are_of_the_shadows_and_none_where_they_are_too_few(bench):
    for number in range(99):
        bench.call(number, error=0.01 * (number < 90))
        bench.run()
    status = bench.status()
    assert status.p50 == pytest.approx(0.01, abs=1e-6)
    assert status.recent_p50 < 1e-6, 'the median of the window alone'
    assert status.p99 is None
    bench.call(99, error=0.2)
    bench.run()
    assert bench.status().p99 is not None
    assert bench.status().max == pytest.approx(0.2, abs=1e-6)


def test_history_is_bounded(bench):
    for number in range(HISTORY + 10):
        bench.call(number, error=0.5 if number < 10 else 0.0)
        bench.run()
    assert bench.status().runs == HISTORY + 10
    assert bench.status().max < 1e-6


def test_errors_are_told_apart_by_reference_episode_worst_first(bench):
    for number in range(8):
        bench.call(number, error=0.3 if number % 4 == 0 else 0.02, reference=f'ep{number % 4}/7')
        bench.run()
    references = bench.status().references
    assert references[0].episode_id == 'ep0'
    assert references[0].p50 == pytest.approx(0.3, abs=1e-6)
    assert [reference.count for reference in references] == [2, 2, 2, 2]


def test_a_reference_episode_without_a_median_comes_last(bench):
    bench.call(0, error=0.9, reference='single/0')
    for number in (1, 2):
        bench.call(number, error=0.01, reference='double/0')
        bench.run()
    assert [r.episode_id for r in bench.status().references] == ['double']
    bench.call(3, error=0.9, reference='single/0')
    bench.run()
    references = bench.status().references
    assert [r.episode_id for r in references] == ['double', 'single']
    assert references[1].p50 is None and references[1].max == pytest.approx(0.9, abs=1e-6)


def warn(bench, errors, references=('ep',)):
    for number, error in enumerate(errors):
        bench.call(number, error=error, reference=f'{references[number % len(references)]}/0')
        bench.run()
    return bench.status().warning


def test_a_rising_median_warns_and_says_what_to_do(bench):
    text = warn(bench, [0.05] * 20 + [0.2] * 6)
    assert 'the last 6 shadowed calls by 0.200' in text
    assert 'shadow.warn_error is 0.1' in text and 'two noise draws of the policy differ' in text
    assert 'record new ones' in text


def test_few_shadows_and_single_outliers_do_not_warn(bench):
    assert warn(bench, [0.9] * 4) is None
    assert warn(Bench(), [0.02, 0.9, 0.02] * 4) is None


def test_the_warning_ends_when_the_errors_fall(bench):
    assert warn(bench, [0.2] * 8) is not None
    assert warn(bench, [0.01] * 6) is None


def test_one_stale_reference_episode_warns_though_the_others_hide_it(bench):
    text = warn(bench, [0.3, 0.01, 0.01] * 5, references=('old', 'new', 'newer'))
    assert 'calls served by old (0.300 over 5)' in text
    assert 'the last' not in text and 'new (' not in text


def test_the_threshold_is_live(bench):
    warn(bench, [0.2] * 8)
    assert bench.status(ShadowConfig(warn_error=0.3)).warning is None


def test_actions_that_are_not_finite_are_an_error_not_a_figure(bench):
    bench.dense_actions = bench.shadow._dense_actions = lambda *_: np.full(SHAPE, np.nan)
    bench.call(7)
    with pytest.raises(PolicyError, match='dense rerun of call 7 gave actions that are not fin'):
        bench.run()
    assert bench.status().runs == 0
