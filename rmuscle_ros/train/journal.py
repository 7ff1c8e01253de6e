"""Losses and checks of a run as CSV files and one plot."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

from rmuscle_ros.errors import CheckpointError

LOSSES_FILE, CHECKS_FILE, PLOT_FILE = 'losses.csv', 'checks.csv', 'losses.png'
RECENT = 20

Row = dict[str, float]


class Journal:
    """Rows by step; those beyond ``step``, left by a run that was killed, are dropped."""

    def __init__(self, directory: Path, step: int) -> None:
        self._directory = directory
        self.losses = _read(directory / LOSSES_FILE, step)
        self.checks = _read(directory / CHECKS_FILE, step)

    def add(self, step: int, values: Row) -> None:
        self.losses.append({'step': step, **values})

    def add_check(self, step: int, values: Row) -> None:
        self.checks.append({'step': step, **values})

    def recent(self) -> dict[str, str]:
        """Mean losses of the last steps, and the last check."""
        rows = self.losses[-RECENT:]
        means = {name: _mean([row[name] for row in rows]) for name in ('flow', 'cube')}
        last = self.checks[-1] if self.checks else {}
        shown = {**means, **{name: value for name, value in last.items() if name != 'step'}}
        return {name: f'{value:.3f}' for name, value in shown.items() if not math.isnan(value)}

    def write(self) -> None:
        """Write both tables and the plot. Raises CheckpointError when that is impossible."""
        try:
            _write(self._directory / LOSSES_FILE, self.losses)
            _write(self._directory / CHECKS_FILE, self.checks)
            self._plot()
        except OSError as error:
            raise CheckpointError(f'{self._directory}: cannot write the journal ({error})') from (
                error
            )

    def _plot(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 6), layout='constrained')
        FigureCanvasAgg(figure)
        losses, checks = figure.subplots(2, 1, sharex=True)
        steps = [row['step'] for row in self.losses]
        for name in ('flow', 'cube'):
            losses.plot(steps, _smooth([row[name] for row in self.losses]), label=name)
        losses.set(yscale='log', ylabel='loss (mean of 20 steps)')
        for name in {key: None for row in self.checks for key in row if key != 'step'}:
            at = [(row['step'], row[name]) for row in self.checks if name in row]
            checks.plot(*zip(*at, strict=True), marker='o', label=name)
        checks.set(ylim=(-0.05, 1.05), xlabel='step', ylabel='checks')
        for axes in (losses, checks):
            axes.grid(alpha=0.3)
            if axes.lines:
                axes.legend()
        figure.savefig(self._directory / PLOT_FILE, dpi=100)


def read_checks(directory: Path) -> list[Row]:
    """All checks of a run; none when there is no file."""
    return _read(directory / CHECKS_FILE, step=sys.maxsize)


def hours(directory: Path) -> float | None:
    """How long the steps of a run took; None without its table of losses."""
    rows = _read(directory / LOSSES_FILE, step=sys.maxsize)
    return sum(row['step_s'] for row in rows) / 3600 if rows else None


def _read(path: Path, step: int) -> list[Row]:
    if not path.exists():
        return []
    try:
        with path.open(newline='') as file:
            rows = [
                {key: float(value) for key, value in row.items() if value}
                for row in csv.DictReader(file)
            ]
        return [{**row, 'step': int(row['step'])} for row in rows if row['step'] <= step]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f'{path}: not a table of a run ({error!r}); delete it, the run does not need it'
        ) from error


def _write(path: Path, rows: list[Row]) -> None:
    if not rows:
        return
    partial = path.with_suffix('.partial')
    with partial.open('w', newline='') as file:
        writer = csv.DictWriter(file, list({key: None for row in rows for key in row}))
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(path)


def _smooth(values: list[float]) -> list[float]:
    return [_mean(values[max(0, i + 1 - RECENT) : i + 1]) for i in range(len(values))]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
