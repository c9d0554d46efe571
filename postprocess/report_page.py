# SPDX-License-Identifier: Apache-2.0
"""The parts of report.py's sections: tables, figures and the page around them. The page needs no other file, has a
light and a dark half by the reader's setting, and room on a telephone and on paper."""

from __future__ import annotations

import html
import io
import re
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of what draws)

INK, PAPER = "#010203", "#fdfefd"  # no figure has these colours of its own: the page puts in its text's and its ground's
matplotlib.rcParams |= {
    "svg.fonttype": "none", "svg.hashsalt": "sft", "font.family": "sans-serif", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.22, "grid.color": INK,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "legend.frameon": False,
    "legend.labelcolor": INK,
}
# Distinct for people who see few colours, on light and on dark ground.
COLORS = ("#3987e5", "#e0842e", "#3aa66a", "#a06cd5", "#d9534f", "#8c8c8c", "#c9a227", "#2aa5b5")

STYLE = """
:root { --ground: #ffffff; --ink: #1f2328; --soft: #5c6570; --line: #d9dde1; --panel: #f5f6f7; --link: #0b5cad;
  --good: #1a7f37; --bad: #c0312b; --warn: #9a6700; color-scheme: light dark }
@media (prefers-color-scheme: dark) { :root { --ground: #15171a; --ink: #e3e6e9; --soft: #a3abb4; --line: #363b41;
  --panel: #1e2125; --link: #6cb2ff; --good: #4cc26a; --bad: #ff7b72; --warn: #e3b341 } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, 'DejaVu Sans', sans-serif; color: var(--ink); background: var(--ground); max-width: 74rem;
  margin: 0 auto; padding: 1.2rem 1.2rem 4rem }
h1 { font-size: 1.6rem; margin: .4rem 0; overflow-wrap: anywhere } h3 { font-size: 1rem; margin: 1.2rem 0 .3rem }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .8rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line) }
a { color: var(--link) } nav { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: .6rem 0 1rem }
.state { font-weight: 600 } .done { color: var(--good) } .failed, .lost { color: var(--bad) } .stopped, .runs { color: var(--warn) }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .7rem }
.card { background: var(--panel); border-radius: .5rem; padding: .6rem .8rem } .card b { display: block; font-size: 1.15rem }
.card span, .hint { color: var(--soft) } .card span { font-size: .86rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: .93rem }
td, th { padding: .18rem 1.1rem .18rem 0; text-align: left; vertical-align: top } th { color: var(--soft); font-weight: 600 }
tr + tr td { border-top: 1px solid var(--line) } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
figure { margin: 0 } svg { max-width: 100%; height: auto; display: block } svg text { fill: currentColor }
.wide svg { min-width: 46rem } .pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1.2rem; align-items: start }
pre { background: var(--panel); border-radius: .4rem; padding: .6rem .8rem; margin: .3rem 0; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: .88rem } summary { cursor: pointer }
.rank text { fill: #1f2328 } .mark { fill: none; stroke: #1f2328; stroke-width: 2.4 }
@media (max-width: 48rem) { .pair { grid-template-columns: 1fr } }
@media print { body { max-width: none } nav { display: none } section { break-inside: avoid } }
"""


def escaped(text: Any) -> str:
    return html.escape(str(text))


def hint(text: str) -> str:
    return f'<p class="hint">{escaped(text)}</p>'


def table(rows: list[tuple[Any, ...]], head: tuple[str, ...] = ()) -> str:
    """Aligns numbers of cells at the right; text keeps its form."""
    def cell(value: Any) -> str:
        if isinstance(value, (int, float)):
            return f'<td class="number">{value:,.6g}</td>' if isinstance(value, float) else f'<td class="number">{value:,}</td>'
        return f"<td>{escaped(value)}</td>"

    lines = ["<tr>" + "".join(f"<th>{escaped(name)}</th>" for name in head) + "</tr>"] if head else []
    lines += ["<tr>" + "".join(cell(value) for value in row) + "</tr>" for row in rows]
    return '<div class="scroll"><table>' + "\n".join(lines) + "</table></div>"


def cards(items: list[tuple[str, str]]) -> str:
    """`items`: what it is, and its value."""
    return '<div class="cards">' + "".join(
        f'<div class="card"><span>{escaped(name)}</span><b>{escaped(value)}</b></div>' for name, value in items) + "</div>"


def bytes_text(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


_num_figures = 0


def svg_of(figure: Any, title: str) -> str:
    """The figure as an element of the page: its text in the page's colour, its ids its own, and a name for people who do not
    see it."""
    global _num_figures
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    svg = text.getvalue()
    svg = svg[svg.index("<svg"):].replace(INK, "currentColor").replace(PAPER, "var(--ground)")
    _num_figures += 1
    svg = re.sub(r'(\bid="|xlink:href="#|\bhref="#|url\(#)', rf"\g<1>f{_num_figures}-", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return f"<figure>{svg.replace('<svg', f'<svg role={chr(34)}img{chr(34)} aria-label={chr(34)}{escaped(title)}{chr(34)}', 1)}</figure>"


def page(title: str, state: tuple[str, str], sections: list[tuple[str, str]]) -> str:
    """`state`: a class (done, stopped, failed, runs, lost) and the words; `sections`: title and HTML."""
    def anchor(name: str) -> str:
        return re.sub(r"\W+", "-", name.lower())

    links = "".join(f'<a href="#{anchor(name)}">{escaped(name)}</a>' for name, _ in sections[1:])
    body = "".join(f'<section id="{anchor(name)}"><h2>{escaped(name)}</h2>{text}</section>' for name, text in sections[1:])
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escaped(title)}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
            f'<body><h1>{escaped(title)}</h1><p class="state {state[0]}">{escaped(state[1])}</p><nav>{links}</nav>'
            f"{sections[0][1]}{body}</body></html>\n")
