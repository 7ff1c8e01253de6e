"""Messages to arrays and back. Images are read in place where their layout allows it."""

from __future__ import annotations

import array
import io
import math
from collections.abc import Mapping, Sequence

import numpy as np
from builtin_interfaces.msg import Duration, Time
from PIL import Image as Picture
from PIL import UnidentifiedImageError
from sensor_msgs.msg import CompressedImage, Image, JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rmuscle_ros.errors import ObservationError
from rmuscle_ros.msg import ActionChunk as ActionChunkMessage
from rmuscle_ros.types import ActionChunk, Mode, Provenance, Reason, StageTimes

CHANNELS = {'rgb8': 3, 'bgr8': 3, 'rgba8': 4, 'bgra8': 4, 'mono8': 1}
COMPRESSIONS = ('jpeg', 'png')


def to_seconds(stamp: Time) -> float:
    return stamp.sec + stamp.nanosec * 1e-9


def to_time(time_s: float) -> Time:
    sec, nanosec = divmod(round(time_s * 1e9), 1_000_000_000)
    return Time(sec=sec, nanosec=nanosec)


def to_duration(duration_s: float) -> Duration:
    sec, nanosec = divmod(round(duration_s * 1e9), 1_000_000_000)
    return Duration(sec=sec, nanosec=nanosec)


def check_image(message: Image) -> None:
    """Raise ObservationError when encoding, step and size of ``message`` cannot be right."""
    channels = CHANNELS.get(message.encoding)
    if channels is None:
        raise ObservationError(
            f'image encoding is {message.encoding!r}, expected one of {", ".join(CHANNELS)}'
        )
    if message.height < 1 or message.width < 1:
        raise ObservationError(f'image is {message.width}x{message.height}, expected pixels')
    if message.step < message.width * channels:
        raise ObservationError(
            f'image step is {message.step} bytes, expected at least {message.width * channels} '
            f'for {message.width} pixels of {message.encoding}'
        )
    if len(message.data) < message.step * message.height:
        raise ObservationError(
            f'image has {len(message.data)} bytes, expected {message.step * message.height} '
            f'(step {message.step} x height {message.height})'
        )


def image_array(message: Image) -> np.ndarray:
    """RGB pixels, uint8 [H, W, 3]; a view into ``message`` for rgb8."""
    check_image(message)
    channels = CHANNELS[message.encoding]
    size = message.step * message.height
    rows = np.frombuffer(message.data, np.uint8, size).reshape(message.height, message.step)
    used = rows[:, : message.width * channels]
    pixels = used.reshape(message.height, message.width, channels)
    if message.encoding == 'mono8':
        return np.repeat(pixels, 3, axis=2)
    if message.encoding.startswith('bgr'):
        return np.ascontiguousarray(pixels[..., 2::-1])
    return pixels[..., :3]


def check_compressed(message: CompressedImage) -> None:
    """Raise ObservationError for a format that :func:`compressed_array` does not decode."""
    text = message.format.lower().replace('jpg', 'jpeg')
    if 'compresseddepth' in text or not any(name in text for name in COMPRESSIONS):
        raise ObservationError(
            f'compressed image format is {message.format!r}, expected one of '
            f'{", ".join(COMPRESSIONS)}'
        )
    if not message.data:
        raise ObservationError('compressed image has no data')


def compressed_array(message: CompressedImage) -> np.ndarray:
    """RGB pixels, uint8 [H, W, 3]."""
    check_compressed(message)
    try:
        with Picture.open(io.BytesIO(message.data), formats=COMPRESSIONS) as picture:
            return np.asarray(picture.convert('RGB'))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise ObservationError(
            f'compressed image of {len(message.data)} bytes cannot be decoded as '
            f'{" or ".join(COMPRESSIONS)}: {error}'
        ) from error


