"""What an export writes can be loaded, and says how it was made."""

import dataclasses

import pytest
import torch
from training_fixtures import MINI

from rmuscle_ros.errors import CheckpointError
from rmuscle_ros.models.registry import load_model
from rmuscle_ros.rollout import Rollout
from rmuscle_ros.train.card import model_card
from rmuscle_ros.train.evaluation import TaskResult
from rmuscle_ros.train.export import export, export_weights


@pytest.fixture
def trained(make_run, tmp_path):
    run = make_run(seed=4, validation=1)
    run.train()
    return run


def test_averaged_weights_and_statistics_are_shipped_in_fp16(trained, tmp_path):
    export_weights(trained.directory, tmp_path / 'out')
    loaded = load_model(str(tmp_path / 'out'), seed=0)
    assert loaded.trained and loaded.model.config == MINI
    for name, tensor in trained.state.ema.state_dict().items():
        torch.testing.assert_close(
            loaded.model.state_dict()[name], tensor.half().float(), rtol=0, atol=0
        )
    assert 'head' not in ''.join(loaded.model.state_dict())


def test_the_card_of_an_unmeasured_export_says_so(trained, tmp_path):
    card = export(trained.directory, tmp_path / 'mini', range(0))
    assert (tmp_path / 'mini' / 'MODEL_CARD.md').read_text() == card
    assert 'Not measured.' in card
    assert 'Time of all steps: 0.0 h.' in card
    assert '20 optimiser steps of 10 observations' in card
    assert 'rmuscle train data out/data --transfer 5 --lift 2' in card
    assert '--batch 10' in card and '--seed 4' in card and '--draws' not in card
    assert 'rmuscle train export out/run out/mini' in card


def test_the_card_states_intervals_and_failed_seeds(trained, tmp_path):
    metadata = export_weights(trained.directory, tmp_path)
    good = Rollout('lift_cube', 0, True, 2, 120, 5)
    rollouts = tuple(dataclasses.replace(good, seed=s, success=s != 7) for s in range(50))
    card = model_card(tmp_path, metadata, [TaskResult('lift_cube', rollouts)], [{'look_r': 0.97}])
    assert '| lift_cube | 0–49 | 49 of 50 | 89.5% to 99.6% | 50 | 7 |' in card
    assert 'kept out of training: 0.970' in card


def test_an_export_without_a_run_or_onto_a_full_disk_is_refused(trained, tmp_path, full_disk):
    with pytest.raises(CheckpointError, match='train first'):
        export_weights(tmp_path / 'nowhere', tmp_path / 'out')
    export_weights(trained.directory, tmp_path / 'out')
    before = (tmp_path / 'out' / 'model.safetensors').read_bytes()
    with full_disk(), pytest.raises(CheckpointError, match='cannot write the checkpoint'):
        export_weights(trained.directory, tmp_path / 'out')
    assert (tmp_path / 'out' / 'model.safetensors').read_bytes() == before
