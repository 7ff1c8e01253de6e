"""Other methods of saving work per call, to compare with: same model, same engine, same actor.

Each is a ``Method`` in a file of its own, behind the engine's seams (``engine/sampler.py`` and
``models.base.RowReuse``). Importing this package imports no PyTorch.
"""

from rmuscle_ros.eval.methods.registry import METHODS, MethodEntry

__all__ = ['METHODS', 'MethodEntry']
