"""HTML fragments: escaped text, tables, the film strip. Every argument is plain text."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from rmuscle_ros.eval import svg, words
from rmuscle_ros.eval.records import Frame

# The space between a number and its unit, where a line must not break.
_UNIT = re.compile(r'(?<=\d) (?=(?:ms|rad|s|MiB)\b|%)|(?<=\d) (?=of \d)|(?<=\d of) (?=\d)')


class Raw(str):
    """Text that is HTML already."""


def text(value: Any) -> str:
    """Escape ``value`` unless it is ``Raw``; None reads "no data"."""
    if isinstance(value, Raw):
        return value
    if value is None:
        return Raw(f'<span class="none">{words.NO_DATA}</span>')
    if value == words.NO_DATA:
        return text(None)
    return Raw(_UNIT.sub('&nbsp;', html.escape(str(value))))


def table(header: Sequence[Any], rows: Iterable[Sequence[Any]], numbers_from: int = 1) -> Raw:
    """A table; columns from ``numbers_from`` on are numbers and align right."""
    head = f'<thead>{_row("th", header, numbers_from)}</thead>' if header else ''
    body = ''.join(_row('td', row, numbers_from) for row in rows)
    return Raw(f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>')


def _row(tag: str, cells: Sequence[Any], numbers_from: int) -> str:
    kinds = ['' if column < numbers_from else ' class="number"' for column in range(len(cells))]
    row = (f'<{tag}{kind}>{text(cell)}</{tag}>' for kind, cell in zip(kinds, cells, strict=True))
    return f'<tr>{"".join(row)}</tr>'


def key_values(values: Mapping[str, Any]) -> Raw:
    """A two-column table of settings, versions or the machine."""
    if not values:
        return paragraph(words.NO_DATA, kind='none')
    return table((), ((key, _plain(key, value)) for key, value in values.items()), numbers_from=9)


def _plain(key: str, value: Any) -> Any:
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, int):
        return f'{value / 2**20:.1f} MiB' if key.endswith('bytes') else f'{value:,}'
    return f'{value:.6g}' if isinstance(value, float) else value if value != '' else None


def paragraph(*sentences: str, kind: str = '') -> Raw:
    """One paragraph of the sentences that are not empty."""
    body = ' '.join(text(sentence) for sentence in sentences if sentence)
    return Raw(f'<p class="{kind}">{body}</p>' if body else '')


def bullets(items: Iterable[str]) -> Raw:
    return Raw('<ul>' + ''.join(f'<li>{text(item)}</li>' for item in items) + '</ul>')


def figure(svg: str, caption: str = '') -> Raw:
    note = f'<figcaption>{text(caption)}</figcaption>' if caption else ''
    return Raw(f'<figure>{svg}{note}</figure>')


def legend(entries: Sequence[tuple[str, str, str]]) -> Raw:
    """Colour placeholder, glyph and words of each mark."""
    items = ''.join(
        f'<span><b style="color: {svg.css(colour)}">{glyph}</b> {text(label)}</span>'
        for colour, glyph, label in entries
    )
    return Raw(f'<p class="legend">{items}</p>')


def film_strip(frames: Sequence[Frame], columns: int = 8) -> Raw:
    """Rows are cameras, columns are ``columns`` times spread over the episode."""
    chosen = [frames[i] for i in spread(len(frames), columns)]
    cameras = dict.fromkeys(camera for frame in chosen for camera in frame.images)
    header = ['', *(f'{frame.time_s:.1f} s' for frame in chosen)]
    rows = [[camera, *(_picture(frame, camera) for frame in chosen)] for camera in cameras]
    return Raw(f'<div class="film">{table(header, rows, numbers_from=9)}</div>')


def spread(n: int, most: int) -> list[int]:
    """At most ``most`` indices below ``n``, evenly spread, the first and the last included."""
    return sorted({round(float(i)) for i in np.linspace(0, n - 1, min(n, most))}) if n else []


def _picture(frame: Frame, camera: str, width_px: int = 176) -> Raw | None:
    """The camera's image as JPEG data URI, scaled down; None when the frame lacks it."""
    pixels = frame.images.get(camera)
    if pixels is None:
        return None
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if image.width > width_px:
        image = image.resize((width_px, max(1, round(image.height * width_px / image.width))))
    buffer = io.BytesIO()
    image.save(buffer, format='JPEG', quality=82)
    data = base64.b64encode(buffer.getvalue()).decode()
    label = html.escape(f'{camera} at {frame.time_s:.1f} s')
    return Raw(f'<img alt="{label}" src="data:image/jpeg;base64,{data}">')
