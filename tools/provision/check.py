"""Run inside the finished environment: prove that every part works, or name one that fails."""

import os
import sys
from importlib import import_module

PARTS = ('rclpy', 'rmuscle_ros.msg', 'torch', 'gym_aloha')


def render_offscreen() -> None:
    """Render one small picture without a screen."""
    os.environ.setdefault('MUJOCO_GL', 'egl')
    import mujoco

    scene = '<mujoco><worldbody><light pos="0 0 3"/><geom size="1"/></worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(scene)
    with mujoco.Renderer(model, 32, 32) as renderer:
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        renderer.update_scene(data)
        if not renderer.render().any():
            raise RuntimeError('the rendered picture is black')


def main() -> None:
    for part in PARTS:
        try:
            import_module(part)
        except Exception as error:  # noqa: BLE001 - a broken package may raise anything
            sys.exit(f'import {part} failed: {type(error).__name__}: {error}')
    try:
        render_offscreen()
    except Exception as error:  # noqa: BLE001 - so may a graphics driver
        sys.exit(f'off-screen rendering (EGL) failed: {type(error).__name__}: {error}')


if __name__ == '__main__':
    main()
