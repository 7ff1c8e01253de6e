"""What the node needs to know beside the policy: topics, joints, timing and what to do on trouble.

No rclpy here: ``parameters`` declares these fields, and the checks run wherever numpy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rmuscle_ros.config import hint, option
from rmuscle_ros.errors import ConfigError
from rmuscle_ros.types import PolicyInfo


@dataclass(frozen=True)
class Controller:
    """One trajectory controller; its fields are the parameters ``controllers.<name>.…``."""

    topic: str = option('', 'JointTrajectory topic of this controller.')
    joints: tuple[str, ...] = option((), 'Joints this controller moves, by name.')


@dataclass(frozen=True)
class ControllerList:
    names: tuple[str, ...] = option(
        (), 'Controllers that receive trajectories; each has controllers.<name>.topic and .joints.'
    )


@dataclass(frozen=True)
class EpisodeSettings:
    timeout_s: float = option(
        0.0,
        'An episode ends after this long, for stations that loop untold; 0: never.',
        minimum=0.0,
    )
    home_tolerance_rad: float = option(
        0.0,
        'An episode ends when all joints are back within this distance of where it began, after '
        'one of them was twice as far away; 0: never.',
        minimum=0.0,
        maximum=1.0,
    )


@dataclass(frozen=True)
class NodeSettings:
    cameras: tuple[str, ...] = option((), 'Cameras of the policy, by name.')
    camera_topics: tuple[str, ...] = option((), 'Image topic of each camera, in the same order.')
    compressed: bool = option(
        False, 'Camera topics carry sensor_msgs/CompressedImage (JPEG or PNG) instead of Image.'
    )
    joint_states_topic: str = option('joint_states', 'JointState topic with all policy joints.')
    instruction: str = option(
        '', 'Instruction until one arrives on ~/instruction; without any the arm does not move.'
    )
    execution_horizon: int = option(
        25,
        'Rows (control periods) of each chunk that are executed before the next one takes over; '
        'less when the chunk ends earlier. The rows after them bridge a late chunk.',
        minimum=1,
        live=True,
    )
    blend_rows: int = option(
        5,
        'Rows over which a new chunk is blended with the one still running.',
        minimum=0,
        maximum=50,
    )
    max_image_age_s: float = option(
        0.3, 'Oldest image used, s, by header stamp and by time of arrival.', minimum=0.001
    )
    max_joint_age_s: float = option(
        0.2, 'Oldest joint state used, s, by header stamp and by time of arrival.', minimum=0.001
    )
    sync_tolerance_s: float = option(
        0.05, 'Most time between the parts of one observation, s.', minimum=0.0
    )
    stamp_source: str = option(
        'header',
        'When an observation was taken: by the header stamp, or on receipt (drivers that leave '
        'the stamp zero or use another clock).',
        choices=('header', 'receive'),
    )
    sensor_reliability: str = option(
        'best_effort',
        'Reliability of the sensor subscriptions; best_effort matches every publisher.',
        choices=('best_effort', 'reliable'),
    )
    sensor_depth: int = option(
        1, 'Queue depth of the sensor subscriptions.', minimum=1, maximum=100
    )
    starvation_timeout_s: float = option(
        1.0, 'Without a usable observation for this long the arm holds, s.', minimum=0.05
    )
    on_rebuild_error: str = option(
        'hold',
        'When the rebuild thread has died: hold the arm, or go on with every call dense.',
        choices=('hold', 'dense'),
    )
    allow_cpu: bool = option(
        False, 'Accept that engine.device auto found no GPU; false: configure fails then.'
    )
    hold_time_s: float = option(
        0.1, 'Time a hold command gives the arm to come to rest, s.', minimum=0.001, maximum=5.0
    )
    join_timeout_s: float = option(
        3.0, 'How long deactivate waits for a call in flight, s.', minimum=0.1, maximum=60.0
    )
    status_rate_hz: float = option(2.0, 'Rate of ~/status, Hz.', minimum=0.1, maximum=50.0)
    hardware_id: str = option('none', 'hardware_id of the diagnostics, such as a serial number.')
    episode: EpisodeSettings = field(default_factory=EpisodeSettings)
    controllers: ControllerList = field(default_factory=ControllerList)


@dataclass(frozen=True)
class Wiring:
    """Node settings together with the controllers they name."""

    settings: NodeSettings
    controllers: dict[str, Controller]

    def camera_topics(self) -> dict[str, str]:
        return dict(zip(self.settings.cameras, self.settings.camera_topics, strict=True))


def check_wiring(wiring: Wiring) -> None:
    """Raise ConfigError when the settings contradict each other. Needs no policy."""
    settings = wiring.settings
    if not settings.cameras:
        raise ConfigError('cameras: found an empty list, expected the names of the policy cameras')
    _unique('cameras', (*settings.cameras, 'joint_states'))
    found, expected = len(settings.camera_topics), len(settings.cameras)
    if found != expected:
        raise ConfigError(
            f'camera_topics: found {found} topics, expected one for each of the {expected} '
            f'cameras ({", ".join(settings.cameras)})'
        )
    _unique('camera_topics', settings.camera_topics)
    if not wiring.controllers:
        raise ConfigError('controllers.names: found an empty list, expected at least one name')
    for name, controller in wiring.controllers.items():
        if not controller.topic:
            raise ConfigError(f'controllers.{name}.topic: not set; give its JointTrajectory topic')
        if not controller.joints:
            raise ConfigError(f'controllers.{name}.joints: not set; list the joints it moves')
    _unique('controllers', [c.topic for c in wiring.controllers.values()])
    _unique('controllers', [j for c in wiring.controllers.values() for j in c.joints])


def check_fit(wiring: Wiring, info: PolicyInfo) -> None:
    """Raise ConfigError when the settings do not fit the policy that was loaded."""
    settings = wiring.settings
    _same_names('cameras', settings.cameras, info.cameras)
    joints = [joint for controller in wiring.controllers.values() for joint in controller.joints]
    _same_names('controllers.*.joints', joints, info.joint_names)
    check_horizon(settings.execution_horizon, info)
    if settings.blend_rows >= info.horizon:
        raise ConfigError(
            f'blend_rows: found {settings.blend_rows}, expected fewer than the {info.horizon} '
            'rows of a chunk'
        )


def check_horizon(rows: int, info: PolicyInfo) -> None:
    """Raise ConfigError when more rows should be executed than a chunk has."""
    if rows > info.horizon:
        raise ConfigError(
            f'execution_horizon: found {rows} rows, expected at most the {info.horizon} rows '
            f'({info.horizon * info.period_s:g} s at {info.period_s:g} s each) of a chunk'
        )


def check_device(device: str, requested: str, allow_cpu: bool) -> None:
    """Raise ConfigError when the policy runs on a CPU although nobody asked for that."""
    if device.startswith('cpu') and requested != 'cpu' and not allow_cpu:
        raise ConfigError(
            f'engine.device: found no GPU, {requested} became cpu; make the GPU visible, or set '
            'allow_cpu to true or engine.device to cpu'
        )


def _unique(key: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f'{key}: found {", ".join(twice)} more than once, expected each once')


def _same_names(key: str, found: Sequence[str], expected: Sequence[str]) -> None:
    for name in found:
        if name not in expected:
            raise ConfigError(
                f'{key}: the policy knows no {name!r}{hint(name, expected)}; it has '
                f'{", ".join(expected)}'
            )
    missing = [name for name in expected if name not in found]
    if missing:
        raise ConfigError(f'{key}: the policy also needs {", ".join(missing)}; add them')
