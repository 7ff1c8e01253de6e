"""The whole command on the station, with a miniature model whose weights are untrained."""

import copy
import json

import pytest
from tiny_fixtures import MINI, strong

from rmuscle_ros import cli
from rmuscle_ros.eval import markup
from rmuscle_ros.eval.characterise import readings, study
from rmuscle_ros.eval.characterise.page import page
from rmuscle_ros.models import registry
from rmuscle_ros.models.tiny_init import untrained

COMMAND = ['eval', 'characterise']
TINY_RUN = [*COMMAND, '--admit', 'all', '--references', '2', '--tests', '1', '--seed', '700000']


@pytest.fixture(scope='module', autouse=True)
def short_episodes():
    """A model that loads at once; its chunks of 7 rows give 11 calls in 75 control steps."""
    model = strong(untrained(3, MINI))
    loaded = registry.LoadedModel(model, 'mini', 'mini-fingerprint', False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, 'load_model', lambda checkpoint, seed: loaded)
        patch.setattr('rmuscle_ros.rollout.TIME_FACTOR', 0.3)
        yield


@pytest.fixture(scope='module')
def written(tmp_path_factory):
    """(directory, terminal output) of one run."""
    directory = tmp_path_factory.mktemp('characterise') / 'new'
    files = ['--json', str(directory / 'c.json'), '--html', str(directory / 'c.html')]
    assert cli.main([*TINY_RUN, *files]) == 0
    return directory


@pytest.fixture
def result(written):
    return json.loads((written / 'c.json').read_text())


def test_every_observation_is_in_the_json(result):
    assert result['settings']['other_task'] == 'lift_cube'
    assert result['episodes']['references']['scenes'] == [500000, 500001]
    assert result['episodes']['tests']['scenes'] == [700000]
    assert result['episodes']['other']['scenes'] == [700001]
    assert result['served'] == [11, 11]
    curves = result['context']['curves']['norm']
    assert set(curves['drift']['layers']) == {'prefix 0', 'prefix 1'}
    for best, other in zip(curves['change']['mean'], curves['drift']['mean'], strict=True):
        assert 0 <= other <= best + 1e-9 <= 1 + 1e-9
    for sources in result['action']['curves'].values():
        for curve in sources.values():
            assert curve['mean'][0] == 0 and curve['mean'][-1] == 1
            for best, other in zip(sources['oracle']['mean'], curve['mean'], strict=True):
                assert other <= best + 1e-6
    assert set(result['overlap']['kinds']) == set(readings.KINDS)
    assert len(result['similarity']['kinds']['same_task']['calls']) == 11


def test_the_page_has_every_figure_and_reading(result, written):
    html = (written / 'c.html').read_text()
    assert html == page(result)
    assert html.count('<svg') == 8
    for name in ('context', 'action', 'overlap', 'similarity', 'flops'):
        reading, *explanation = getattr(readings, name)(result)
        assert markup.paragraph(reading) in html
        assert markup.paragraph(*explanation, kind='note') in html
    for rows in readings.layer_rows(result):
        for label, layers in rows.items():
            assert markup.table(['', *layers], []).split('<tbody>')[0] in html
            assert f'<td>{markup.text(label)}</td>' in html
    assert 'untrained' in html
    assert 'nan' not in html
    assert 'http://' not in html.replace('http://www.w3.org', '')


def test_the_same_seed_gives_the_same_result(result, written, capsys):
    again = written / 'again.json'
    assert cli.main([*TINY_RUN, '--json', str(again)]) == 0
    assert json.loads(again.read_text()) == result
    out = capsys.readouterr().out
    assert 'mini, transfer_cube: 1 test episode against 2 reference episodes; 11 of 11' in out
    for title, rows in readings.summary_rows(result).items():
        assert title in out
        for label, here, paper in rows:
            assert any(
                line.split() == f'{label} {here} {paper}'.split() for line in out.splitlines()
            )


def with_share(result, share):
    changed = copy.deepcopy(result)
    changed['context']['at_rho_p']['norm']['drift']['mean'] = share
    return readings.context(changed)[0]


def test_readings_follow_the_numbers(result):
    assert with_share(result, 0.61) == (
        'The top 40 % of the image rows by input drift hold 61 % of the FFN output change here; '
        '80 % in the paper, 19 points more.'
    )
    assert with_share(result, 0.812).endswith('80 % in the paper, 1 point less.')
    assert with_share(result, 0.8).endswith('80 % in the paper, the same.')


def test_figures_and_differences_add_up(result):
    result['action']['at_rho_n']['contribution']['reference']['mean'] = 0.79688
    text = readings.action(result)[0]
    assert 'keep 79.7 % of the contribution here; 84.4 % in the paper, 4.7 points more' in text


def test_missing_pairs_read_no_data(result):
    result['overlap']['kinds']['other_noise']['contribution'] = None
    result['overlap']['kinds']['match']['contribution'] = None
    assert 'no data' in page(result)
    assert ('same call, other noise', 'no data', '–') in readings.summary_rows(result)[
        'important neurons shared with'
    ]


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--references', '1'], 'found 1 references'),
        (['--tests', '0'], '0 tests'),
        (['--seed', '-1'], 'from scene -1 on'),
        (['--seed', '499990', '--tests', '6'], 'test scenes 499990 to 500001, expected none of'),
        (['--json', 'c', '--html', 'c'], 'the same file for json and html'),
        (['--seed', '500007'], 'expected none of the reference scenes 500000 to 500031'),
    ],
)
def test_bad_options_are_refused(words, message, capsys):
    assert cli.main([*COMMAND, *words]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_refused_before_the_run(tmp_path, capsys):
    (tmp_path / 'file').touch()
    for path, message in (
        (tmp_path / 'file' / 'c.json', 'cannot be written'),
        (tmp_path, 'a directory'),
    ):
        assert cli.main([*COMMAND, '--json', str(path)]) == 2
        assert message in capsys.readouterr().err


def test_references_that_resemble_no_other_give_no_fence(capsys, monkeypatch):
    monkeypatch.setattr(study, 'CALIBRATION_SIMILARITY', 1.01)
    assert cli.main(TINY_RUN) == 2
    assert 'no two reference episodes that resemble each other' in capsys.readouterr().err


def test_a_policy_without_successes_gives_no_references(capsys, monkeypatch):
    monkeypatch.setattr(study, 'MOST_REFERENCE_TRIES', 1)
    assert cli.main([*COMMAND, '--references', '2', '--tests', '1']) == 2
    assert 'found 0 successes in 2 episodes of transfer_cube' in capsys.readouterr().err
