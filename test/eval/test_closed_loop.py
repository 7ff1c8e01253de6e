"""Modes take turns on equal terms; what is finished survives an interruption."""

import types

import numpy as np
import pytest
from fake_station import SMALL_INFO, FakeActor, FakeOracle, FakeStation

from rmuscle_ros.errors import ConfigError, RebuildError
from rmuscle_ros.eval import closed_loop
from rmuscle_ros.eval.closed_loop import ClosedLoop, Request, compare, rotated
from rmuscle_ros.eval.modes import MODES

NAMES = ('dense', 'rmuscle', 'fewer_steps')
SEEDS = range(4)


def make_loop(events=None, station=None, **actors):
    """A loop over NAMES; actors: the actor of a mode, instead of one whose error is 0."""
    events = [] if events is None else events
    made = {name: actors.get(name) or FakeActor(name, events) for name in NAMES}
    modes = [MODES[name] for name in NAMES]
    return ClosedLoop(station or FakeStation(9.0), made, modes, FakeOracle(events))


def noises(events, name):
    return [noise for who, what, noise in events if who == name and what == 'infer']


def test_every_mode_is_given_the_same_noise():
    events = []
    make_loop(events).run(SEEDS)
    dense, *others = (noises(events, name) for name in NAMES)
    # 100 control steps, a call every 25, executed 6 rows at a time
    assert len(dense) == len(SEEDS) * 17
    for other in others:
        # Scenes come in the same order for all, whatever the order of the modes within one.
        assert all(map(np.array_equal, dense, other))
    assert not np.array_equal(dense[0], dense[1])
    assert not np.array_equal(dense[0], dense[17])


def test_modes_take_turns_and_each_is_first_as_often():
    events = []
    make_loop(events).run(SEEDS)
    order = [who for who, what, _ in events if what == 'reset']
    assert order[:6] == ['dense', 'rmuscle', 'fewer_steps', 'rmuscle', 'fewer_steps', 'dense']
    firsts = [rotated(NAMES, number)[0] for number in range(6)]
    assert firsts == [*NAMES, *NAMES]


def test_the_error_is_measured_on_every_call_of_the_other_modes_only():
    loop = make_loop(rmuscle=FakeActor('rmuscle', offset=0.25))
    loop.run(SEEDS)
    for scene in loop.scenes:
        assert {call.error for call in scene['dense'].calls} == {None}
        assert [call.error for call in scene['rmuscle'].calls] == pytest.approx([0.25] * 17)
        assert {call.error for call in scene['fewer_steps'].calls} == {0.0}


def test_the_background_is_idle_before_a_call_is_checked_and_before_the_next_mode_begins():
    events = []
    make_loop(events).run([3])
    steps = [(who, what) for who, what, _ in events]
    for number, step in enumerate(steps):
        if step == ('oracle', 'error'):
            assert steps[number - 1][1] == 'drain'
        if step[1] == 'end':
            assert steps[number + 1] == (step[0], 'drain')


def test_the_spread_is_that_of_dense_answers_with_other_noise():
    events = []
    loop = make_loop(events)
    loop.run(SEEDS)
    others = [noise for _, what, noise in events if what == 'spread']
    # every third of 4 * 17 dense calls
    assert len(loop.spread) == len(others) == 23
    assert min(loop.spread) > 0.3
    assert not any(np.array_equal(others[0], noise) for noise in noises(events, 'dense'))
    again = make_loop()
    again.run(SEEDS)
    assert again.spread == loop.spread


