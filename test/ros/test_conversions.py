"""Messages to arrays and back. Each test of an image or joint message names its field case."""

from __future__ import annotations

import array
import io
import math

import numpy as np
import pytest

pytest.importorskip('rclpy')

from fake_policy import JOINTS, PERIOD_S, make_chunk
from PIL import Image as Picture
from sensor_msgs.msg import CompressedImage, Image, JointState

from rmuscle_ros.errors import ObservationError
from rmuscle_ros.ros import conversions
from rmuscle_ros.ros.schedule import Schedule

RGB = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)


def image_message(pixels: np.ndarray, encoding: str, padding: int = 0) -> Image:
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, -1)
    rows = np.concatenate([rows, np.full((height, padding), 255, np.uint8)], axis=1)
    message = Image(height=height, width=width, step=rows.shape[1], encoding=encoding)
    message.data = array.array('B', rows.tobytes())
    return message


def encoded(encoding: str) -> np.ndarray:
    alpha = np.full((4, 5, 1), 7, np.uint8)
    return {
        'rgb8': RGB,
        'bgr8': RGB[..., ::-1],
        'rgba8': np.concatenate([RGB, alpha], axis=2),
        'bgra8': np.concatenate([RGB[..., ::-1], alpha], axis=2),
    }[encoding]


@pytest.mark.parametrize('padding', [0, 3])
@pytest.mark.parametrize('encoding', ['rgb8', 'bgr8', 'rgba8', 'bgra8'])
def test_colours_and_rows_by_encoding_and_step(encoding, padding):
    """Red and blue swapped; padded rows sheared."""
    found = conversions.image_array(image_message(encoded(encoding), encoding, padding))
    np.testing.assert_array_equal(found, RGB)
    assert found.dtype == np.uint8


@pytest.mark.parametrize('padding', [0, 3])
def test_grey_images_become_three_equal_channels(padding):
    message = image_message(RGB[..., :1], 'mono8', padding)
    np.testing.assert_array_equal(
        conversions.image_array(message), np.repeat(RGB[..., :1], 3, axis=2)
    )


def test_rgb_image_is_not_copied():
    message = image_message(RGB, 'rgb8')
    found = conversions.image_array(message)
    message.data[0] = 99
    assert found[0, 0, 0] == 99


def test_unknown_encoding_lists_the_known_ones():
    with pytest.raises(ObservationError, match=r"'yuv422', expected one of rgb8, bgr8, .*mono8"):
        conversions.image_array(image_message(RGB, 'yuv422'))


@pytest.mark.parametrize(
    ('change', 'text'),
    [
        ({'step': 14}, r'step is 14 bytes, expected at least 15'),
        ({'height': 5}, r'has 60 bytes, expected 75'),
        ({'width': 0}, r'is 0x4, expected pixels'),
    ],
    ids=['step', 'data', 'size'],
)
def test_image_that_contradicts_itself_is_refused(change, text):
    message = image_message(RGB, 'rgb8')
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(ObservationError, match=text):
        conversions.image_array(message)


def compressed(kind: str, name: str) -> CompressedImage:
    buffer = io.BytesIO()
    Picture.fromarray(np.full((8, 8, 3), (200, 30, 60), np.uint8)).save(buffer, kind)
    return CompressedImage(format=name, data=array.array('B', buffer.getvalue()))


@pytest.mark.parametrize(
    ('kind', 'name'),
    [('JPEG', 'jpeg'), ('JPEG', 'rgb8; jpeg compressed bgr8'), ('PNG', 'png'), ('JPEG', 'jpg')],
)
def test_compressed_images_are_rgb(kind, name):
    found = conversions.compressed_array(compressed(kind, name))
    assert found.shape == (8, 8, 3)
    np.testing.assert_allclose(found[4, 4], (200, 30, 60), atol=3)


def test_compressed_image_of_unknown_format_or_broken_data_is_refused():
    with pytest.raises(ObservationError, match="'compressedDepth png', expected one of jpeg, png"):
        conversions.compressed_array(compressed('PNG', 'compressedDepth png'))
    with pytest.raises(ObservationError, match='no data'):
        conversions.compressed_array(CompressedImage(format='jpeg'))
    broken = compressed('JPEG', 'jpeg')
    broken.data = broken.data[:40]
    with pytest.raises(ObservationError, match='40 bytes cannot be decoded as jpeg or png'):
        conversions.compressed_array(broken)


