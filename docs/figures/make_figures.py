#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws mesh.svg, step.svg and ring.svg beside itself, or into a folder that is given: run it after a change, and commit
what it writes. Needs Python alone. Colours follow the reader's light or dark setting, on a background of their own.

    docs/figures/make_figures.py [FOLDER]
"""

from __future__ import annotations

import math
import sys
from html import escape
from pathlib import Path

# Pairs of a fill, light and dark; text on them is the figure's own.
COLORS = {"a": ("#cfe3fb", "#23476f"), "b": ("#fde2c0", "#6b4517"), "c": ("#d3efd5", "#23562b"),
          "d": ("#eadcf7", "#4f3570"), "e": ("#f9d4d6", "#6f2a33"), "idle": ("#f0f0ee", "#2c2e33")}


def style() -> str:
    def rules(which: int) -> str:
        page, ink, soft, line = (("#ffffff", "#1f2328", "#5c6570", "#8a939d"), ("#17191d", "#e7e9ec", "#a9b1ba", "#6d7681"))[which]
        fills = "".join(f".{name}{{fill:{pair[which]}}}" for name, pair in COLORS.items())
        return (f".page{{fill:{page}}}text{{fill:{ink}}}.soft{{fill:{soft}}}.line{{stroke:{line}}}.arrow{{stroke:{ink}}}"
                f".head{{fill:{ink}}}.frame{{stroke:{line};fill:none}}" + fills)

    return (f"<style>text{{font:13px system-ui,'DejaVu Sans',sans-serif}}.small{{font-size:11.5px}}.title{{font-weight:600}}"
            f".middle{{text-anchor:middle}}.end{{text-anchor:end}}{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}</style>")


class Figure:
    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        self.width, self.height = width, height
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
                      f"<title>{escape(title)}</title><desc>{escape(description)}</desc>", style(),
                      '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                      'orient="auto-start-reverse"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
                      f'<rect class="page" width="{width}" height="{height}" rx="10"/>']

    def box(self, x: float, y: float, width: float, height: float, fill: str, text: str = "", kind: str = "") -> None:
        self.parts.append(f'<rect class="{fill}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>')
        if text:
            self.text(x + width / 2, y + height / 2 + 4.5, text, f"middle {kind}")

    def frame(self, x: float, y: float, width: float, height: float) -> None:
        self.parts.append(f'<rect class="frame" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="9"/>')

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float, both: bool = False) -> None:
        start = ' marker-start="url(#head)"' if both else ""
        self.parts.append(f'<path class="arrow" fill="none" stroke-width="1.4" marker-end="url(#head)"{start} '
                          f'd="M{x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f}"/>')

    def curve(self, x1: float, y1: float, cx: float, cy: float, x2: float, y2: float) -> None:
        self.parts.append(f'<path class="arrow" fill="none" stroke-width="1.4" marker-end="url(#head)" '
                          f'd="M{x1:.1f} {y1:.1f} Q{cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(f'<path class="line" fill="none" d="M{x1:g} {y1:g} {x2:g} {y2:g}"/>')

    def write(self, path: Path) -> None:
        path.write_text("\n".join(self.parts) + "\n</svg>\n", encoding="utf-8")


def mesh() -> Figure:
    """Two nodes of eight ranks, 2 x 2 x 2 x 2."""
    figure = Figure(860, 396, "The mesh 2 x 2 x 2 x 2 on two nodes",
                    "Sixteen ranks: dp_replicate 0 on one node and 1 on the other; in each two groups of dp_shard, in these two "
                    "rows of sp with two ranks of tp. Arrows say what travels along each axis.")
    cell, gap = 62, 8
    for replica in range(2):
        x0 = 24 + replica * 428
        figure.frame(x0, 46, 384, 250)
        figure.text(x0 + 16, 34, f"node {replica}: dp_replicate {replica}", "title")
        for shard in range(2):
            x1 = x0 + 22 + shard * 192
            figure.text(x1 + cell + gap / 2, 70, f"dp_shard {shard}", "middle soft")
            for sequence in range(2):
                y = 84 + sequence * (cell + 40)
                for tensor in range(2):
                    rank = ((replica * 2 + shard) * 2 + sequence) * 2 + tensor
                    x = x1 + tensor * (cell + gap)
                    figure.box(x, y, cell, cell, "ab"[shard] if sequence == 0 else "cd"[shard])
                    figure.text(x + cell / 2, y + 28, str(rank), "middle title")
                    figure.text(x + cell / 2, y + 46, f"sp {sequence}  tp {tensor}", "middle small soft")
                if sequence == 0:
                    figure.arrow(x1 + cell / 2, y + cell + 4, x1 + cell / 2, y + cell + 36, both=True)
                    figure.text(x1 + cell / 2 + 8, y + cell + 24, "sp: keys, values", "small soft")
            figure.arrow(x1 + cell - 13, 84 + 11, x1 + cell + gap + 13, 84 + 11, both=True)
        middle = x0 + 22 + 2 * cell + gap
        figure.arrow(middle + 5, 84 + cell / 2, middle + 192 - 2 * cell - gap - 5, 84 + cell / 2, both=True)
        figure.text(x0 + 192, 272, "dp_shard x sp: units gathered, gradients reduce-scattered", "middle small soft")
        figure.text(x0 + 192, 288, "tp: a sum after each half of a block", "middle small soft")
    figure.arrow(412, 171, 448, 171, both=True)
    figure.text(430, 322, "dp_replicate: one sum of the gradients a step, the only thing that crosses the nodes", "middle")
    figure.text(430, 340, "Each of the four groups of dp_replicate and dp_shard has rows of its own:", "middle small soft")
    for i, (names, text) in enumerate((("ab", "sp 0: the first and the last quarter of each row"),
                                       ("cd", "sp 1: the two quarters between"))):
        for j, name in enumerate(names):
            figure.box(96 + i * 400 + j * 22, 360, 18, 18, name)
        figure.text(148 + i * 400, 374, text, "small")
    return figure


def step() -> Figure:
    """Streams of one rank in a step of three blocks."""
    figure = Figure(1060, 380, "One step on one rank",
                    "Rows of streams over time: units are gathered one ahead of the compute that uses them, forward and "
                    "backward; gradients of a unit are reduced while the next one computes; then norm, sum over replicas and "
                    "optimizer.")
    left, top, row = 128, 58, 54
    lanes = ("compute", "gathers", "communication", "ring, tp", "host")
    for i, lane in enumerate(lanes):
        figure.text(left - 14, top + i * row + 21, lane, "end title" if i == 0 else "end")
        figure.box(left, top + i * row, 908, 32, "idle")
    units = ["embed", "block 0", "block 1", "block 2", "head"]
    x, begins = left + 58.0, {}
    for name in units:  # forward
        width = 46 if name in ("embed", "head") else 62
        figure.box(x, top, width, 32, "a", name, "small")
        begins["f" + name] = (x, width)
        x += width + 3
    figure.text((left + 58 + x) / 2, top - 10, "forward", "middle soft")
    backward = x
    for name in ["head", "block 2", "block 1", "block 0", "embed"]:
        width = 46 if name in ("embed", "head") else 78
        figure.box(x, top, width, 32, "b", name, "small")
        begins["b" + name] = (x, width)
        x += width + 3
    figure.text((backward + x) / 2, top - 10, "backward", "middle soft")
    end = x + 82  # of the last reduction, which the norm waits for
    figure.box(end, top, 38, 32, "d", "norm", "small")
    figure.box(end + 41, top, 64, 32, "d", "optimizer", "small")
    # A unit is gathered while the one before it computes.
    order = ["f" + name for name in units] + ["b" + name for name in ("block 2", "block 1", "block 0", "embed")]
    y = top + row
    for before, name in zip([None, *order], order):
        at = left + 6 if before is None else begins[before][0] + 2
        if name == "bblock 2":
            at = begins["bhead"][0] + 2
        figure.box(at, y, 46, 32, "c", name[1:].replace("block ", ""), "small")
        if before is None:
            figure.arrow(at + 46, y, begins[name][0] + 8, top + 33)
    y = top + 2 * row
    for name, after in (("bhead", "bblock 2"), ("bblock 2", "bblock 1"), ("bblock 1", "bblock 0"), ("bblock 0", "bembed")):
        at = begins[after][0] + 3
        label = name[1:].replace("block ", "")
        figure.box(at, y, 44, 32, "e", label, "small")
    figure.box(x, y, 78, 32, "e", "embed, sum", "small")
    figure.arrow(x + 60, y - 1, end + 10, top + 33)
    figure.arrow(begins["bblock 2"][0] + 60, top + 33, begins["bblock 1"][0] + 8, y - 1)
    y = top + 3 * row
    for key, (at, width) in begins.items():
        if "block" in key:
            for part in range(2):
                figure.box(at + 6 + part * width / 2, y, width / 2 - 12, 32, "d")
    y = top + 4 * row
    figure.box(left + 58, y, 104, 32, "a", "reads next rows", "small")
    figure.box(end + 2, y, 103, 32, "a", "log, begin a save", "small")
    y = top + 5 * row + 14
    for i, (name, text) in enumerate((("c", "gather: whole parameters of a unit, one ahead"), ("e", "reduce-scatter of its gradient, behind it"),
                                      ("d", "keys and values of other ranks; sums of halves"))):
        figure.box(128 + i * 312, y, 16, 16, name)
        figure.text(152 + i * 312, y + 13, text, "small")
    return figure


def ring() -> Figure:
    """Four ranks of sp: how a row is cut, what travels, who computes which part of the triangle."""
    figure = Figure(900, 470, "The ring of four ranks",
                    "A row is cut into eight chunks; rank r has chunks r and 7 - r. In round d a rank sends keys and values to the "
                    "rank d places on. Of the causal triangle of queries and keys every rank computes the same area.")
    fills = "abcd"
    owner = [0, 1, 2, 3, 3, 2, 1, 0]
    figure.text(30, 36, "A row, cut into 2 x sp chunks: rank r has chunks r and 2 sp - 1 - r", "title")
    for chunk in range(8):
        figure.box(30 + chunk * 105, 50, 102, 34, fills[owner[chunk]], f"chunk {chunk}: rank {owner[chunk]}", "small")
    center_x, center_y, radius = 205, 285, 104
    figure.text(center_x, 126, "Keys and values travel in three rounds", "middle title")
    places = [(center_x + radius * math.cos(a), center_y + radius * math.sin(a))
              for a in (math.radians(90 * i - 90) for i in range(4))]
    for rank, (x, y) in enumerate(places):
        figure.box(x - 45, y - 27, 90, 54, fills[rank])
        figure.text(x, y - 3, f"rank {rank}", "middle title")
        figure.text(x, y + 15, f"chunks {rank}, {7 - rank}", "middle small soft")
    for rank in range(4):
        begin, end = math.radians(90 * rank - 90 + 31), math.radians(90 * rank - 31)
        middle = (begin + end) / 2
        figure.curve(center_x + radius * math.cos(begin), center_y + radius * math.sin(begin),
                     center_x + 1.34 * radius * math.cos(middle), center_y + 1.34 * radius * math.sin(middle),
                     center_x + radius * math.cos(end), center_y + radius * math.sin(end))
    figure.text(center_x, center_y - 6, "round d: to the rank", "middle small soft")
    figure.text(center_x, center_y + 10, "d places on, under", "middle small soft")
    figure.text(center_x, center_y + 26, "attention to the rest", "middle small soft")
    figure.text(center_x, 436, "Only chunks that the receiver sees are sent", "middle small")
    x0, y0, cell = 500, 150, 33
    figure.text(x0 + 4 * cell, 126, "Who computes what of the causal triangle", "middle title")
    for query in range(8):
        figure.text(x0 - 10, y0 + query * cell + 21, f"{query}", "end small soft")
        figure.text(x0 + query * cell + cell / 2, y0 + 8 * cell + 18, f"{query}", "middle small soft")
        for key in range(8):
            x, y = x0 + key * cell, y0 + query * cell
            if key > query:
                figure.box(x, y, cell - 2, cell - 2, "idle")
                continue
            here = owner[query]
            round_number = (here - owner[key]) % 4  # what is at hand in round 0, then from the rank before, and so on
            figure.box(x, y, cell - 2, cell - 2, fills[here], str(round_number), "small")
    figure.text(x0 + 4 * cell, y0 + 8 * cell + 36, "key chunk; colour: the rank; number: the round", "middle small")
    figure.parts.append(f'<text class="small soft middle" transform="translate({x0 - 30} {y0 + 4 * cell}) rotate(-90)">query chunk</text>')
    return figure


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    for draw in (mesh, step, ring):
        draw().write(folder / f"{draw.__name__}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
