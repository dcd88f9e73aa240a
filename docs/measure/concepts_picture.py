#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws the picture in docs/concepts.md: from a parameter to its blocks, and a step of one block.

    concepts_picture.py --svg docs/concepts.svg [--check]

Needs only Python. --check does not write the file, and fails if its contents differ from the picture.
"""
import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
import plot  # noqa: E402

WIDTH, HEIGHT = 800, 606
# Line and fill colors of the parameter, of preconditioning and of grafting. Color-blind people can distinguish them.
GREEN, BLUE, ORANGE = ("#00795a", "#d9f0e8"), ("#005f96", "#dcebf6"), ("#b34700", "#fce6d8")
WHITE, GREY = ("#555", "#f4f4f4"), ("#555", "#cfcfcf")
INK = "#555"
STYLE = (plot.STYLE + ".head{font-size:15px}.name{font-size:12.5px}.small{font-size:11.5px;fill:#444}"
         ".sign{font-size:14px;font-style:italic}"
         ".key{font-size:11px;font-family:'DejaVu Sans Mono',monospace;fill:#444}")


def sub(name: str, index: object) -> str:
    return f'{name}<tspan dy="3" font-size="9">{index}</tspan><tspan dy="-3">&#8203;</tspan>'


def text(x: float, y: float, kind: str, content: str, anchor: str = "middle") -> str:
    return plot.text(x, y, content, f'class="{kind}" text-anchor="{anchor}"')


def box(x: float, y: float, width: float, height: float, colors: "tuple[str, str]", content: str = "",
        kind: str = "sign") -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    shape = f'<rect {place} fill="{colors[1]}" stroke="{colors[0]}" stroke-width="1.3"/>'
    return shape + (text(x + width / 2, y + height / 2 + 5, kind, content) if content else "")


def arrow(*points: "tuple[float, float]", dashed: bool = False) -> str:
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.4" marker-end="url(#tip)"{dash}/>'


def named(x: float, y: float, name: str, key: str) -> "list[str]":
    """Draws a name and, below it, a key of the library."""
    return [text(x, y, "name", name), text(x, y + 16, "key", key)]


def blocks() -> "list[str]":
    """Draws stack, merge and split of a (2, 2048, 256, 4) parameter, with the owners of its blocks for two replicas."""
    top, high, wide = 78, 120, 60
    parts = [text(24, 34, "head", "From a parameter to its blocks", "start")]
    # The stacked tensors overlap. After the first stage, each tensor is separate.
    parts += [box(54, top - 8, wide, high, GREEN), box(42, top + 4, wide, high, GREEN, "W")]
    columns = (232, 426, 620)
    for left in columns[:2]:
        parts += [box(left + 68 * tensor, top, wide, high, GREEN) for tensor in range(2)]
    for tensor in range(2):
        for chunk, colors in enumerate((WHITE, GREY)):
            parts.append(box(columns[2] + 68 * tensor, top + 62 * chunk, wide, 58, colors, f"rank {chunk}", "small"))
    for left, right, name in ((130, 216, "stack"), (376, 412, "merge"), (570, 606, "split")):
        parts += [arrow((left, top + 60), (right, top + 60)), text((left + right) / 2, top + 48, "name", name)]
    for x, head in zip((78, 296, 490, 684), ("parameter", "2 tensors", "merged", "4 blocks, each with an owner")):
        parts.append(text(x, 58 if x > 100 else 62, "name", head))
    for x, shape in zip((78, 296, 490, 684), ("(2, 2048, 256, 4)", "(2048, 256, 4)", "(2048, 1024)", "(1024, 1024)")):
        parts.append(text(x, top + high + 20, "small", shape))
    parts.append(text(173, top + 78, "key", "stack_dims=1"))
    parts.append(text(539, top + high + 38, "key", "use_merge_dims, max_preconditioner_dim=1024"))
    return parts


def step() -> "list[str]":
    """Draws a step of one matrix block: factor matrices at the top, the direction in the middle, grafting below."""
    a, b, c = 314, 416, 530  # y of the three rows
    parts = [plot.line(24, 250, 776, 250, 'stroke="#ccc"'),
             text(24, 276, "head", "A step of one block", "start"),
             text(202, 276, "small", "(a matrix, m x n; everything is checked before anything is written)", "start")]
    # Left: the gradient, which is the input of all three rows.
    parts += [box(24, b - 23, 62, 46, GREEN, "G"), text(55, b + 38, "name", "gradient")]
    parts += [arrow((55, b - 26), (55, a + 8), (124, a + 8)), arrow((90, b), (146, b))]
    parts.append(arrow((55, b + 44), (55, c), (146, c)))
    # Top: factor matrices, and inverse roots, which are refreshed less often (dashed).
    parts += [box(130, a - 15, 46, 46, BLUE, sub("F", 0)), box(184, a - 22, 62, 62, BLUE, sub("F", 1))]
    parts += [text(188, a + 55, "name", "factor matrices"), text(92, a - 2, "small", "G G&#7488;, G&#7488;G")]
    parts += [arrow((252, a + 8), (374, a + 8), dashed=True), text(312, a - 2, "key", "precondition_"),
              text(312, a + 25, "key", "frequency")]
    parts += [box(380, a - 15, 46, 46, BLUE, sub("X", 0)), box(434, a - 22, 62, 62, BLUE, sub("X", 1))]
    parts.append(text(506, a + 4, "name", "inverse roots", "start"))
    parts.append(text(506, a + 22, "small", "(F + &#949; I) to the power -1/2", "start"))
    # Middle: the direction.
    parts += [box(150, b - 23, 62, 46, GREEN, "H"), *named(181, b + 38, "filtered gradient", "beta1")]
    parts += [arrow((216, b), (338, b)), arrow((438, a + 44), (438, b - 36))]
    parts += [box(344, b - 23, 46, 46, BLUE, sub("X", 0)), box(396, b - 23, 62, 46, GREEN, "H"),
              box(464, b - 31, 62, 62, BLUE, sub("X", 1)), text(430, b + 48, "name", "P: where to go")]
    parts += [arrow((532, b), (574, b)), box(580, b - 27, 84, 54, ORANGE, "P |D| / |P|")]
    parts += [text(622, b - 36, "name", "graft")]
    # Bottom: grafting.
    parts += [box(150, c - 23, 62, 46, ORANGE, "V"), *named(181, c + 38, "second moment", "grafting_beta2")]
    parts += [arrow((216, c), (390, c)), arrow((240, b + 4), (240, c - 4))]
    parts.append(text(312, c - 8, "small", "H / (&#8730;V + &#949;)"))
    parts += [box(396, c - 23, 62, 46, ORANGE, "D"), *named(427, c + 38, "D: how far to go", "grafting")]
    parts += [arrow((462, c), (622, c), (622, b + 32))]
    # Right: the update of the parameter.
    parts += [arrow((668, b), (708, b)), box(714, b - 23, 62, 46, GREEN, "W"), text(745, b - 36, "name", "parameter")]
    for line, note in enumerate(("then weight decay,", "momentum, and")):
        parts.append(text(776, b + 62 + 16 * line, "small", note, "end"))
    parts.append(text(776, b + 94, "small", "&#8722;lr times the result", "end"))
    return parts


def picture() -> str:
    tip = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
           f'<path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>')
    return plot.document(HEIGHT, [tip, *blocks(), *step()], width=WIDTH, style=STYLE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--svg", type=Path, required=True)
    parser.add_argument("--check", action="store_true", help="do not write; fail if the file differs")
    arguments = parser.parse_args()
    if not arguments.check:
        arguments.svg.write_text(picture(), encoding="utf-8")
    elif arguments.svg.read_text(encoding="utf-8") != picture():
        print(f"{arguments.svg} differs from the output of this program: run it with --svg {arguments.svg}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