def test_joints_are_mapped_by_name():
    """Another order, extra joints, no velocities."""
    message = JointState(name=['lid', 'right_b', 'left_a'], position=[9.0, 2.0, 1.0])
    found = conversions.joint_positions(message, ['left_a', 'right_b'])
    assert found == {'left_a': 1.0, 'right_b': 2.0}


def test_missing_joint_is_named():
    message = JointState(name=['left_a'], position=[1.0])
    with pytest.raises(ObservationError, match='no joint right_b; the message has left_a'):
        conversions.joint_positions(message, ['left_a', 'right_b'])


@pytest.mark.parametrize('value', [math.nan, math.inf])
def test_joint_without_a_finite_position_is_named(value):
    message = JointState(name=['left_a', 'lid'], position=[value, math.nan])
    with pytest.raises(ObservationError, match=f'left_a is {value}'):
        conversions.joint_positions(message, ['left_a'])


def test_nan_of_a_joint_nobody_reads_does_no_harm():
    message = JointState(name=['left_a', 'lid'], position=[1.0, math.nan])
    assert conversions.joint_positions(message, ['left_a']) == {'left_a': 1.0}


def test_positions_must_match_names():
    with pytest.raises(ObservationError, match='1 positions for 2 joint names'):
        conversions.joint_positions(JointState(name=['a', 'b'], position=[1.0]), ['a'])


@pytest.mark.parametrize('time_s', [0.0, 0.02, 1.9999999999, 1796137135.49243])
def test_times_survive_the_way_there_and_back(time_s):
    assert conversions.to_seconds(conversions.to_time(time_s)) == pytest.approx(time_s, abs=1e-6)


def test_trajectory_is_what_the_controller_wants():
    schedule = Schedule(10, blend_rows=0, horizon=20, period_s=PERIOD_S)
    plan = schedule.accept(make_chunk(1796137135.3), now_s=1796137135.4)
    message = conversions.trajectory_message(
        ['left_b', 'left_a'], plan.start_s, plan.times_s, plan.rows[:, [1, 0]]
    )
    times_s = [conversions.to_seconds(point.time_from_start) for point in message.points]
    assert conversions.to_seconds(message.header.stamp) == pytest.approx(1796137135.4)
    assert message.joint_names == ['left_b', 'left_a']
    np.testing.assert_allclose(times_s, PERIOD_S * np.arange(1, 21), atol=1e-6)
    assert [list(point.positions) for point in message.points] == [[k, k] for k in range(20)]
    assert not any(len(point.velocities) for point in message.points)


def test_hold_starts_on_receipt():
    message = conversions.hold_message({'left_a': 0.25, 'left_b': -1.0}, hold_time_s=0.1)
    assert conversions.to_seconds(message.header.stamp) == 0.0
    assert len(message.points) == 1
    assert list(message.points[0].positions) == [0.25, -1.0]
    assert conversions.to_seconds(message.points[0].time_from_start) == pytest.approx(0.1)


def test_chunk_message_carries_provenance_and_says_no_data():
    chunk = make_chunk(12.5, call=3)
    message = conversions.chunk_message(chunk, skipped_rows=4)
    assert (message.horizon, message.period_s, message.skipped_rows) == (20, PERIOD_S, 4)
    assert np.array(message.actions).reshape(20, len(JOINTS))[7].tolist() == [7.0] * len(JOINTS)
    assert (message.mode, message.reason, message.call) == ('dense', 'NO_REFERENCE', 3)
    assert math.isnan(message.similarity)
    assert math.isnan(message.rho_n)
    assert message.reference_id == ''
    assert message.denoise_ms == 3.0


def test_joint_that_is_there_twice_is_named():
    message = JointState(name=['a', 'b', 'a', 'c', 'c'], position=[0.0, 1.0, 2.0, 3.0, 3.0])
    with pytest.raises(ObservationError, match='joint a more than once'):
        conversions.joint_positions(message, ['b', 'a'])
    assert conversions.joint_positions(message, ['b']) == {'b': 1.0}
