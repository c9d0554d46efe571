#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that words.py finds what it is for, and that its budget can only fall: on a small tree of its own.

  words_test.py WORDS_PY
"""

import contextlib
import importlib.util
import io
import sys
import tempfile
from pathlib import Path

FINE = '''// Copies rows. Which rows? `behind` is a word of code. Of course it ends. Numbers of ranks and line numbers are fine.
#include "what/whose.hpp"
const char* text = "The rank waits for others";
'''
PAGE = '''# What is a heading

Ranks wait. Which one? A `beside` of code.

```
What a block prints, behind a fence.
```
'''


def program_at(path):
    spec = importlib.util.spec_from_file_location("words", path)
    words = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(words)
    return words


class Tree:
    def __init__(self, folder, script):
        self.root, self.program = Path(folder), program_at(script)
        self.write("src/base/io/a.cpp", FINE)
        self.write("docs/page.md", PAGE)
        self.write("tests/docs/words_budget.txt", "docs 0 0\nsrc/base/io 0 0\n")
        self.budget = self.root / "tests/docs/words_budget.txt"

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def run(self, *words):
        printed = io.StringIO()
        sys.argv = ["words.py", str(self.root), *words]
        with contextlib.redirect_stdout(printed):
            status = self.program.main()
        return status, printed.getvalue()

    def expect(self, status, text, *words):
        got = self.run(*words)
        assert got[0] == status and text in got[1], (status, text, got)


def main():
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(folder, sys.argv[1])
        tree.expect(0, "0 avoided openings, 0 avoided words")

        # Each of these is one more than the budget allows.
        for comment in ("// What copies rows.", "/// Whose rows they are.", "int a = 0;  // of a row",
                        "// It copies. That of b not.", "/* Those of b. */", "// The same for b."):
            tree.write("src/base/io/a.cpp", FINE + comment + "\n")
            tree.expect(1, "src/base/io: 1 avoided openings, 0 are allowed")
            tree.expect(1, "src/base/io: 1 avoided openings", "--lower")
        for line in ("// It is behind b.", 'f("a rank " "that stands still");', "// In the mean 3.", "// Nobody waits.",
                     "// The numbers of a tensor and its numbers."):
            tree.write("src/base/io/a.cpp", FINE + line + "\n")
            tree.expect(1, "src/base/io: 1 avoided words, 0 are allowed")
        tree.write("src/base/io/a.cpp", FINE)
        for text in ("What it costs is time.\n", "- Whose it is.\n", "| a | What it costs |\n|---|---|\n"):
            tree.write("docs/page.md", PAGE + "\n" + text)
            tree.expect(1, "docs: 1 avoided openings, 0 are allowed")
        tree.write("docs/page.md", PAGE)
        tree.write("src/apps/run.sh", 'echo "it goes beside others"\ncat <<TEXT\nWhat it does.\nTEXT\n')
        tree.expect(1, "src/apps: 1 avoided openings, 0 are allowed")
        tree.expect(1, "src/apps: 1 avoided words, 0 are allowed")
        (tree.root / "src/apps/run.sh").unlink()

        # Fewer than the budget says asks for a lower one, and only --lower writes it.
        tree.budget.write_text("docs 2 1\nsrc/base/io 0 0\n")
        tree.expect(1, "run tests/docs/words.py . --lower")
        tree.write("src/base/io/a.cpp", FINE + "// What is moved.\n")
        tree.expect(1, "src/base/io: 1 avoided openings, 0 are allowed", "--lower")
        assert "docs 2 1" in tree.budget.read_text()
        # A folder without a budget may have what the others have fewer.
        (tree.root / "src/base/io/a.cpp").rename(tree.root / "src/a.cpp")
        (tree.root / "src/base/io").rmdir()
        tree.expect(0, "1 avoided openings, 0 avoided words", "--lower")
        tree.expect(0, "1 avoided openings, 0 avoided words")
        tree.write("docs/page.md", PAGE + "\nWhat it costs.\n")
        tree.expect(1, "docs: 1 avoided openings, 0 are allowed")
    print("words.py finds avoided words, and its budget only falls")


if __name__ == "__main__":
    main()
