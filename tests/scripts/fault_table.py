#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the table of faults in docs/clusters.md against the program.

  fault_table.py SOURCE_FOLDER BUILD_FOLDER

Each line that it quotes stands in the sources, each status in docs/running.md, each test among those of the build, and what is
started again by itself has a status that sft-run takes for one that a start can cure.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

HEADING = "## What goes wrong, and what comes of it"
OF_LAUNCHER = {137}  # what a launcher makes of a rank that was killed


def rows_of(text, heading):
    """Cells of the table behind a heading, without its head."""
    lines = text.split(heading)[1].split("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return rows[2:]


def texts_of_programs(root):
    """Their sources, where `...` is in place of what is put into a text, and texts go on over the end of a line."""
    paths = [path for suffix in ("cpp", "hpp", "sh") for path in (root / "src").rglob(f"*.{suffix}")]
    text = re.sub(r'"\s*\n\s*"', "", "\n".join(path.read_text() for path in paths))
    return re.sub(r"\{[^{}\n]*\}|%[sd]", "...", text)


def statuses_of(page):
    table = page.split("## Exit status")[1].split("\n## ")[0]
    return {int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}


def tests_of(build, root):
    """Names of the build's tests, and of those that its CMakeLists.txt would add with CUDA where it has none."""
    command = ["ctest", "--test-dir", build, "--show-only=json-v1"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    tests = {test["name"] for test in json.loads(listed.stdout)["tests"]}
    if not any(name.startswith("emulation_") for name in tests):
        for lists in (root / "tests/emulation").rglob("CMakeLists.txt"):
            tests |= set(re.findall(r"sft_(?:script|run)_test\((?:\w+ NAME )?(\w+)", lists.read_text()))
    return tests


def main():
    root, build = Path(sys.argv[1]), sys.argv[2]
    rows = rows_of((root / "docs/clusters.md").read_text(), HEADING)
    known = statuses_of((root / "docs/running.md").read_text()) | OF_LAUNCHER
    text, tests, wrong = texts_of_programs(root), tests_of(build, root), []
    if len(rows) < 10:
        wrong.append(f"the table has {len(rows)} rows")
    for what, lines, status, again, names in rows:
        for line in re.findall(r"`([^`]+)`", lines):
            parts = [part.strip(" :()") for part in line.split("...")]
            wrong += [f"{what}: no source says `{part}`" for part in parts if part not in text]
        own = {int(number) for number in re.findall(r"\d+", status)}
        if not own <= known:
            wrong.append(f"{what}: status {status} is not in docs/running.md")
        if again.startswith("by itself") and own & {0, 2, 3, 4, 75}:
            wrong.append(f"{what}: nothing starts status {status} again by itself")
        named = re.findall(r"`(\w+)`", names)
        if not named:
            wrong.append(f"{what}: no test")
        wrong += [f"{what}: there is no test {name}" for name in named if name not in tests]
    print("\n".join(wrong) or f"{len(rows)} rows, all as the program has it")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
