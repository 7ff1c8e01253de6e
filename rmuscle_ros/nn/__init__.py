"""Torch modules the models are built from. May import kernels and the leaves."""
