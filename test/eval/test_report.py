import dataclasses
import re
from collections import Counter

import matplotlib
import numpy as np
import pytest
from fake_run import CAMERAS, make_run
from html_page import Page

from rmuscle_ros.eval.markup import spread
from rmuscle_ros.eval.plots import latency
from rmuscle_ros.eval.records import KINDS, ModelRecord, RunRecord
from rmuscle_ros.eval.report import page, write_report
from rmuscle_ros.eval.summary import latency_calls, summarise

RUN = make_run()
HTML = page(RUN, summarise(RUN))
SMALL = dataclasses.replace(RUN, episodes=[RUN.of_kind(kind)[0] for kind in KINDS])
EMPTY = RunRecord(episodes=(), model=ModelRecord('nothing'))


def without(run, **changes):
    """``run`` with the same fields of every episode replaced."""
    return dataclasses.replace(
        run, episodes=[dataclasses.replace(e, **changes) for e in run.episodes]
    )


def without_matches(run):
    """Every call dense, because nothing was calibrated."""
    changes = {
        'mode': 'dense', 'reason': 'NOT_CALIBRATED', 'similarity': None, 'drift': None,
        'vision_ms': None,
    }  # fmt: skip
    episodes = [
        dataclasses.replace(e, calls=[dataclasses.replace(c, **changes) for c in e.calls])
        for e in run.episodes
    ]
    return dataclasses.replace(run, episodes=episodes)


PARTIAL = {
    'full': SMALL,
    'empty': EMPTY,
    'no cached call': without_matches(SMALL),
    'no joints, no frames': without(SMALL, joints=None, frames=()),
    'not judged': without(SMALL, success=None, max_reward=None),
    'no calls': without(SMALL, calls=()),
    'no settings': dataclasses.replace(SMALL, settings={}, versions={}, machine={}, window=None),
}


@pytest.mark.parametrize('run', PARTIAL.values(), ids=PARTIAL.keys())
def test_page_is_well_formed_and_never_shows_a_python_none_or_nan(run):
    parsed = Page(page(run, summarise(run)))
    assert (parsed.errors, parsed.open) == ([], [])
    assert not re.search(r'\b(nan|None|NaN)\b', parsed.text.replace('None: no rejected', ''))


def test_page_needs_no_network_and_no_other_file():
    attributes = Page(HTML).attributes
    loaded = [v for _, k, v in attributes if k in ('src', 'href', 'xlink:href', 'srcset')]
    assert loaded
    assert all(value.startswith(('data:image/', '#')) for value in loaded)
    assert not re.search(r'<(script|link|iframe|object)|@import|@font-face', HTML)
    namespaces = r'xmlns(:xlink)?="http://www\.w3\.org/(1999/xlink|2000/svg)"'
    assert 'http' not in re.sub(namespaces, '', HTML)


def test_ids_are_unique_and_every_reference_finds_one():
    ids = Counter(v for _, k, v in Page(HTML).attributes if k == 'id')
    used = set(re.findall(r'(?:url\(#|href="#)([\w.-]+)', HTML))
    assert max(ids.values()) == 1
    assert used
    assert used <= set(ids)


def test_every_colour_of_a_figure_follows_the_theme():
    assert '#0102' not in HTML
    names = set(re.findall(r'var\((--[\w-]+)\)', HTML))
    defined = set(re.findall(r'(--[\w-]+):', HTML))
    assert {'--dense', '--cached', '--ink'} <= names <= defined


def test_drawing_leaves_the_global_matplotlib_settings_alone():
    before = dict(matplotlib.rcParams)
    page(SMALL, summarise(SMALL))
    assert dict(matplotlib.rcParams) == before


def test_same_run_gives_the_same_page():
    assert page(SMALL, summarise(SMALL)) == page(SMALL, summarise(SMALL))


def test_text_of_the_run_is_escaped():
    evil = '<script>alert("x")</script>'
    run = dataclasses.replace(
        without(SMALL, task=evil, note=evil),
        incidents=[evil],
        settings={**RUN.settings, evil: evil},
        model=ModelRecord(evil, note=evil),
        started=evil,
    )
    text = page(run, summarise(run))
    assert '<script' not in text
    assert '&lt;script&gt;' in text


def test_headline_numbers_are_those_of_the_summary():
    summary, text = summarise(RUN), Page(HTML).text.replace('\xa0', ' ')
    assert f'{summary["speedup_p50"]:.2f} × faster' in text
    assert f'{summary["ratio_prefill_denoise_p50"]:.0%}'.replace('%', ' % of dense') in text
    assert '0 of 5' in text
    assert '0 % to 43 %' in text
    step = max(e['boundary_step_rad'] for e in summary['episodes'] if e['kind'] == 'cached')
    assert f'{step:.3f} rad' in text


