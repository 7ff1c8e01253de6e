"""FFN of some neurons, added as a delta to an anchor step."""

from rmuscle_ros.kernels.sparse_ffn.reference import sparse_ffn

__all__ = ['sparse_ffn']
