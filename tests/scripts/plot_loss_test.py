#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bold line of plot_loss.py lies in the middle of the data, at a falling loss too; resumes are marked; evaluations
are a curve of their own.

    plot_loss_test.py POSTPROCESS_FOLDER
"""

import contextlib
import io
import json
import math
import random
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, sys.argv.pop(1))
import plot_loss  # noqa: E402  (its folder is an argument)
from sft_run import Run  # noqa: E402


class Smoothing(unittest.TestCase):
    def test_a_straight_line_stays_as_it_is(self) -> None:
        line = [5.0 - 0.25 * i for i in range(200)]
        for weight in (0.0, 0.5, 0.8, 0.99):
            for smooth, value in zip(plot_loss.smoothed(line, weight), line):
                self.assertAlmostEqual(smooth, value, places=6)

    def test_a_falling_loss_lies_above_and_below(self) -> None:
        noise = random.Random(1)
        values = [3.0 * math.exp(-i / 20) + 0.1 + noise.gauss(0.0, 0.02) for i in range(70)]
        above = sum(value > smooth for value, smooth in zip(values, plot_loss.smoothed(values, 0.8)))
        self.assertGreater(above, 0.35 * len(values))
        self.assertLess(above, 0.65 * len(values))

    def test_single_and_missing_values(self) -> None:
        self.assertEqual(plot_loss.smoothed([2.0], 0.8), [2.0])
        smooth = plot_loss.smoothed([1.0, math.nan, 3.0], 0.8)
        self.assertAlmostEqual(smooth[1], 2.0, places=1)
        self.assertTrue(math.isnan(plot_loss.smoothed([math.nan], 0.8)[0]))


class Curves(unittest.TestCase):
    def test_resumes_are_read_and_drawn(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "metrics.jsonl"
            lines = [{"step": step, "loss": 1.0 / step} for step in range(1, 9)]
            lines[4]["resumed_step"] = 4
            file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            curve = plot_loss.read_curve(file, "loss")
            self.assertEqual(curve.resumed_steps, [4])
            plot_loss.draw([curve], "loss", 0.8, False, Path(folder) / "loss.png")
            axes = plot_loss.plt.gcf().axes[0]
            self.assertEqual(axes.get_ylabel(), "loss (nats a target token)")
            self.assertIn([4, 4], [list(line.get_xdata()) for line in axes.get_lines()])

    def test_evaluations_are_a_curve_of_their_own(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "metrics.jsonl"
            lines: list[dict[str, float]] = [{"step": 0, "eval_loss": 4.0}]
            for step in range(1, 9):
                lines.append({"step": step, "loss": 1.0 / step})
                if step % 4 == 0:
                    lines.append({"step": step, "eval_loss": 2.0 / step})
            file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            curve = plot_loss.read_curve(file, "loss")
            self.assertEqual(curve.steps, list(range(1, 9)))
            self.assertEqual((curve.evaluations.steps, curve.evaluations.values), ([0, 4, 8], [4.0, 0.5, 0.25]))
            self.assertIsNone(plot_loss.read_curve(file, "step").evaluations)
            plot_loss.draw([curve], "loss", 0.8, False, Path(folder) / "loss.png")
            axes = plot_loss.plt.gcf().axes[0]
            dashed = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
            self.assertEqual([list(line.get_ydata()) for line in dashed], [[4.0, 0.5, 0.25]])
            run = Run(folder)
            self.assertEqual(run.metric("loss").tolist(), [1.0 / step for step in range(1, 9)])
            self.assertEqual(run.steps().tolist(), list(range(1, 9)))
            self.assertEqual(run.metric("eval_loss").tolist(), [4.0, 0.5, 0.25])
            self.assertEqual(run.steps("eval_loss").tolist(), [0, 4, 8])
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                plot_loss.print_table([curve], "loss")
            self.assertRegex(printed.getvalue().splitlines()[2], r", evaluated +0-8 +4\.0000 +0\.2500 +0\.2500 +8$")


if __name__ == "__main__":
    unittest.main()
