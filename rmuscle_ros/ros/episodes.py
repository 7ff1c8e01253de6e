"""Notices the end of an episode on stations that do not announce it. Pure: no ROS."""

from __future__ import annotations

from collections.abc import Mapping

from rmuscle_ros.ros.settings import EpisodeSettings


class EpisodeWatch:
    """Ends an episode by time, or by the arm's return to where it stood when the watch began."""

    def __init__(self, settings: EpisodeSettings) -> None:
        self._settings = settings
        self._home: Mapping[str, float] | None = None
        self._began_s: float | None = None
        self._left = False

    def restart(self) -> None:
        """An episode begins, from wherever the arm stands now."""
        self._home, self._began_s, self._left = None, None, False

    def update(self, time_s: float, joints: Mapping[str, float] | None) -> str | None:
        """Why the episode is over, or None. The next one then begins, with the same home."""
        if self._began_s is None:
            self._began_s = time_s
        reason = self._timeout(time_s - self._began_s) or self._returned(joints)
        if reason is not None:
            self._began_s, self._left = time_s, False
        return reason

    def _timeout(self, duration_s: float) -> str | None:
        limit_s = self._settings.timeout_s
        if limit_s > 0.0 and duration_s >= limit_s:
            return f'episode.timeout_s of {limit_s:g} s is over'
        return None

    def _returned(self, joints: Mapping[str, float] | None) -> str | None:
        tolerance_rad = self._settings.home_tolerance_rad
        if tolerance_rad <= 0.0 or joints is None:
            return None
        if self._home is None:
            self._home = dict(joints)
        away = max(abs(joints[name] - position) for name, position in self._home.items())
        if away > 2.0 * tolerance_rad:
            self._left = True
        elif self._left and away <= tolerance_rad:
            return f'the arm is back home (within {tolerance_rad:g} rad)'
        return None
