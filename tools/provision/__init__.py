"""How a bare machine becomes one that runs rmuscle_ros. Standard library only.

cli           the order of the steps, and what a reader sees when one fails
steps         what each step depends on, and what it does
shop          what every step works with: paths, variables, pip and the lock files
ros           which ROS is used: one already sourced, or the wheels
interpreter   finds a Python that works, by running it
system        compiler, headers and EGL; what apt-get must install
stamps        what has been done, keyed by content, so that a second run does nothing
report        progress lines, logged commands, errors that say what to do
headers       runs inside the environment: mends header paths in the ROS wheels
check         runs inside the finished environment and proves that it works
"""
