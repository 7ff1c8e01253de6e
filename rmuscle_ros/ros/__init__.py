"""Everything that speaks ROS 2: the policy node, the simulated station's node, the demo.

The only package that may import rclpy and messages; may import everything but ``cli``. Modules of
the library never import this one. ``overlay`` works without ROS: it finds the built overlay.
"""
