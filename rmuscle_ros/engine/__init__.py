"""Runs a model under a plan. May import cache, models, nn, kernels and the leaves; not memory."""
