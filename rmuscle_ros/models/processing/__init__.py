"""From an Observation to what a model sees, and nothing more: no statistics are invented here."""

from rmuscle_ros.models.processing.observation import prepare

__all__ = ['REVISION', 'prepare']

# Part of every model's fingerprint. Raise it when ``prepare`` gives other inputs for the same
# observation: references recorded with the old ones must not serve.
REVISION = 1