@pytest.mark.parametrize(
    ('latency_ms', 'rebuild_ms', 'missed'),
    [(10.0, 489.0, False), (10.0, 491.0, True), (400.0, 99.0, False), (400.0, 101.0, True)],
)
def test_a_rebuild_is_late_when_the_arm_would_have_stopped_moving(
    latency_ms, rebuild_ms, missed, monkeypatch
):
    """25 steps of 20 ms are executed per call: 500 ms, less the call itself."""
    now_s = 0.0

    def drain():
        nonlocal now_s
        now_s += rebuild_ms / 1e3
        return True

    clock = types.SimpleNamespace(perf_counter=lambda: now_s)
    monkeypatch.setattr(closed_loop, 'time', clock)
    actor = FakeActor('rmuscle', latency_ms=latency_ms, drain=drain)
    loop = make_loop(rmuscle=actor, fewer_steps=FakeActor(drain=drain))
    loop.run([0])
    for call in loop.scenes[0]['rmuscle'].calls:
        assert call.rebuild_ms == pytest.approx(rebuild_ms)
        assert call.missed is missed
    # A mode without background work has none to be late with.
    assert {call.rebuild_ms for call in loop.scenes[0]['fewer_steps'].calls} == {None}


def test_work_that_never_ends_is_an_error():
    loop = make_loop(rmuscle=FakeActor(drain=lambda: False))
    with pytest.raises(RebuildError, match='has not ended in 60 s'):
        loop.run(SEEDS)


@pytest.fixture
def stub(monkeypatch):
    """stub(**actors): ``compare`` with fakes in place of model and simulator."""

    def make(**actors):
        class Bench:
            info, trained, reference_seeds = SMALL_INFO, True, []
            library = types.SimpleNamespace(entries=0)

            def __init__(self, checkpoint):
                assert checkpoint == 'some'

            def record(self, station, count):
                self.reference_seeds = list(range(count))

            def actor(self, mode):
                return actors.get(mode.name) or FakeActor(mode.name)

            def engine(self):
                return None

            def settings(self, mode):
                return dict(mode.values)

        monkeypatch.setattr(closed_loop, 'Workbench', Bench)
        monkeypatch.setattr(closed_loop, 'AlohaStation', lambda size, task: FakeStation(9.0))
        monkeypatch.setattr(closed_loop, 'DenseOracle', lambda engine: FakeOracle())

    return make


def request(seeds=SEEDS, names=NAMES, references=2):
    return Request('some', 'lift_cube', seeds, [MODES[name] for name in names], references, 'x')


def stops_at(number, error):
    """An actor that raises ``error`` in its call ``number``."""
    actor = FakeActor('fewer_steps')
    answer = actor.infer

    def infer(observation, *, noise=None):
        if len(noises(actor.events, actor.name)) == number:
            raise error
        return answer(observation, noise=noise)

    actor.infer = infer
    return actor


def test_a_finished_run_is_published_once_and_complete(stub):
    stub()
    published = []
    compare(request(), published.append)
    (result,) = published
    assert result['complete'] is True
    assert result['seeds'] == [0, 3]
    assert result['references'] == {'seeds': [0, 1], 'entries': 0}
    assert [mode['success'][1] for mode in result['modes'].values()] == [4, 4, 4]


@pytest.mark.parametrize('error', [KeyboardInterrupt(), RebuildError('died')])
def test_an_interrupted_run_publishes_the_scenes_that_all_modes_have_ended(stub, error):
    actor = stops_at(2 * 17 + 5, error)
    stub(fewer_steps=actor)
    published = []
    with pytest.raises(type(error)):
        compare(request(), published.append)
    (result,) = published
    assert result['complete'] is False
    assert result['seeds'] == [0, 1]
    for name in NAMES:
        assert [trial['seed'] for trial in result['episodes'][name]] == [0, 1]
    assert actor.events[-1][1] == 'close'


def test_nothing_is_published_when_no_scene_was_finished(stub):
    stub(fewer_steps=stops_at(0, KeyboardInterrupt()))
    published = []
    with pytest.raises(KeyboardInterrupt):
        compare(request(), published.append)
    assert published == []


def test_a_scene_must_not_be_its_own_reference(stub):
    stub()
    for seeds in (range(499_995, 500_001), range(500_007, 500_009)):
        with pytest.raises(ConfigError, match='expected none of 500000 to 500007'):
            compare(request(seeds), print)
    published = []
    compare(request(range(500_008, 500_009)), published.append)
    compare(request(range(500_000, 500_001), ('dense', 'fewer_steps')), published.append)
    assert len(published) == 2