def joint_positions(message: JointState, names: Sequence[str]) -> dict[str, float]:
    """Positions of the joints ``names``; others in the message are left aside.

    Raises ObservationError when a joint is missing or there twice, or its position is no finite
    number.
    """
    if len(message.position) != len(message.name):
        raise ObservationError(
            f'found {len(message.position)} positions for {len(message.name)} joint names, '
            'expected one each'
        )
    found = dict(zip(message.name, message.position, strict=True))
    missing = [name for name in names if name not in found]
    if missing:
        raise ObservationError(
            f'no joint {", ".join(missing)}; the message has {", ".join(found) or "none"}'
        )
    if len(found) < len(message.name):
        twice = [name for name in names if message.name.count(name) > 1]
        if twice:
            raise ObservationError(f'joint {", ".join(twice)} more than once, expected each once')
    wrong = [name for name in names if not math.isfinite(found[name])]
    if wrong:
        values = ', '.join(f'{name} is {found[name]}' for name in wrong)
        raise ObservationError(f'{values}; expected finite positions')
    return {name: found[name] for name in names}


def chunk_message(chunk: ActionChunk, skipped_rows: int) -> ActionChunkMessage:
    """``chunk`` with its provenance; "no data" becomes NaN or an empty string."""
    origin = chunk.provenance
    message = ActionChunkMessage()
    message.header.stamp = to_time(chunk.stamp_s)
    message.joint_names = list(chunk.joint_names)
    message.period_s = chunk.period_s
    message.horizon = chunk.horizon
    message.actions = _doubles(chunk.actions)
    message.skipped_rows = skipped_rows
    message.call = origin.call
    message.episode = origin.episode
    message.mode = origin.mode.value
    message.reason = origin.reason.value
    message.detail = origin.detail
    message.similarity = or_nan(origin.similarity)
    message.drift = or_nan(origin.drift)
    message.reference_id = origin.reference_id or ''
    message.rho_p = or_nan(origin.rho_p)
    message.rho_n = or_nan(origin.rho_n)
    message.error_estimate = or_nan(origin.error_estimate)
    for name in ('vision_ms', 'prefill_ms', 'denoise_ms', 'total_ms', 'gate_wait_ms'):
        setattr(message, name, float(getattr(origin.times, name)))
    return message


def provenance(message: ActionChunkMessage) -> Provenance:
    """What :func:`chunk_message` has written."""
    times = ('vision_ms', 'prefill_ms', 'denoise_ms', 'total_ms', 'gate_wait_ms')
    return Provenance(
        call=message.call,
        episode=message.episode,
        mode=Mode(message.mode),
        reason=Reason(message.reason),
        detail=message.detail,
        times=StageTimes(**{name: getattr(message, name) for name in times}),
        observation_stamp_s=to_seconds(message.header.stamp),
        similarity=known(message.similarity),
        drift=known(message.drift),
        reference_id=message.reference_id or None,
        rho_p=known(message.rho_p),
        rho_n=known(message.rho_n),
        error_estimate=known(message.error_estimate),
    )


def trajectory_message(
    joints: Sequence[str], start_s: float, times_s: np.ndarray, rows: np.ndarray
) -> JointTrajectory:
    """Positions only, as joint_trajectory_controller wants them.

    times_s: float64 [N], when the rows are due, all after ``start_s``, which becomes the stamp.
    rows: float64 [N, joints].
    """
    message = JointTrajectory()
    message.header.stamp = to_time(start_s)
    message.joint_names = list(joints)
    message.points = [
        JointTrajectoryPoint(
            positions=_doubles(row), time_from_start=to_duration(time_s - start_s)
        )
        for time_s, row in zip(times_s.tolist(), rows, strict=True)
    ]
    return message


def hold_message(positions: Mapping[str, float], hold_time_s: float) -> JointTrajectory:
    """One point to come to rest at. Its zero stamp means: starts on receipt."""
    message = JointTrajectory()
    message.joint_names = list(positions)
    point = JointTrajectoryPoint(time_from_start=to_duration(hold_time_s))
    point.positions = array.array('d', positions.values())
    message.points = [point]
    return message


def or_nan(value: float | None) -> float:
    """The messages' way to say "no data"."""
    return math.nan if value is None else float(value)


def known(value: float) -> float | None:
    """The messages' NaN, "no data", as None."""
    return None if math.isnan(value) else value


def _doubles(values: np.ndarray) -> array.array:
    return array.array('d', values.astype(np.float64).tobytes())
