"""Fixtures of the core tests: a miniature model, engines, inputs and policies."""

import dataclasses

import numpy as np
import pytest
import torch

from rmuscle_ros.config import PolicyConfig, with_values
from rmuscle_ros.engine.eager import EagerEngine
from rmuscle_ros.memory.library import Library
from rmuscle_ros.models.registry import LoadedModel
from rmuscle_ros.models.tiny import TinyConfig
from rmuscle_ros.models.tiny_init import untrained
from rmuscle_ros.policy import Policy
from rmuscle_ros.types import ModelInputs, Observation

# Odd sizes on purpose: no dimension equals another.
MINI = TinyConfig(
    image_size=36,
    patch_size=12,
    vision_width=20,
    vision_layers=1,
    vision_heads=2,
    vision_hidden=28,
    width=24,
    hidden=88,
    layers=3,
    heads=3,
    head_width=10,
    horizon=7,
)
INSTRUCTION = 'stack the cups'


def strong(model):
    """Raise the gates, so that what the layers compute is visible in the actions."""
    for layer in model.expert_layers:
        for norm in (layer.input_norm, layer.post_attention_norm):
            norm.dense.bias[2 * norm.dense.in_features :].fill_(1.0)
    return model


@pytest.fixture
def mini_model():
    return strong(untrained(3, MINI))


@pytest.fixture
def engine(mini_model):
    return EagerEngine(mini_model, torch.device('cpu'), torch.float32, denoise_steps=10)


@pytest.fixture
def make_inputs():
    """make_inputs(scene, jitter=0): same scene, similar pictures; jitter adds pixel noise."""

    def make(scene=0, jitter=0, cameras=MINI.cameras, config=MINI):
        rng = np.random.default_rng(scene)
        shape = (len(cameras), config.image_size, config.image_size, 3)
        images = rng.integers(0, 256, shape)
        state = rng.normal(0, 0.1, len(config.joint_names))
        if jitter:
            noise = np.random.default_rng(1000 * scene + jitter)
            images = images + noise.integers(-jitter, jitter + 1, shape)
            state = state + noise.normal(0, 0.01, state.shape)
        return ModelInputs(
            np.clip(images, 0, 255).astype(np.uint8),
            cameras,
            state.astype(np.float32),
            INSTRUCTION,
        )

    return make


@pytest.fixture
def make_observation(make_inputs):
    def make(scene=0, jitter=0, instruction=INSTRUCTION, cameras=MINI.cameras, stamp_s=0.0):
        inputs = make_inputs(scene, jitter, cameras)
        return Observation(
            images=dict(zip(cameras, inputs.images, strict=True)),
            joints=dict(zip(MINI.joint_names, map(float, inputs.state), strict=True)),
            instruction=instruction,
            stamp_s=stamp_s,
        )

    return make


@pytest.fixture
def make_policy():
    """make_policy({'cache.rho_p': 0.4}, fingerprint='mini', library=None) -> Policy, closed."""
    made = []

    def make(values=None, fingerprint='mini', library=None):
        config = with_values(PolicyConfig(), values or {})
        loaded = LoadedModel(strong(untrained(3, MINI)), 'mini', fingerprint, False)
        policy = Policy(config, loaded, library if library is not None else Library())
        made.append(policy)
        return policy

    yield make
    for policy in made:
        policy.close()


@pytest.fixture
def record_episodes(make_observation):
    """record_episodes(policy, episodes=2, calls=4, **observation): dense, recorded, admitted."""

    def record(policy, episodes=2, calls=4, first_jitter=1, **observation):
        before = dataclasses.asdict(policy._config)
        policy.tune(enabled=False, record=True)
        policy.reset()
        ends = []
        for episode in range(episodes):
            for call in range(calls):
                policy.infer(make_observation(call, first_jitter + episode, **observation))
            ends.append(policy.end_episode(True))
        policy.tune(enabled=before['cache']['enabled'], record=before['library']['record'])
        policy.reset()
        assert policy.drain(20)
        return ends

    return record
