#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks GPU code on purpose, one line at a time, and expects a test of the emulation to fail each time.

  tests/emulation/mutations/run.py [--folder FOLDER] [--only WORD]

mutations.txt lists what is broken. The sources are copied to FOLDER (default: build/mutations) and built there, first as
they are: then all tests have to pass. Each mutant then builds and runs its own tests; the table of what became of each is
printed last. Exit status 1 when one was not caught. By hand: it takes an hour of two cores.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LIST = Path(__file__).resolve().parent / "mutations.txt"
TEST_TIMEOUT_S = 900


class Mutation:
    """A line of the list: NAME | FILE | SED EXPRESSION | TEST [TEST ...]"""

    def __init__(self, line):
        self.name, self.file, self.expression, tests = (part.strip() for part in line.split(" | "))
        self.tests = tests.split()


def read_list():
    lines = (line.strip() for line in LIST.read_text().splitlines())
    return [Mutation(line) for line in lines if line and not line.startswith("#")]


def target_of(test):
    return re.sub(r"_np\d+$", "", test)


def copy_sources(to):
    """Copies what git knows and what it would take, and only where it differs, so that a second run builds little."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        source, copy = ROOT / name, to / name
        if not source.is_file() or (copy.is_file() and source.read_bytes() == copy.read_bytes()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy, follow_symlinks=False)
        copy.touch()


def build(folder, tests):
    """None, or the last line of what the build said."""
    targets = sorted({target_of(test) for test in tests})
    done = subprocess.run(["cmake", "--build", folder, "-j", "2", "--target", *targets], capture_output=True, text=True)
    return None if done.returncode == 0 else "\n".join(done.stdout.splitlines()[-20:])


def run(folder, test):
    """None when the test passes, else what it said."""
    command = ["ctest", "--test-dir", str(folder), "-R", f"^{test}$", "--output-on-failure", "--no-tests=error",
               "--timeout", str(TEST_TIMEOUT_S)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    return None if done.returncode == 0 else done.stdout


def reason(output):
    """The line of a failing test that says most."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", output)
    for pattern in (r"emulated (?:GPU|NCCL): .*", r"rank \d+: .*", r".*error: in .*", r".*\*\*\*(?:Timeout|Failed|Exception).*"):
        found = re.search(pattern, output)
        if found:
            return " ".join(found.group(0).split())[:150]
    return "failed"


def try_mutation(mutation, source, folder):
    """What became of it: (caught or not or useless, by which test, why)."""
    path = source / mutation.file
    whole = path.read_text()
    try:
        subprocess.run(["sed", "-E", "-i", mutation.expression, str(path)], check=True)
        if path.read_text() == whole:
            return "USELESS", "", "the expression changes nothing"
        broken = build(folder, mutation.tests)
        if broken is not None:
            return "USELESS", "", "it does not build: " + broken
        for test in mutation.tests:
            output = run(folder, test)
            if output is not None:
                return "caught", test, reason(output)
        return "MISSED", "", ""
    finally:
        path.write_text(whole)
        os.utime(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutations")
    parser.add_argument("--only", default="", help="those with this word in their name or file")
    arguments = parser.parse_args()
    mutations = [m for m in read_list() if arguments.only in m.name or arguments.only in m.file]
    source = arguments.folder / "source"
    folder = source / "build" / "release"
    copy_sources(source)
    subprocess.run(["cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DSFT_CUDA=ON",
                    "-DCMAKE_OPTIMIZE_DEPENDENCIES=ON"], check=True,
                   stdout=subprocess.DEVNULL)
    tests = sorted({test for mutation in mutations for test in mutation.tests})
    print(f"{len(mutations)} mutations; building and running {len(tests)} tests as they are", flush=True)
    broken = build(folder, tests)
    if broken is not None:
        sys.exit("the sources do not build:\n" + broken)
    for test in tests:
        output = run(folder, test)
        if output is not None:
            sys.exit(f"{test} fails without a mutation:\n{output}")

    rows = []
    for mutation in mutations:
        start = time.monotonic()
        rows.append((mutation, *try_mutation(mutation, source, folder)))
        _, outcome, test, _ = rows[-1]
        print(f"{outcome:8} {mutation.name} {test} ({time.monotonic() - start:.0f} s)", flush=True)
    print("\n| mutation | file | outcome | caught by | how |\n|---|---|---|---|---|")
    for mutation, outcome, test, why in rows:
        cells = (mutation.name, mutation.file, outcome, test, why.replace("|", "/").replace("\n", " ")[-300:])
        print("| " + " | ".join(cells) + " |")
    num_caught = sum(row[1] == "caught" for row in rows)
    print(f"\n{num_caught} of {len(rows)} caught")
    sys.exit(0 if num_caught == len(rows) else 1)


if __name__ == "__main__":
    main()
