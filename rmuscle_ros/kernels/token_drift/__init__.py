"""How far each visual row drifted from its reference, and which rows to recompute."""

from rmuscle_ros.kernels.token_drift.reference import select_rows, token_drift, view_drift

__all__ = ['select_rows', 'token_drift', 'view_drift']
