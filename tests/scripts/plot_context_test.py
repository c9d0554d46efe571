#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plot_context.py takes the longest rows and their rates from a table of context.sh, and draws a curve a method, each from
the one rank that they have in common.

    plot_context_test.py POSTPROCESS_FOLDER
"""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, sys.argv.pop(1))
import plot_context  # noqa: E402  (its folder is an argument)

HEADER = "ranks,sp_method,row_tokens,limit_bytes,planned_bytes,fits,peak_bytes,tokens_per_second\n"
LINES = """\
1,-,1024,67108864,50000000,1,51000000,4000
1,-,1280,67108864,60000000,1,61000000,3900
1,-,1536,67108864,70000000,0,,
2,ring,1024,67108864,45000000,1,45500000,5000
2,ring,2048,67108864,60000000,1,60500000,4500
2,ring,2304,67108864,68000000,0,,
4,ring,1024,67108864,40000000,1,41000000,4800
4,ring,2048,67108864,50000000,1,,
4,ring,3840,67108864,67000000,1,66000000,4100
4,ring,4096,67108864,67200000,0,,
2,ulysses,1024,67108864,44000000,1,45000000,5500
2,ulysses,2560,67108864,66000000,1,66500000,4700
2,ulysses,2816,67108864,70000000,0,,
"""


class Pictures(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def table_of(self, lines: str) -> plot_context.Table:
        file = self.folder / "context.csv"
        file.write_text(HEADER + lines, encoding="utf-8")
        return plot_context.read_table(file)

    def curves(self, panel: int) -> dict[str, tuple[list[float], list[float]]]:
        """Of the figure drawn last."""
        lines = plot_context.plt.gcf().axes[panel].get_lines()
        return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in lines}

    def test_longest_rows(self) -> None:
        picture = self.folder / "length.png"
        plot_context.draw_length(self.table_of(LINES), picture)
        self.assertEqual(self.curves(0), {"ring": ([1, 2, 4], [1280, 2048, 3840]), "ulysses": ([1, 2], [1280, 2560]),
                                          "as many tokens a rank": ([1, 4], [1280, 5120])})
        self.assertIn("64 MiB", plot_context.plt.gcf().axes[0].get_title())
        self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")

    def test_rates_at_the_longest_row_and_at_a_common_one(self) -> None:
        picture = self.folder / "throughput.png"
        plot_context.draw_throughput(self.table_of(LINES), picture)
        self.assertEqual(self.curves(0), {"ring": ([1, 2, 4], [3900, 4500, 4100]), "ulysses": ([1, 2], [3900, 4700])})
        self.assertEqual(self.curves(1), {"ring": ([1, 2, 4], [4000, 5000, 4800]), "ulysses": ([1, 2], [4000, 5500])})
        self.assertIn("1024", plot_context.plt.gcf().axes[1].get_title())
        self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")

    def test_a_case_that_never_fits_has_no_point(self) -> None:
        table = self.table_of(LINES + "2,all_gather,256,67108864,68000000,0,,\n")
        plot_context.draw_length(table, self.folder / "length.png")
        self.assertEqual(self.curves(0)["all_gather"], ([1], [1280]))
        plot_context.draw_throughput(table, self.folder / "throughput.png")
        self.assertEqual(len(plot_context.plt.gcf().axes), 1)  # no length that all were trained on

    def test_one_rank_alone(self) -> None:
        table = self.table_of("".join(LINES.splitlines(keepends=True)[:3]))
        plot_context.draw_length(table, self.folder / "length.png")
        self.assertEqual(self.curves(0)["-"], ([1], [1280]))

    def test_other_files_are_refused(self) -> None:
        for lines in ("1,-,1024\n", "1,-,1024,67108864,50000000,maybe,,\n"):
            with self.assertRaisesRegex(ValueError, r"context\.csv:2 is no line"):
                self.table_of(lines)
        with self.assertRaisesRegex(ValueError, "has 0 memory limits"):
            self.table_of("")
        with self.assertRaisesRegex(ValueError, "has 2 memory limits"):
            self.table_of(LINES + "8,ring,1024,1,2,0,,\n")


if __name__ == "__main__":
    unittest.main()
