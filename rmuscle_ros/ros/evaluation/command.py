"""Success and latency in closed loop through the ROS nodes, in real time, paired by scene."""

from __future__ import annotations

import argparse

from rmuscle_ros.eval import closed_loop_command
from rmuscle_ros.eval.modes import describe
from rmuscle_ros.ros.evaluation.plan import NODE_MODES, find_node_modes
from rmuscle_ros.ros.evaluation.run import compare

EXAMPLES = f"""modes that the node can run:
{describe(NODE_MODES)}

The station and one policy node per mode run as processes, on a ROS domain of their own that does
not leave this machine. The modes take turns scene by scene; an episode takes 5 to 12 s. Scenes are
paired, the noise of the calls is not: each node draws its own. The action error is that of cached
calls, which the node reruns densely in idle time (shadow mode). Ctrl-C ends early: the scenes that
all modes have ended are printed and written, with "complete": false.

examples:
  rmuscle eval --ros --episodes 3 --modes dense,rmuscle --references 8
  rmuscle eval --ros --episodes 50 --modes all --json out/eval_ros.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    closed_loop_command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    request, publish = closed_loop_command.prepare(args, find_node_modes(args.modes))
    compare(request, publish)
    return 0