def test_what_cached_calls_compute_is_said():
    summary, text = summarise(RUN), Page(HTML).text.replace('\xa0', ' ')
    mean = f'{summary["recomputed"]["mean"]:.0%}'.replace('%', ' %')
    assert mean in text
    assert 'chosen by the guard, error budget 0.02; 1 call over it ran densely' in text
    assert 'denoising steps 0, 3, 8 of 10 in full, the others skipped' in text
    fixed = dataclasses.replace(
        SMALL, settings={'guard': False, 'anchors': [0, 5], 'rho_n': 0.5, 'drift_fence': False}
    )
    text = Page(page(fixed, summarise(fixed))).text.replace('\xa0', ' ')
    assert 'a fixed share, without the guard' in text
    assert 'steps 0, 5 in full, 50 % of the neurons in the others' in text
    assert 'fence 1: dense above' not in text


def test_slower_than_dense_is_said_and_not_hidden():
    summary = {**summarise(SMALL), 'speedup_p50': 0.8}
    assert '1.25 × slower' in Page(page(SMALL, summary)).text


def test_an_untrained_policy_and_unsuccessful_references_are_said():
    text = Page(HTML).text
    assert 'untrained: success is not expected' in text
    assert '3 recorded episodes entered the library without a confirmed success' in text
    trained = dataclasses.replace(SMALL, model=ModelRecord('m', trained=True))
    assert 'success is not expected' not in page(trained, summarise(trained))


def test_fences_are_drawn_with_their_values_where_they_are_known():
    assert HTML.count('fence 0.80: dense below') == 5
    assert HTML.count('fence 1: dense above') == 5
    unknown = dataclasses.replace(SMALL, settings={})
    assert 'dense below' not in page(unknown, summarise(unknown))


def test_film_strip_has_every_camera_and_says_which_picture_is_missing():
    assert all(HTML.count(f'>{camera}<') == 2 for camera in CAMERAS)
    assert HTML.count('src="data:image/jpeg') == 2 * len(CAMERAS) * 8
    first = RUN.of_kind('cached')[0]
    lost = [dataclasses.replace(first.frames[0], images={}), *first.frames[1:]]
    run = dataclasses.replace(RUN, episodes=[dataclasses.replace(first, frames=lost)])
    assert page(run, summarise(run)).count('src="data:image/jpeg') == len(CAMERAS) * 7


def test_missing_data_reads_no_data_and_never_zero():
    text = Page(page(EMPTY, summarise(EMPTY))).text.replace('\xa0', ' ')
    assert text.count('no data') > 20
    assert not re.search(r'\b0(\.0+)? (ms|rad|%)', text)


def test_a_joint_lost_for_the_whole_episode_does_not_stop_the_page():
    first = RUN.of_kind('cached')[0]
    gone = np.full_like(first.joints.commanded, np.nan)
    trace = dataclasses.replace(first.joints, commanded=gone, measured=gone)
    run = dataclasses.replace(RUN, episodes=[dataclasses.replace(first, joints=trace)])
    assert 'no data' in page(run, summarise(run))


def test_a_joint_name_is_never_read_as_a_formula():
    first = RUN.of_kind('cached')[0]
    names = tuple(f'$joint_{i}$' for i in range(len(first.joints.joint_names)))
    trace = dataclasses.replace(first.joints, joint_names=names)
    run = dataclasses.replace(RUN, episodes=[dataclasses.replace(first, joints=trace)])
    assert re.search(r'>\$joint_\d+\$, rad</text>', page(run, summarise(run)))


def test_of_very_many_calls_only_some_are_drawn():
    calls = {kind: latency_calls(RUN, kind) * 50 for kind in ('dense', 'cached')}
    assert len(calls['dense']) == 1600
    marks = latency(calls).count('<use')
    assert 2000 < marks < 4500


def test_an_outlier_is_counted_rather_than_allowed_to_squeeze_the_plot():
    first = SMALL.of_kind('dense')[0]
    slow = [dataclasses.replace(first.calls[0], total_ms=9000.0), *first.calls[1:]]
    episodes = [SMALL.of_kind('cached')[0], dataclasses.replace(first, calls=slow)]
    run = dataclasses.replace(SMALL, episodes=episodes)
    assert '1 beyond, up to 9000 ms' in page(run, summarise(run))


def test_a_long_evaluation_stays_a_small_file(tmp_path):
    run = dataclasses.replace(RUN, episodes=list(RUN.episodes) * 12)
    path = tmp_path / 'out' / 'report.html'
    write_report(run, summarise(run), path)
    assert path.stat().st_size < 3e6
    assert '12 of 60 drawn' in Page(path.read_text(encoding='utf-8')).text


@pytest.mark.parametrize(
    ('n', 'most', 'expected'), [(0, 3, []), (2, 3, [0, 1]), (9, 3, [0, 4, 8]), (5, 1, [0])]
)
def test_spread_takes_both_ends(n, most, expected):
    assert spread(n, most) == expected
