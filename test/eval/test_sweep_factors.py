"""The table of factors holds settings that exist, each once, and the defaults among them."""

import pytest

from rmuscle_ros.config import PolicyConfig, with_values
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.eval.modes import DENSE_STEPS
from rmuscle_ros.eval.sweep.factors import (
    ANCHORS,
    DEFAULT,
    FACTORS,
    along,
    find_factors,
    plan,
)
from rmuscle_ros.eval.sweep.variants import DEFAULT_VARIANT, PAPER_VARIANT, variants
from rmuscle_ros.planning import check_settings

POINTS = [
    pytest.param(point, id=f'{factor.name} {point.label}')
    for factor in FACTORS
    for point in factor.points
]
# Their points may be around something else than the defaults.
ELSEWHERE = {'rho_p', 'rho_n_paper', 'mask_source', 'score', 'denoise_steps', 'fewer_steps'}


def test_the_factors_of_the_issue_are_there():
    assert [factor.name for factor in FACTORS] == [
        'error_budget', 'rho_p', 'anchors', 'rho_n', 'rho_n_paper', 'unselected', 'mask_source',
        'score', 'references', 'candidates', 'lookahead', 'similarity_threshold', 'drift_slack',
        'noise', 'library', 'denoise_steps', 'fewer_steps', 'preset',
    ]  # fmt: skip


@pytest.mark.parametrize('point', POINTS)
def test_every_point_is_a_configuration_that_a_policy_accepts(point):
    config = with_values(PolicyConfig(), point.values)
    check_settings(config.cache, config.engine.denoise_steps)
    assert point.references is None or point.references >= 2 or not config.cache.enabled


def test_the_default_is_a_point_of_every_factor_around_it():
    made = plan(FACTORS, references=20)
    missing = {name for name, labels in made.factors.items() if DEFAULT not in labels.values()}
    assert missing <= ELSEWHERE


def test_a_number_that_is_the_default_now_is_added_in_its_place():
    default = PolicyConfig().cache.drift_slack
    points = along('cache.drift_slack', default - 0.2, default + 0.2)
    assert [point.values['cache.drift_slack'] for point in points] == [
        default - 0.2,
        default,
        default + 0.2,
    ]
    assert len(along('cache.drift_slack', 1.1, also={'cache.guard': False})) == 1
    assert len(along('cache.noise', 'shared')) == 1


@pytest.mark.parametrize('references', [7, 20])
def test_equal_settings_are_one(references):
    made = plan(FACTORS, references)
    resolved = [
        (repr(with_values(PolicyConfig(), setting.values)), setting.references)
        for setting in made.settings.values()
    ]
    assert len(set(resolved)) == len(resolved)
    assert next(iter(made.settings)) == DEFAULT
    used = {name for labels in made.factors.values() for name in labels.values()}
    assert used == set(made.settings)
    assert made.factors['mask_source']['both'] == made.factors['rho_n']['0.5']
    assert (made.factors['library']['20'] == DEFAULT) == (references == 20)
    assert made.settings['fewer_steps 3'].references == 0


def test_the_whole_table_stays_within_its_time():
    """Half an hour on one core: 20 scenes of 1.5 s."""
    assert len(plan(FACTORS, 20).settings) + 1 <= 55


def test_anchors_begin_with_the_first_step_and_rise():
    counts = {label: int(label.split()[0]) for label in ANCHORS if label != DEFAULT}
    for label, count in counts.items():
        anchors = ANCHORS[label]
        assert len(anchors) == count
        assert anchors[0] == 0 and list(anchors) == sorted(set(anchors))
        assert anchors[-1] < DENSE_STEPS
    assert set(counts.values()) == {2, 3, 4, 5, 6}
    assert len(set(ANCHORS.values())) == len(ANCHORS)


def test_factors_are_found_by_name():
    assert find_factors('all') == list(FACTORS)
    assert [factor.name for factor in find_factors('rho_p, noise,rho_p')] == ['rho_p', 'noise']
    with pytest.raises(ConfigError, match=r"found 'rho_b' \(did you mean rho_p\?\)"):
        find_factors('noise,rho_b')


def test_the_variants_hold_the_default_and_the_published_rules():
    # What the tables below are made for; another default wants another look at them.
    assert PolicyConfig().engine.denoise_steps == DENSE_STEPS
    found = variants()
    assert found[DEFAULT_VARIANT.name] == DEFAULT_VARIANT
    paper = found[PAPER_VARIANT.name]
    assert (paper.anchors, paper.rho_n, paper.score) == ((0, 5), 0.5, 'contribution')
    assert len({tuple(v.settings().items()) for v in found.values()}) == len(found)
