"""The simulated ALOHA station: gym-aloha's bimanual ViperX scene in MuJoCo. No ROS.

aloha        the station in numbers: joint and camera names, home pose, ranges
tasks        task name -> instruction and success rule
trajectory   what a joint_trajectory_controller accepts, and how it interpolates
simulator    imports MuJoCo, dm_control and gym-aloha, or says what to install
cameras      the three cameras and their off-screen renderer
detached     the cameras for another thread than the one that steps the physics
scene        gym-aloha's scene and task with our cameras
station      ``AlohaStation``: reset, step, joint state, pictures, reward
kinematics   inverse kinematics of one arm, smooth paths through way-points
expert       the scripted demonstrations of both tasks

``eval``, ``bench``, ``train``, ``ros`` and ``cli`` may import this package; it imports only the
leaves. This is the only package that imports mujoco, dm_control and gym_aloha, and only
``cameras`` and ``scene`` do so when they are imported: everything else loads without them, and a
missing simulator is a SetupError when a station or an expert is created.
"""
