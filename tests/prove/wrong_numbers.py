#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds docs/wrong-numbers.md against the program.

  wrong_numbers.py SOURCE_FOLDER BUILD_FOLDER

Each part has a thread of others, tests that the build has, and commands, which end well, one after the other, in one folder.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def tests_of(build):
    command = ["ctest", "--test-dir", build, "--show-only=json-v1"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return {test["name"] for test in json.loads(listed.stdout)["tests"]}


def main():
    source, build = Path(sys.argv[1]), Path(sys.argv[2])
    page = (source / "docs/wrong-numbers.md").read_text()
    tests, wrong = tests_of(build), []
    parts = page.split("\n### ")[1:]
    if len(parts) < 8:
        wrong.append(f"the page has {len(parts)} parts")
    for part in parts:
        title = part.splitlines()[0]
        named = re.search(r"Found by: ([^.]*)\.", part)
        names = re.findall(r"`(\w+)`", named.group(1)) if named else []
        wrong += [f"{title}: no test is called {name}" for name in names if name not in tests]
        if not names:
            wrong.append(f"{title}: it names no test")
        if not re.search(r"#\d+", part):
            wrong.append(f"{title}: it names no thread")
        if "```sh" not in part:
            wrong.append(f"{title}: it has no command")
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL))
    with tempfile.TemporaryDirectory() as folder:
        for program in ("sft", "sft-prepare", "sft-prove", "sft-run"):
            os.symlink(build / "bin" / program, f"{folder}/{program}")
        shown = subprocess.run(["bash", "-euxo", "pipefail", "-c", commands], cwd=folder, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if shown.returncode != 0:
        wrong.append(f"its commands end with status {shown.returncode}:\n{shown.stdout[-6000:]}")
    proved = shown.stdout.count("the same: rounding explains every difference")
    if proved != commands.count("./sft-prove "):
        wrong.append(f"{proved} of {commands.count('./sft-prove ')} proofs hold")
    for line in wrong:
        print("WRONG", line)
    print(f"{len(parts)} parts, {proved} proofs")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
