"""From an Observation to what a model sees, and nothing more: no statistics are invented here."""

from rmuscle_ros.models.processing.observation import prepare

__all__ = ['prepare']
