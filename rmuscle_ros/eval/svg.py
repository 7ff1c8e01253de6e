"""Matplotlib figures as inline SVG whose colours follow the page's light or dark theme.

A figure is drawn with placeholder colours; in the SVG each becomes ``var(--name)``, which the
page's style sheet defines once per theme. Text stays text, in the page's font.
"""

from __future__ import annotations

import html
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from rmuscle_ros.types import Reason

INK = '#010203'
MUTED = '#010204'
GRID = '#010205'
PAPER = '#010206'
DENSE = '#010207'
CACHED = '#010208'
FALLBACK = '#010209'
DRIFT = '#01020a'
WAITING = '#01020b'
_VARIABLES = {
    INK: '--ink',
    MUTED: '--muted',
    GRID: '--grid',
    PAPER: '--paper',
    DENSE: '--dense',
    CACHED: '--cached',
    FALLBACK: '--fallback',
    DRIFT: '--drift',
    WAITING: '--waiting',
}

# Shape and colour both tell the reason, so that neither hue nor contrast is needed to read it.
REASON_MARKS = {
    Reason.CACHED: (CACHED, 'o'),
    Reason.CACHE_DISABLED: (DENSE, 's'),
    Reason.NO_REFERENCE: (MUTED, 'X'),
    Reason.REFERENCE_NOT_READY: (WAITING, 'D'),
    Reason.NOT_CALIBRATED: (WAITING, 'P'),
    Reason.FALLBACK_SIMILARITY: (FALLBACK, 'v'),
    Reason.FALLBACK_DRIFT: (DRIFT, '^'),
    Reason.OVER_BUDGET: (DRIFT, '*'),
}

_STYLE: dict[Any, Any] = {
    'svg.fonttype': 'none',
    'svg.hashsalt': 'rmuscle',
    'font.family': 'DejaVu Sans',
    'font.size': 11.0,
    'text.parse_math': False,
    'text.color': INK,
    'axes.edgecolor': GRID,
    'axes.labelcolor': MUTED,
    'axes.facecolor': 'none',
    'axes.titlesize': 11.0,
    'axes.titlelocation': 'left',
    'axes.spines.top': False,
    'axes.spines.right': False,
    'axes.axisbelow': True,
    'xtick.color': GRID,
    'ytick.color': GRID,
    'xtick.labelcolor': MUTED,
    'ytick.labelcolor': MUTED,
    'grid.color': GRID,
    'grid.linewidth': 0.6,
    'legend.frameon': False,
    'figure.facecolor': 'none',
}


@contextmanager
def style() -> Iterator[None]:
    """Everything between figure and SVG happens under this style; global settings stay."""
    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(width_px: int, height_px: int) -> Figure:
    """An empty figure, 72 px per inch, so that font sizes are pixels of the page."""
    return Figure(figsize=(width_px / 72, height_px / 72), layout='constrained')


def to_svg(figure: Figure, label: str, least_px: int = 0) -> str:
    """The figure as ``<svg>`` element; ``label`` is what a screen reader says.

    It shrinks with the page, but not below ``least_px``.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format='svg', metadata={'Date': None, 'Creator': None})
    text = buffer.getvalue()
    text = text[text.index('<svg') :]
    # The style element would apply to the whole page; the style sheet repeats it for figures.
    text = re.sub(r'<(metadata|style)\b.*?</\1>', '', text, flags=re.DOTALL)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", 'var(--sans)', text)
    for placeholder, variable in _VARIABLES.items():
        text = text.replace(placeholder, f'var({variable})')
    text = _unique_ids(text)
    width, height = re.findall(r'(?:width|height)="([\d.]+)pt"', text)[:2]
    text = text.replace(f'width="{width}pt"', 'width="100%"', 1)
    text = text.replace(f'height="{height}pt" ', '', 1)
    opening = f'<svg role="img" aria-label="{html.escape(label)}"'
    size = f'max-width: {float(width):.0f}px' + (f'; min-width: {least_px}px' if least_px else '')
    return text.replace('<svg', f'{opening} style="{size}"', 1)


def _unique_ids(text: str) -> str:
    """Prefix every id and its uses: several figures share one page."""
    prefix = f'f{zlib.crc32(text.encode()):08x}-'
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = text.replace('url(#', f'url(#{prefix}')
    return re.sub(r'href="#', f'href="#{prefix}', text)


def css(placeholder: str) -> str:
    """The page's own name of a placeholder colour, such as ``var(--cached)``."""
    return f'var({_VARIABLES[placeholder]})'
