"""Processes share a batch; what they add up to is the batch's gradient."""

import os
import signal

import pytest
import torch

from rmuscle_ros.errors import ProcessError
from rmuscle_ros.train.gradients import Gradients


def gradients_of(run, step, workers):
    """name -> gradient of one step; the run's own optimiser is not used."""
    state = run.state
    threads = torch.get_num_threads()
    with Gradients(state.model, state.head, run.samples, run.settings, workers) as gradients:
        losses = gradients.backward(step)
    assert torch.get_num_threads() == threads
    found = {
        name: parameter.grad.clone()
        for name, parameter in state.parameters().items()
        if parameter.grad is not None
    }
    state.optimiser.zero_grad()
    return found, losses


@pytest.mark.parametrize('step', [0, 4], ids=['look', 'blind'])
def test_two_processes_add_up_to_one(make_run, step):
    run = make_run()
    alone, losses = gradients_of(run, step, workers=1)
    shared, shared_losses = gradients_of(run, step, workers=2)
    assert alone.keys() == shared.keys()
    scale = max(float(gradient.abs().max()) for gradient in alone.values())
    for name, gradient in alone.items():
        torch.testing.assert_close(shared[name], gradient, rtol=0.05, atol=0.02 * scale)
    assert shared_losses['cube'] == pytest.approx(losses['cube'], rel=0.02)


def test_phases_train_tower_then_prefix_then_everything(make_run):
    run = make_run()
    trained = [
        {name.split('.')[1] for name in gradients_of(run, step, 1)[0]} for step in (0, 4, 7)
    ]
    assert trained[0] == {'tower', 'score'}
    assert 'prefix_layers' in trained[1] and 'expert_layers' not in trained[1]
    assert set(gradients_of(run, 7, 1)[0]) == set(run.state.parameters())


def test_a_killed_process_is_reported(make_run):
    run = make_run()
    state = run.state
    with Gradients(state.model, state.head, run.samples, run.settings, 2) as gradients:
        gradients.backward(0)
        os.kill(gradients._others[0]._process.pid, signal.SIGKILL)
        with pytest.raises(ProcessError, match='process 1 ended with code -9'):
            gradients.backward(1)


def test_an_exception_in_a_process_is_raised_here(make_run):
    run = make_run()
    state = run.state
    with Gradients(state.model, state.head, run.samples, run.settings, 2) as gradients:
        gradients._others[0].begin('not a step')
        with pytest.raises(ValueError, match='seed string'):
            gradients._others[0].finish([])
