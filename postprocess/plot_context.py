#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what tests/tools/benchmarks/context.sh found, over the number of ranks that share a row: the longest row that fits the
memory of a rank, and the tokens a second that it trains at.

    postprocess/plot_context.py build/release/benchmark_context/context.csv -o context

writes context-length.png and context-throughput.png. Needs matplotlib (Debian: python3-matplotlib).
"""

from __future__ import annotations

import argparse
import csv
import sys
from dataclasses import dataclass, field
from pathlib import Path

try:
    import matplotlib

    matplotlib.use("Agg")  # draws to files, needs no display
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
except ImportError as error:
    sys.exit(f"plot_context.py: error: {error}: apt install python3-matplotlib "
             "(of another python3 than Debian's: start it as /usr/bin/python3 postprocess/plot_context.py)")

ONE_RANK = "-"  # the method of one rank, which has nothing to exchange


@dataclass
class Case:
    """One number of ranks with one method."""

    longest_tokens: int = 0  # 0: not even the shortest row fits
    rates: dict[int, float] = field(default_factory=dict)  # tokens a second, by the length of the row


@dataclass
class Table:
    limit_bytes: int
    cases: dict[tuple[str, int], Case]  # by method and number of ranks

    def curve(self, method: str) -> list[tuple[int, Case]]:
        """Cases of a method by rising number of ranks, from the one rank that all methods have in common."""
        return sorted(((ranks, case) for (name, ranks), case in self.cases.items() if name in (method, ONE_RANK)),
                      key=lambda point: point[0])

    def methods(self) -> list[str]:
        return sorted({method for method, _ in self.cases} - {ONE_RANK}) or [ONE_RANK]

    def common_tokens(self) -> int | None:
        """The longest row that every case was trained on, if there is one."""
        lengths = [set(case.rates) for case in self.cases.values()]
        return max(set.intersection(*lengths), default=None)


def read_table(path: Path) -> Table:
    cases: dict[tuple[str, int], Case] = {}
    limits = set()
    with path.open(newline="", encoding="utf-8") as file:
        for number, line in enumerate(csv.DictReader(file), 2):
            try:
                tokens = int(line["row_tokens"])
                limits.add(int(line["limit_bytes"]))
                case = cases.setdefault((line["sp_method"], int(line["ranks"])), Case())
                if int(line["fits"]) and tokens > case.longest_tokens:
                    case.longest_tokens = tokens
                if line["tokens_per_second"]:
                    case.rates[tokens] = float(line["tokens_per_second"])
            except (KeyError, TypeError, ValueError):
                raise ValueError(f"{path}:{number} is no line of context.sh's table") from None
    if len(limits) != 1:
        raise ValueError(f"{path} has {len(limits)} memory limits: one is needed, give a table of one run of context.sh")
    return Table(limits.pop(), cases)


def set_axes(axes: Axes, table: Table, label: str) -> None:
    num_ranks = sorted({ranks for _, ranks in table.cases})
    axes.set_xscale("log", base=2)
    axes.set_xticks(num_ranks, [str(ranks) for ranks in num_ranks])
    axes.minorticks_off()
    axes.set_xlabel("ranks that share the row")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    axes.legend()


def draw_length(table: Table, output: Path) -> None:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    lengths = set()
    for method in table.methods():
        points = [(ranks, case.longest_tokens) for ranks, case in table.curve(method) if case.longest_tokens]
        axes.plot(*zip(*points) if points else ([], []), marker="o", label=method)
        lengths.update(points)
    if lengths:
        ranks, tokens = min(lengths)
        most = max(point[0] for point in lengths)
        axes.plot([ranks, most], [tokens, tokens * most / ranks], color="grey", linestyle=":",
                  label="as many tokens a rank")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
    set_axes(axes, table, "tokens of the longest row")
    axes.set_title(f"longest row in {table.limit_bytes / 2**20:g} MiB a rank")
    figure.savefig(output, dpi=100)


def draw_throughput(table: Table, output: Path) -> None:
    """Rates at the longest rows, and next to them those of one length that all were trained on."""
    common = table.common_tokens()
    panels: list[tuple[str, int | None]] = [("at the longest row", None)]
    if common is not None:
        panels.append((f"at rows of {common} tokens", common))
    figure, all_axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 4.2), layout="constrained",
                                    squeeze=False)
    for axes, (title, tokens) in zip(all_axes[0], panels):
        for method in table.methods():
            points = [(ranks, case.rates.get(tokens or case.longest_tokens)) for ranks, case in table.curve(method)]
            known = [point for point in points if point[1] is not None]
            axes.plot(*zip(*known) if known else ([], []), marker="o", label=method)
        axes.set_ylim(bottom=0.0)
        set_axes(axes, table, "tokens / s, all ranks together")
        axes.set_title(title)
    figure.savefig(output, dpi=100)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, metavar="CSV", help="context.csv of tests/tools/benchmarks/context.sh")
    parser.add_argument("-o", "--output", default="context", metavar="NAME",
                        help="beginning of the pictures' names (default: %(default)s)")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    length, throughput = Path(arguments.output + "-length.png"), Path(arguments.output + "-throughput.png")
    try:
        table = read_table(arguments.table)
        draw_length(table, length)
        draw_throughput(table, throughput)
    except (OSError, ValueError) as error:
        print(f"plot_context.py: error: {error}", file=sys.stderr)
        return 1
    print(f"wrote {length} and {throughput}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
