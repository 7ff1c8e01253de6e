"""Settings of the simulated station. No rclpy: ``parameters`` declares these fields."""

from __future__ import annotations

from dataclasses import dataclass

from rmuscle_ros.config import option
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.sim.tasks import TASKS

RELIABILITIES = ('best_effort', 'reliable')


@dataclass(frozen=True)
class StationConfig:
    task: str = option(
        'transfer_cube', 'What counts as success in the scene.', choices=tuple(TASKS)
    )
    seed: int = option(
        0,
        'Seed of the next episode, taken by ~/reset, which then adds one to it.',
        minimum=0,
        maximum=2**31 - 1,
        live=True,
    )
    episode_length_s: float = option(
        8.0,
        'An episode without success ends this long after its first accepted trajectory.',
        minimum=0.1,
        maximum=3600.0,
        live=True,
    )
    camera_rate_hz: float = option(
        10.0, 'Images per second and camera; rendering shares the CPU.', minimum=0.1, maximum=50.0
    )
    image_size: int = option(
        96, 'Height and width of the images, pixels.', minimum=16, maximum=1024
    )
    camera_reliability: str = option(
        'best_effort', 'Quality of service of the images.', choices=RELIABILITIES
    )
    publish_clock: bool = option(
        False, 'Publish the simulated time on /clock and stamp with it, for use_sim_time.'
    )
    real_time_factor: float = option(
        1.0,
        'Simulated seconds per second; other than 1 needs publish_clock.',
        minimum=0.05,
        maximum=20.0,
    )

    def __post_init__(self) -> None:
        if self.real_time_factor != 1.0 and not self.publish_clock:
            raise ConfigError(
                f'real_time_factor: found {self.real_time_factor:g} with publish_clock false, but '
                'then trajectories are timed by another clock than the simulation; set '
                'publish_clock to true (and use_sim_time in the other nodes), or the factor to 1'
            )
