#!/usr/bin/env python3
"""Draws the loss of one or more runs over their steps, and prints where each began and ended.

    postprocess/plot_loss.py output/demo/metrics.jsonl -o loss.png
    postprocess/plot_loss.py output/a output/b --smooth 0.9 --metric grad_norm --log -o compare.png

Needs numpy, h5py and matplotlib (Debian: python3-h5py, python3-matplotlib).
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

try:
    import matplotlib

    matplotlib.use("Agg")  # draws to files, needs no display
    import matplotlib.pyplot as plt

    from sft_run import read_metrics
except ImportError as error:
    sys.exit(f"plot_loss.py: error: {error}: apt install python3-matplotlib python3-h5py "
             "(of another python3 than Debian's: start it as /usr/bin/python3 postprocess/plot_loss.py)")


@dataclass
class Curve:
    """One metric of one run."""

    name: str
    steps: list[int]
    values: list[float]


def smoothed(values: list[float], weight: float) -> list[float]:
    """Exponential moving average without a bias at the start; NaN counts as no value."""
    result: list[float] = []
    average = total = 0.0
    for value in values:
        if not math.isnan(value):
            average = weight * average + (1.0 - weight) * value
            total = weight * total + (1.0 - weight)
        result.append(average / total if total > 0.0 else math.nan)
    return result


def read_curve(path: Path, metric: str) -> Curve:
    """Reads metrics.jsonl, or the one in a folder."""
    file = path / "metrics.jsonl" if path.is_dir() else path
    steps: list[int] = []
    values: list[float] = []
    for number, record in enumerate(read_metrics(file), 1):
        if metric not in record:
            continue
        try:
            value = record[metric]
            values.append(math.nan if value is None else float(value))
            steps.append(int(record["step"]))
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{file}:{number} has no number for step and {metric}") from None
    if not steps:
        raise ValueError(f"{file} has no line with {metric}")
    name = file.resolve().parent.name if file.name == "metrics.jsonl" else file.stem
    return Curve(name, steps, values)


def distinguish(curves: list[Curve], paths: list[Path]) -> None:
    """Runs of one name are called by their paths."""
    names = [curve.name for curve in curves]
    for curve, path in zip(curves, paths):
        if names.count(curve.name) > 1:
            curve.name = str(path)


def print_table(curves: list[Curve], metric: str) -> None:
    width = max(len("run"), *(len(curve.name) for curve in curves))
    print(f"{'run':<{width}}  {'steps':>13}  {'first ' + metric:>16}  {'last ' + metric:>16}  {'lowest':>10}")
    for curve in curves:
        steps = f"{curve.steps[0]}-{curve.steps[-1]}"
        lowest = min((value for value in curve.values if not math.isnan(value)), default=math.nan)
        print(f"{curve.name:<{width}}  {steps:>13}  {curve.values[0]:>16.4f}  {curve.values[-1]:>16.4f}  {lowest:>10.4f}")


def draw(curves: list[Curve], metric: str, smooth: float, log: bool, output: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for curve in curves:
        if smooth > 0.0:
            (raw,) = axes.plot(curve.steps, curve.values, linewidth=0.8, alpha=0.3)
            axes.plot(curve.steps, smoothed(curve.values, smooth), color=raw.get_color(), label=curve.name)
        else:
            axes.plot(curve.steps, curve.values, label=curve.name)
    axes.set_xlabel("step")
    axes.set_ylabel(metric)
    axes.grid(alpha=0.3)
    if log:
        axes.set_yscale("log")
    axes.legend()
    figure.savefig(output, dpi=150)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a metrics.jsonl, or the folder that holds it")
    parser.add_argument("-o", "--output", type=Path, default=Path("loss.png"),
                        help="picture to write (default: %(default)s)")
    parser.add_argument("--metric", default="loss", help="key of metrics.jsonl (default: %(default)s)")
    parser.add_argument("--smooth", type=float, default=0.8, metavar="W",
                        help="weight of the past in the bold line, 0 (none) to below 1 (default: %(default)s)")
    parser.add_argument("--log", action="store_true", help="logarithmic axis")
    arguments = parser.parse_args()
    if not 0.0 <= arguments.smooth < 1.0:
        parser.error("--smooth must be at least 0 and below 1")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    try:
        curves = [read_curve(path, arguments.metric) for path in arguments.runs]
        distinguish(curves, arguments.runs)
        print_table(curves, arguments.metric)
        draw(curves, arguments.metric, arguments.smooth, arguments.log, arguments.output)
    except (OSError, ValueError) as error:
        print(f"plot_loss.py: error: {error}", file=sys.stderr)
        return 1
    print(f"wrote {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
