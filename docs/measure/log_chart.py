# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws panels of curves on two logarithmic axes as a plain SVG, in the look of examples/c_mlp/curves.svg."""
import math
from typing import Dict, List, NamedTuple, Sequence

WIDTH, HEIGHT, TOP, PANEL_HEIGHT, PANEL_WIDTH = 1040, 470, 116, 290, 420
LEFTS = (66, 580)
Y_DECADES = (-17, 1)
# Told apart by colour-blind people, too.
COLORS = ("#0072b2", "#d55e00", "#009e73")
STYLE = (".tick{font-size:11.5px;fill:#555}.axis{font-size:12.5px;fill:#333}.head{font-size:14px;font-weight:bold}"
         ".note{font-size:12px;fill:#555}")


class Panel(NamedTuple):
    title: str
    curves: Dict[str, List[float]]
    reference: List[float]


def text(x: float, y: float, attributes: str, content: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{content}</text>'


def line(x1: float, y1: float, x2: float, y2: float, attributes: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {attributes}/>'


def power(exponent: int) -> str:
    return f'10<tspan dy="-5" font-size="9">{exponent}</tspan>'


class Frame:
    """A panel's axes: from values to pixels."""

    def __init__(self, left: int, x_values: Sequence[float]):
        self.left = left
        self.x_least, self.x_most = (math.log10(f(x_values)) for f in (min, max))

    def x(self, value: float) -> float:
        return self.left + PANEL_WIDTH * (math.log10(value) - self.x_least) / max(self.x_most - self.x_least, 1)

    def y(self, value: float) -> float:
        least, most = Y_DECADES
        place = math.log10(min(max(value, 10.0**least), 10.0**most))
        return TOP + PANEL_HEIGHT * (most - place) / (most - least)

    def axes(self, x_title: str) -> List[str]:
        bottom, right = TOP + PANEL_HEIGHT, self.left + PANEL_WIDTH
        parts = []
        for exponent in range(Y_DECADES[0] + 1, Y_DECADES[1] + 1, 2):
            y = self.y(10.0**exponent)
            parts.append(line(self.left, y, right, y, 'stroke="#e6e6e6"'))
            parts.append(text(self.left - 9, y + 4, 'class="tick" text-anchor="end"', power(exponent)))
        for exponent in range(math.ceil(self.x_least), math.floor(self.x_most) + 1):
            x = self.x(10.0**exponent)
            parts.append(line(x, bottom, x, bottom + 5, 'stroke="#555"'))
            parts.append(text(x, bottom + 20, 'class="tick" text-anchor="middle"', power(exponent)))
        parts.append(line(self.left, bottom, right, bottom, 'stroke="#555"'))
        parts.append(text((self.left + right) / 2, bottom + 42, 'class="axis" text-anchor="middle"', x_title))
        return parts

    def curve(self, x_values: Sequence[float], y_values: Sequence[float], attributes: str) -> str:
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(x_values, y_values) if math.isfinite(y))
        return f'<polyline fill="none" stroke-linejoin="round" {attributes} points="{points}"/>'


def write(path: str, x_values: Sequence[float], panels: Sequence[Panel], *, title: str, note: str,
          x_title: str) -> None:
    """Two panels side by side. Values beyond the axes lie on their ends; a curve leaves out what is not finite."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"',
        ' font-family="DejaVu Sans, Verdana, Arial, sans-serif" font-size="13" fill="#222">',
        f'<style>{STYLE}</style>', '<rect width="100%" height="100%" fill="#ffffff"/>',
        text(24, 34, 'font-size="19" font-weight="bold"', title), text(24, 57, 'class="note"', note)]
    for i, name in enumerate(panels[0].curves):
        x = WIDTH - 380 + 120 * i
        parts.append(line(x, 29, x + 24, 29, f'stroke="{COLORS[i]}" stroke-width="3"'))
        parts.append(text(x + 31, 33.5, 'font-size="14"', name))
    for left, panel in zip(LEFTS, panels):
        frame = Frame(left, x_values)
        parts.append(text(left, TOP - 14, 'class="head"', panel.title))
        parts += frame.axes(x_title)
        parts.append(frame.curve(x_values, panel.reference, 'stroke="#999" stroke-dasharray="5 4"'))
        for color, y_values in reversed(list(zip(COLORS, panel.curves.values()))):  # the first comes last, on top
            parts.append(frame.curve(x_values, y_values, f'stroke="{color}" stroke-width="2"'))
            parts += [f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="2.6" fill="{color}"/>'
                      for x, y in zip(x_values, y_values) if math.isfinite(y)]
    with open(path, "w", encoding="utf-8") as svg:
        svg.write("\n".join(parts) + "\n</svg>\n")
