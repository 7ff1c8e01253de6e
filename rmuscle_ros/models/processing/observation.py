"""Observation -> ModelInputs: cameras and joints by name, checked."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rmuscle_ros.errors import ObservationError
from rmuscle_ros.models.base import VlaModel
from rmuscle_ros.models.processing.images import resize_with_padding
from rmuscle_ros.types import ModelInputs, Observation


def prepare(observation: Observation, model: VlaModel) -> ModelInputs:
    """Order cameras and joints as the model has them and resize the pictures.

    Raises ObservationError when no camera, an unusable picture, a missing joint, a position that
    is not finite or an empty instruction is found. Cameras of the model that the observation
    lacks are left out: the model runs without their rows.
    """
    cameras = tuple(camera for camera in model.cameras if camera in observation.images)
    if not cameras:
        raise ObservationError(
            f'found cameras {_names(observation.images)}, expected at least one of '
            f'{_names(model.cameras)}'
        )
    unknown = [camera for camera in observation.images if camera not in model.cameras]
    if unknown:
        raise ObservationError(
            f'found camera {_names(unknown)} that this model does not have; it has '
            f'{_names(model.cameras)}: fix the camera names'
        )
    pictures = [_picture(camera, observation.images[camera]) for camera in cameras]
    if not isinstance(observation.instruction, str):
        raise ObservationError(
            f'found an instruction of type {type(observation.instruction).__name__}, expected text'
        )
    if not observation.instruction.strip():
        raise ObservationError('found an empty instruction; say what the robot should do')
    return ModelInputs(
        images=np.stack([resize_with_padding(picture, model.image_size) for picture in pictures]),
        cameras=cameras,
        state=_state(observation, model.joint_names),
        instruction=observation.instruction,
    )


def _picture(camera: str, image: np.ndarray) -> np.ndarray:
    if not isinstance(image, np.ndarray):
        raise ObservationError(
            f'camera {camera}: found {type(image).__name__}, expected a NumPy array, uint8 '
            '[H, W, 3] in RGB order'
        )
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
        raise ObservationError(
            f'camera {camera}: found {image.dtype} {list(image.shape)}, expected uint8 [H, W, 3] '
            'in RGB order'
        )
    return image


def _state(observation: Observation, joint_names: tuple[str, ...]) -> np.ndarray:
    missing = [name for name in joint_names if name not in observation.joints]
    if missing:
        raise ObservationError(
            f'joint {_names(missing)} missing; found {_names(observation.joints)}'
        )
    try:
        state = np.array([observation.joints[name] for name in joint_names], np.float32)
    except (TypeError, ValueError) as error:
        raise ObservationError(
            f'found joint positions that are not numbers ({error}), expected rad or m'
        ) from error
    bad = [name for name, good in zip(joint_names, np.isfinite(state), strict=True) if not good]
    if bad:
        raise ObservationError(f'joint {_names(bad)}: found a position that is not finite')
    return state


def _names(names: Iterable[str]) -> str:
    return ', '.join(names) or 'none'
