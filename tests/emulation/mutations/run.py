#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks GPU code on purpose, one line at a time, and expects a test of the emulation to fail each time.

  tests/emulation/mutations/run.py [--folder FOLDER] [--only WORD] [--jobs N] [--list]

mutations.txt lists what is broken. The sources are copied to FOLDER (default: build/mutations) and built there, first as
they are: then all tests have to pass. Each mutant then builds and runs its own tests; the table of what became of each is
printed last. Exit status 1 when one was not caught. By hand: it takes an hour or two of two cores. --list builds nothing
and prints the lines that would be broken; it fails where an expression changes none.
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
# A missing wait shows in every schedule: a few are enough here.
ENVIRONMENT = {"SFT_EMULATED_SCHEDULES": "2"}


class Mutant:
    """A file with one change. `edit`: from its text to the broken one."""

    def __init__(self, name, file, edit, tests):
        self.name, self.file, self.edit, self.tests = name, file, edit, tests

    def place(self, text):
        """FILE:LINE of the first line that differs."""
        for number, (line, other) in enumerate(zip(text.splitlines(), self.edit(text).splitlines() + [""]), start=1):
            if line != other:
                return f"{self.file}:{number}"
        return None


def sed(expression):
    def edit(text):
        return subprocess.run(["sed", "-E", expression], input=text, capture_output=True, text=True, check=True).stdout

    return edit


def without_line(number):
    def edit(text):
        lines = text.splitlines(keepends=True)
        return "".join(lines[:number] + lines[number + 1:])

    return edit


def mutants_of(line):
    """Of a line of the list, see there: one, or one for each line that `each` names."""
    name, file, expression, tests = (part.strip() for part in line.split(" | "))
    if not expression.startswith("each "):
        return [Mutant(name, file, sed(expression), tests.split())]
    pattern = re.compile(expression.removeprefix("each "))
    numbers = [i for i, text in enumerate((ROOT / file).read_text().splitlines()) if pattern.search(text)]
    return [Mutant(f"{name} ({k} of {len(numbers)})", file, without_line(number), tests.split())
            for k, number in enumerate(numbers, start=1)] or [Mutant(name, file, str, tests.split())]


def read_list():
    lines = (line.strip() for line in LIST.read_text().splitlines())
    return [mutant for line in lines if line and not line.startswith("#") for mutant in mutants_of(line)]


def name_of(test):
    """Its name in ctest; behind a slash may be which of its cases are run."""
    return test.partition("/")[0]


def target_of(test):
    return re.sub(r"_np\d+$", "", name_of(test))


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


def build(folder, tests, jobs):
    """None, or the last lines of what the build said."""
    targets = sorted({target_of(test) for test in tests})
    done = subprocess.run(["cmake", "--build", folder, "-j", jobs, "--target", *targets], capture_output=True, text=True)
    return None if done.returncode == 0 else "\n".join(done.stdout.splitlines()[-20:])


def run(folder, tests, cases="", jobs="1"):
    """None when all pass, else what they said."""
    names = "|".join(sorted({name_of(test) for test in tests}))
    command = ["ctest", "--test-dir", str(folder), "-R", f"^({names})$", "--output-on-failure", "--no-tests=error",
               "--timeout", str(TEST_TIMEOUT_S), "-j", jobs]
    environment = os.environ | ENVIRONMENT | ({"BOOST_TEST_RUN_FILTERS": cases} if cases else {})
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    if "no test cases matching filter" in done.stdout:
        sys.exit(f"{names} has no cases `{cases}`")
    return None if done.returncode == 0 else done.stdout


def reason(output):
    """The line of a failing test that says most."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", output)
    for pattern in (r"emulated (?:GPU|NCCL): .*", r"rank \d+: .*", r".*error: in .*", r".*\*\*\*(?:Timeout|Failed|Exception).*"):
        found = re.search(pattern, output)
        if found:
            return " ".join(found.group(0).split())[:150]
    return "failed"


def try_mutant(mutant, source, folder, jobs):
    """What became of it: (caught or not or useless, by which test, why)."""
    path = source / mutant.file
    whole = path.read_text()
    broken = mutant.edit(whole)
    if broken == whole:
        return "USELESS", "", "the expression changes nothing"
    try:
        path.write_text(broken)
        said = build(folder, mutant.tests, jobs)
        if said is not None:
            return "USELESS", "", "it does not build: " + said
        for test in mutant.tests:
            output = run(folder, [test], test.partition("/")[2])
            if output is not None:
                return "caught", test, reason(output)
        return "MISSED", "", ""
    finally:
        path.write_text(whole)
        os.utime(path)


def print_list(mutants):
    places = [mutant.place((ROOT / mutant.file).read_text()) for mutant in mutants]
    for mutant, place in zip(mutants, places):
        print(f"{place or 'NOTHING'}  {mutant.name}  [{' '.join(mutant.tests)}]")
    return None not in places


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutations")
    parser.add_argument("--only", default="", help="those with this word in their name or file")
    parser.add_argument("--jobs", default="2", help="that the build and the tests as they are may run at a time")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    mutants = [m for m in read_list() if arguments.only in m.name or arguments.only in m.file]
    if arguments.list:
        sys.exit(0 if print_list(mutants) else 1)
    source = arguments.folder / "source"
    folder = source / "build" / "release"
    copy_sources(source)
    subprocess.run(["cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DSFT_CUDA=ON",
                    "-DCMAKE_OPTIMIZE_DEPENDENCIES=ON"], check=True,
                   stdout=subprocess.DEVNULL)
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    print(f"{len(mutants)} mutants; building and running {len({name_of(test) for test in tests})} tests as they are",
          flush=True)
    said = build(folder, tests, arguments.jobs)
    if said is not None:
        sys.exit("the sources do not build:\n" + said)
    output = run(folder, tests, jobs=arguments.jobs)
    if output is not None:
        sys.exit(f"a test fails without a mutation:\n{output}")

    print("\n| mutation | place | outcome | caught by | seconds | how |\n|---|---|---|---|---|---|", flush=True)
    num_caught = 0
    for mutant in mutants:
        start = time.monotonic()
        outcome, test, why = try_mutant(mutant, source, folder, arguments.jobs)
        num_caught += outcome == "caught"
        place = mutant.place((source / mutant.file).read_text()) or mutant.file
        cells = (mutant.name, place, outcome, test, f"{time.monotonic() - start:.0f}",
                 why.replace("|", "/").replace("\n", " ")[-300:])
        print("| " + " | ".join(cells) + " |", flush=True)
    print(f"\n{num_caught} of {len(mutants)} caught")
    sys.exit(0 if num_caught == len(mutants) else 1)


if __name__ == "__main__":
    main()
