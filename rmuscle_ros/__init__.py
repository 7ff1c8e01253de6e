"""rmuscle_ros: muscle memory for Vision-Language-Action policies, as a ROS 2 node and a library.

The map, and the import rule (a package may import those to its right; packages of one level do
not import each other; ``test/test_imports.py`` enforces it over every module)::

    cli -> ros -> eval, bench, train -> rollout -> policy, sim -> planning, refresh
        -> engine, memory -> cache -> models -> nn -> kernels
        -> types, errors, config, presets, statistics, machine

types, errors, config   leaves: frozen dataclasses, exceptions, strict configuration
presets                 leaf: named settings of the caches
statistics, machine     leaves: quantiles and intervals; versions and machine of a result
kernels                 one folder per operation of the caches: reference, later its Triton twin
nn                      torch modules the models are built from
models                  one file per policy family, strict weight loading, input processing
cache                   the expanded reference state, neuron masks, the FFN runners
memory                  reference episodes, retrieval, the sliding window, the rebuild thread
engine                  runs a model under a plan: dense, cached, recorded
planning                from a match and the settings to the plan of a call
refresh                 recorded calls replayed for other masks
policy                  ``infer(obs) -> ActionChunk``: joins engine and memory
sim                     the MuJoCo ALOHA station, without ROS
rollout                 a policy acts on the station, in one process
eval                    closed loop, other methods, characterisation, sweep, reports
bench                   timings, dense and cached side by side
train                   demonstrations, training, export of the shipped policy
ros                     the only place that imports rclpy
cli                     ``rmuscle ...``
"""

from pkgutil import extend_path

# A source checkout and the colcon overlay hold halves of this package (code here, the generated
# ``rmuscle_ros.msg`` there): both are searched.
__path__ = extend_path(__path__, __name__)
__version__ = '0.1.0'
