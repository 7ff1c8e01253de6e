"""The ALOHA station (simulated unless sim:=false) and the node rmuscle, configured and activated.

ros2 launch rmuscle_ros aloha.launch.py
ros2 launch rmuscle_ros aloha.launch.py sim:=false params_file:=my_robot.yaml
ros2 launch rmuscle_ros aloha.launch.py preset:=paper
"""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    OpaqueFunction,
    RegisterEventHandler,
    Shutdown,
)
from launch.event_handlers import OnProcessStart
from launch.events import matches_action
from launch.events.process import ProcessExited
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from lifecycle_msgs.msg import Transition

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from rmuscle_ros.ros.deployment import PACKAGE, Deployment, NodeProcess, arguments


def generate_launch_description() -> LaunchDescription:
    share = Path(get_package_share_directory(PACKAGE))
    declared = [
        DeclareLaunchArgument(
            item.name,
            default_value=item.default,
            description=item.description,
            choices=item.choices or None,
        )
        for item in arguments(share)
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=_setup)])


def _setup(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Resolve the flags at setup time, then describe one action per process."""
    deployment = Deployment.from_arguments(context.launch_configurations)
    found: list[LaunchDescriptionEntity] = []
    for process in deployment.processes():
        node = _action(process)
        if process.lifecycle and deployment.autostart:
            # Registered before the process starts, or its first transition would be missed.
            found += _bring_up(node)
        found.append(node)
    return found


def _action(process: NodeProcess) -> Node:
    kind = LifecycleNode if process.lifecycle else Node
    return kind(
        package=process.package,
        executable=process.executable,
        name=process.name,
        namespace=process.namespace,
        parameters=[*map(str, process.parameter_files), *filter(None, [dict(process.parameters)])],
        remappings=list(process.remappings),
        ros_arguments=['--log-level', process.log_level],
        output='screen',
        emulate_tty=True,
        on_exit=_stop_the_others,
    )


def _stop_the_others(event: ProcessExited, context: LaunchContext) -> list[Shutdown]:
    """None of the processes is of use without the others."""
    # A second shutdown while the first is under way is an error in launch_ros.
    return [] if context.is_shutdown else [Shutdown(reason=f'{event.process_name} has ended')]


def _bring_up(node: LifecycleNode) -> list[RegisterEventHandler]:
    """Configure once the process runs, activate once it is inactive for the first time."""
    configure = OnProcessStart(
        target_action=node, on_start=[_change(node, Transition.TRANSITION_CONFIGURE)]
    )
    activate = OnStateTransition(
        target_lifecycle_node=node,
        start_state='configuring',
        goal_state='inactive',
        entities=[_change(node, Transition.TRANSITION_ACTIVATE)],
    )
    return [RegisterEventHandler(configure), RegisterEventHandler(activate)]


def _change(node: LifecycleNode, transition: int) -> EmitEvent:
    return EmitEvent(
        event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition)
    )
