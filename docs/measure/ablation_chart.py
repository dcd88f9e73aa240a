# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws an SVG file for the ablation and for benchmarks/: a row for each configuration, a panel for each quantity."""
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

WIDTH, TOP, ROW, GAP = 1040, 112, 22, 10
LEFT, PANELS = 262, 760  # start of the panels, and their total width
SHAMPOO, OTHER = "#0072b2", "#d55e00"  # color-blind people can distinguish them
STYLE = (".tick{font-size:11.5px;fill:#555}.row{font-size:12.5px}.head{font-size:14px;font-weight:bold}"
         ".note{font-size:12px;fill:#555}")


class Row(Protocol):
    """A row of the chart. Rows with the same group are close together, unless the group is empty."""

    @property
    def group(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def optimizer(self) -> str: ...


class Panel(NamedTuple):
    title: str
    values: list[list[float]]  # for each configuration and seed; infinity: target not reached
    logarithmic: bool = False
    from_zero: bool = True  # a linear axis begins at 0; otherwise at the least value


def text(x: float, y: float, attributes: str, content: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{content}</text>'


def line(x1: float, y1: float, x2: float, y2: float, attributes: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {attributes}/>'


class Axis:
    """Converts values to pixels. Values outside of the range are drawn at its end."""

    def __init__(self, left: float, width: float, panel: Panel):
        finite = [v for values in panel.values for v in values if math.isfinite(v)]
        self.left, self.width, self.logarithmic = left, width, panel.logarithmic
        if panel.logarithmic:
            self.least, self.most = math.floor(2 * math.log10(min(finite))) / 2, 0.0  # losses above 1 are failures
        else:
            # A single slow configuration must not compress the others.
            medians = [m for m in (statistics.median(values) for values in panel.values) if math.isfinite(m)]
            self.least, self.most = 0.0, min(max(finite), 2.5 * statistics.median(medians))
            if not panel.from_zero:
                self.most = min(max(finite), 1.2 * statistics.median(medians))
                self.least = min(finite) - 0.05 * (self.most - min(finite))

    def place(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def x(self, value: float) -> float:
        part = (self.place(value) - self.least) / (self.most - self.least) if math.isfinite(value) else 1.0
        return self.left + self.width * min(max(part, 0.0), 1.0)

    def beyond(self, value: float) -> bool:
        return not math.isfinite(value) or self.place(value) > self.most

    def ticks(self) -> Iterator[float]:
        if self.logarithmic:
            yield from (10.0**e for e in range(math.ceil(self.least), math.floor(self.most) + 1))
            return
        width = self.most - self.least
        step = 10.0**math.floor(math.log10(width))
        step = next(s for s in (step / 5, step / 2, step, 2 * step, 5 * step) if width / s <= 6)
        yield from (i * step for i in range(math.ceil(self.least / step), int(self.most / step + 1e-9) + 1))


def row_places(configs: Sequence[Row]) -> list[float]:
    """Returns the middle of each row. There is a gap between groups."""
    places, y = [], float(TOP + ROW)
    for i, config in enumerate(configs):
        if i > 0 and (config.group != configs[i - 1].group or not config.group):
            y += GAP
        places.append(y)
        y += ROW
    return places


def draw_spread(axis: Axis, values: Sequence[float], y: float, color: str) -> list[str]:
    least, median, most = min(values), statistics.median(values), max(values)
    parts = [line(axis.x(least), y, axis.x(most), y, f'stroke="{color}" stroke-width="7" stroke-opacity="0.35"')]
    parts += [f'<circle cx="{axis.x(v):.1f}" cy="{y:.1f}" r="2" fill="{color}" fill-opacity="0.7"/>'
              for v in values if not axis.beyond(v)]
    if not axis.beyond(median):
        parts.append(line(axis.x(median), y - 8, axis.x(median), y + 8, f'stroke="{color}" stroke-width="3"'))
    if axis.beyond(most):
        end = axis.left + axis.width
        parts.append(f'<path d="M{end + 1:.1f},{y - 5:.1f} l9,5 l-9,5 z" fill="{color}"/>')
    return parts


def draw_panel(axis: Axis, panel: Panel, colors: Sequence[str], places: Sequence[float]) -> list[str]:
    bottom = places[-1] + ROW
    parts = [text(axis.left, TOP - 14, 'class="head"', panel.title)]
    for tick in axis.ticks():
        x = axis.x(tick)
        parts.append(line(x, TOP, x, bottom, 'stroke="#e6e6e6"'))
        parts.append(text(x, bottom + 18, 'class="tick" text-anchor="middle"', f"{tick:g}"))
    parts.append(line(axis.left, bottom, axis.left + axis.width, bottom, 'stroke="#555"'))
    base = statistics.median(panel.values[0])
    if not axis.beyond(base):
        parts.append(line(axis.x(base), TOP, axis.x(base), bottom, 'stroke="#999" stroke-dasharray="5 4"'))
    for values, color, y in zip(panel.values, colors, places):
        parts += draw_spread(axis, values, y, color)
    return parts


def write(path: str, configs: Sequence[Row], panels: Sequence[Panel], *, title: str, note: str) -> None:
    places = row_places(configs)
    colors = [SHAMPOO if config.optimizer == "shampoo" else OTHER for config in configs]
    height = places[-1] + ROW + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}"',
        f' height="{height:.0f}" font-family="DejaVu Sans, Verdana, Arial, sans-serif" font-size="13" fill="#222">',
        f'<style>{STYLE}</style>', '<rect width="100%" height="100%" fill="#ffffff"/>',
        text(24, 34, 'font-size="19" font-weight="bold"', title),
        text(24, 57, 'class="note"', note)]
    for config, color, y in zip(configs, colors, places):
        parts.append(text(LEFT - 14, y + 4.5, f'class="row" text-anchor="end" fill="{color}"', config.label))
    pitch = (PANELS + 36) / len(panels)  # 36: distance between two panels
    for i, panel in enumerate(panels):
        parts += draw_panel(Axis(LEFT + i * pitch, pitch - 36, panel), panel, colors, places)
    with open(path, "w", encoding="utf-8") as svg:
        svg.write("\n".join(parts) + "\n</svg>\n")
