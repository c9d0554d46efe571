#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the loss of one or more runs over their steps, in training and on data held back, and prints where each began
and ended.

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
from typing import Any

try:
    import matplotlib

    matplotlib.use("Agg")  # draws to files, needs no display
    import matplotlib.pyplot as plt
    import numpy as np

    from sft_run import read_metrics
except ImportError as error:
    sys.exit(f"plot_loss.py: error: {error}: apt install python3-matplotlib python3-h5py "
             "(of another python3 than Debian's: start it as /usr/bin/python3 postprocess/plot_loss.py)")


UNITS = {
    "loss": "nats a target token",
    "step_loss": "nats a target token",
    "entropy": "nats a target token",
    "tokens_per_second": "tokens / s",
    "target_tokens_per_second": "tokens / s",
    "step_time_s": "s",
    "num_tokens": "tokens",
    "num_target_tokens": "tokens",
    "peak_memory_bytes_min": "bytes",
    "peak_memory_bytes_mean": "bytes",
    "peak_memory_bytes_max": "bytes",
}


@dataclass
class Curve:
    """One metric of one run."""

    name: str
    steps: list[int]
    values: list[float]
    resumed_steps: list[int]  # the steps after which the run went on from a checkpoint
    evaluations: Curve | None = None  # the same metric on data that the run does not train on


def smoothed(values: list[float], weight: float) -> list[float]:
    """At each value, the height there of the parabola that fits its neighbours on both sides best, a neighbour d lines
    away with the weight `weight`**d (local regression). Unlike a mean of the past it does not lag, and it
    follows a bend: a falling loss lies as often above the line as below it. NaN counts as no value.
    """
    y = np.array(values, dtype=np.float64)
    is_known = ~np.isnan(y)
    reach = 1 if weight <= 0.0 else min(len(values), math.ceil(math.log(1e-6) / math.log(weight)))
    lines = np.arange(-reach, reach + 1)
    kernel = weight ** np.abs(lines)
    distance = lines * (1.0 - weight)  # about 1 where the kernel has fallen to a third

    def sums(terms: np.ndarray, power: int) -> np.ndarray:
        """Sums of terms x distance^power x weight over the neighbours of each value."""
        reversed_kernel = (kernel * distance**power)[::-1]  # numpy turns a kernel around
        return np.convolve(terms, reversed_kernel)[reach : reach + len(y)]

    moments = [sums(is_known.astype(np.float64), power) for power in range(5)]
    matrix = np.stack([np.stack(moments[row : row + 3], axis=-1) for row in range(3)], axis=-2)  # (lines, 3, 3)
    right = np.stack([sums(np.where(is_known, y, 0.0), power) for power in range(3)], axis=-1)  # (lines, 3)
    coefficients = np.linalg.pinv(matrix, rcond=1e-9, hermitian=True) @ right[..., np.newaxis]
    height = coefficients[:, 0, 0]
    return np.where(moments[0] > 0.0, height, math.nan).tolist()


def read_curve(path: Path, metric: str) -> Curve:
    """Reads metrics.jsonl, or the one in a folder; with the evaluations of the metric, where there are any."""
    file = path / "metrics.jsonl" if path.is_dir() else path
    name = file.resolve().parent.name if file.name == "metrics.jsonl" else file.stem
    records = read_metrics(file)
    curve = curve_of(file, name, records, metric)
    if not curve.steps:
        raise ValueError(f"{file} has no line with {metric}")
    evaluations = curve_of(file, name, records, "eval_" + metric)
    if evaluations.steps:
        curve.evaluations = evaluations
    return curve


def curve_of(file: Path, name: str, records: list[dict[str, Any]], metric: str) -> Curve:
    """The lines that have the metric."""
    curve = Curve(name, [], [], [])
    for number, record in enumerate(records, 1):
        if metric not in record:
            continue
        try:
            value = record[metric]
            curve.values.append(math.nan if value is None else float(value))
            curve.steps.append(int(record["step"]))
            if "resumed_step" in record:
                curve.resumed_steps.append(int(record["resumed_step"]))
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{file}:{number} has no number for step and {metric}") from None
    return curve


def distinguish(curves: list[Curve], paths: list[Path]) -> None:
    """Runs of one name are called by their paths."""
    names = [curve.name for curve in curves]
    for curve, path in zip(curves, paths):
        if names.count(curve.name) > 1:
            curve.name = str(path)


def print_table(curves: list[Curve], metric: str) -> None:
    rows = []
    for curve in curves:
        rows.append((curve.name, curve))
        if curve.evaluations:
            rows.append((f"{curve.name}, evaluated", curve.evaluations))
    width = max(len("run"), *(len(name) for name, _ in rows))
    print(f"{'run':<{width}}  {'steps':>13}  {'first ' + metric:>16}  {'last ' + metric:>16}  {'lowest':>10}  "
          f"{'at step':>8}")
    for name, curve in rows:
        steps = f"{curve.steps[0]}-{curve.steps[-1]}"
        lowest, step = min(((value, step) for value, step in zip(curve.values, curve.steps) if not math.isnan(value)),
                           default=(math.nan, "-"))
        print(f"{name:<{width}}  {steps:>13}  {curve.values[0]:>16.4f}  {curve.values[-1]:>16.4f}  {lowest:>10.4f}  "
              f"{step:>8}")


def draw(curves: list[Curve], metric: str, smooth: float, log: bool, output: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for curve in curves:
        if smooth > 0.0:
            (raw,) = axes.plot(curve.steps, curve.values, linewidth=0.8, alpha=0.3)
            (line,) = axes.plot(curve.steps, smoothed(curve.values, smooth), color=raw.get_color(), label=curve.name)
        else:
            (line,) = axes.plot(curve.steps, curve.values, label=curve.name)
        if curve.evaluations:
            axes.plot(curve.evaluations.steps, curve.evaluations.values, color=line.get_color(), linestyle="--",
                      marker="o", markersize=3, label=f"{curve.name}, evaluated")
        for i, step in enumerate(curve.resumed_steps):
            label = f"{curve.name} resumed" if i == 0 else None
            axes.axvline(step, color=line.get_color(), linewidth=0.8, linestyle=":", label=label)
    axes.set_xlabel("step")
    axes.set_ylabel(f"{metric} ({UNITS[metric]})" if metric in UNITS else metric)
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
                        help="smoothing of the bold line, 0 (none) to below 1: a neighbour d lines away counts "
                        "W^d (default: %(default)s)")
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
