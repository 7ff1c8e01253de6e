"""The measures on planted tensors, where the right answer is known exactly."""

import math

import pytest
import torch

from rmuscle_ros.cache.scores import levels_of
from rmuscle_ros.errors import RecordError
from rmuscle_ros.eval.characterise.measure import kept, output_change, overlap, share_in_top
from rmuscle_ros.kernels.token_drift import select_rows

CHANGE = torch.tensor([4.0, 1.0, 3.0, 2.0, 0.0])


def test_size_and_energy_of_a_planted_change():
    y_ref = torch.zeros(2, 3)
    y = torch.tensor([[3.0, 0.0, 4.0], [0.0, 1.0, 0.0]])
    change = output_change(y, y_ref)
    assert change['norm'].tolist() == [5, 1]
    assert change['square'].tolist() == [25, 1]


def test_rows_ranked_by_their_change_hold_the_most():
    shares = share_in_top(CHANGE, CHANGE)
    assert shares[[0, 20, 40, 60, 80, 100]].tolist() == [0, 0.4, 0.7, 0.9, 1, 1]


def test_rows_ranked_the_wrong_way_round_hold_the_least():
    shares = share_in_top(CHANGE, -CHANGE)
    assert shares[[0, 20, 40, 60, 80, 100]].tolist() == [0, 0, 0.1, 0.3, 0.6, 1]


@pytest.mark.parametrize('percent', [0, 1, 39, 40, 41, 100])
def test_the_top_percent_are_the_rows_that_the_context_cache_recomputes(percent):
    generator = torch.Generator().manual_seed(0)
    change, drift = torch.rand(2, 73, generator=generator)
    recompute, _ = select_rows(drift, percent / 100)
    assert len(recompute) == math.ceil(0.73 * percent - 1e-9)
    share = float(change[recompute].double().sum() / change.double().sum())
    assert share_in_top(change, drift)[percent] == pytest.approx(share, abs=1e-12)


def test_rows_without_any_change_have_no_share():
    with pytest.raises(RecordError, match='same scene'):
        share_in_top(torch.zeros(5), CHANGE)


def test_masks_by_the_score_itself_keep_its_largest_parts():
    score = torch.zeros(1, 32)
    score[0, 5], score[0, 20], score[0, 30] = 6, 3, 1
    shares = kept(score, levels_of(score))[0]
    # 2 neurons per sixteenth: the first two hold 9 of 10, the next two the rest
    assert shares[:3].tolist() == pytest.approx([0, 0.9, 1])
    assert shares[-1] == 1


def test_masks_by_another_score_keep_what_they_happen_to_hold():
    score = torch.arange(32.0)[None]
    shares = kept(score, levels_of(-score))[0]
    assert shares[8].item() == pytest.approx(sum(range(16)) / sum(range(32)))


def test_equal_scores_are_kept_in_proportion():
    shares = kept(torch.ones(2, 3, 64), levels_of(torch.rand(2, 3, 64)))
    torch.testing.assert_close(shares, (torch.arange(17) / 16).expand(2, 3, 17).double())


def test_scores_of_zero_are_refused():
    with pytest.raises(RecordError, match='no neuron with a score'):
        kept(torch.zeros(1, 16), levels_of(torch.zeros(1, 16)))


def test_identical_masks_overlap_fully_and_disjoint_ones_not_at_all():
    score = torch.rand(2, 1, 3, 64, generator=torch.Generator().manual_seed(1))
    same = overlap(levels_of(score), levels_of(score), 0.5)
    assert same.shape == (2, 2, 1, 3)
    assert (same[0, 0] == 1).all() and (same[1, 1] == 1).all()
    assert (overlap(levels_of(score[:1]), levels_of(-score[:1]), 0.5) == 0).all()


@pytest.mark.parametrize('rho_n', [0.25, 0.5])
def test_random_masks_share_rho_n(rho_n):
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.rand(4, 2, 2, 1024, generator=generator) for _ in range(2))
    shared = overlap(levels_of(a), levels_of(b), rho_n)
    assert shared.mean().item() == pytest.approx(rho_n, abs=0.01)


def test_half_of_a_mask_in_common():
    a, b = torch.zeros(2, 1, 1, 1, 64)
    a[..., :32], b[..., 16:48] = 1, 1
    assert overlap(levels_of(a), levels_of(b), 0.5).item() == 0.5
