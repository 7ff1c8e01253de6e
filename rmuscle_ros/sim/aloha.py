"""The ALOHA station in numbers: names, home pose, ranges. Numpy only.

Joint vectors everywhere in this package are float64 [14] in the order of ``JOINT_NAMES``: rad for
arm joints, metres for ``gripper`` (the position of the left finger; the right one mirrors it).
"""

from __future__ import annotations

import numpy as np

CAMERAS = ('cam_high', 'cam_left_wrist', 'cam_right_wrist')
CONTROL_PERIOD_S = 0.02

ARM_JOINTS = (
    'waist',
    'shoulder',
    'elbow',
    'forearm_roll',
    'wrist_angle',
    'wrist_rotate',
    'gripper',
)
JOINT_NAMES = tuple(
    f'follower_{side}_{joint}' for side in ('left', 'right') for joint in ARM_JOINTS
)
LEFT_ARM = slice(0, 6)
LEFT_GRIPPER = 6
RIGHT_ARM = slice(7, 13)
RIGHT_GRIPPER = 13


def _both_arms(*values: float) -> np.ndarray:
    vector = np.array(2 * values, np.float64)
    vector.setflags(write=False)
    return vector


HOME = _both_arms(0.0, -0.96, 1.16, 0.0, -0.3, 0.0, 0.02239)
LOWER = _both_arms(-3.14158, -1.85005, -1.76278, -3.14158, -1.8675, -3.14158, 0.021)
UPPER = _both_arms(3.14158, 1.25664, 1.6057, 3.14158, 2.23402, 3.14158, 0.057)
