#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks GPU code and that of AMX on purpose, one line at a time, and expects a test to fail each time.

  tests/emulation/mutations/run.py [--folder FOLDER] [--only WORD] [--jobs N] [--trust] [--list]

mutations.txt lists what is broken. The sources are copied to FOLDER (default: build/mutations) and built there, first as
they are: then all tests have to pass. Each mutant then builds and runs its own tests; the table of what became of each is
printed last. Exit status 1 when one was not caught. By hand: it takes an hour or two of two cores. --list builds nothing
and prints the lines that would be broken; it fails where an expression changes none.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LIST = Path(__file__).resolve().parent / "mutations.txt"
TEST_TIMEOUT_S = 1800
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


def programs_of_tests(folder):
    """The programs in FOLDER/bin that each test runs, by the test's name: their targets. ctest does not know those of tests
    that are not built yet."""
    programs = {}
    for path in folder.rglob("CTestTestfile.cmake"):
        for name, command in re.findall(r"add_test\(\[=\[(.*?)\]=\] (.*)\)", path.read_text()):
            programs[name] = re.findall(rf'"{re.escape(str(folder))}/bin/([^"/]+)"', command)
    return programs


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
    frontend = ROOT / "build" / "cudnn-frontend"  # without its headers there are no tests of cuDNN
    link = to / "build" / "cudnn-frontend"
    if frontend.is_dir() and not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(frontend)


def build(folder, tests, jobs):
    """None, or the last lines of what the build said."""
    programs = programs_of_tests(folder)
    targets = sorted({program for test in tests for program in programs[name_of(test)]})
    done = subprocess.run(["cmake", "--build", folder, "-j", jobs, "--target", *targets], capture_output=True, text=True)
    return None if done.returncode == 0 else "\n".join((done.stdout + done.stderr).splitlines()[-20:])


class Tests:
    """The tests of a build, run without ctest: it would wait for the end of one that has failed already."""

    def __init__(self, folder):
        text = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], check=True, capture_output=True,
                              text=True).stdout
        self.commands, self.environments = {}, {}
        for test in json.loads(text)["tests"]:
            if "command" not in test:
                continue  # of a target that is not built
            properties = {entry["name"]: entry["value"] for entry in test["properties"]}
            variables = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
            self.commands[test["name"]] = test["command"]
            self.environments[test["name"]] = os.environ | variables | ENVIRONMENT

    def run(self, test):
        """None when it passes, else what it said up to its first wrong check."""
        name, _, cases = test.partition("/")
        command = self.commands[name] + ([f"--run_test={cases}"] if cases else [])
        output = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env=self.environments[name], start_new_session=True) as process:
            watch = threading.Timer(TEST_TIMEOUT_S, os.killpg, (process.pid, signal.SIGTERM))
            watch.start()
            for line in process.stdout:
                output.append(line)
                if "error: in " in line:
                    os.killpg(process.pid, signal.SIGTERM)
                    break
            has_ended = watch.is_alive()
            watch.cancel()
            for line in process.stdout:
                output.append(line)
        text = "".join(output)
        if "no test cases matching filter" in text:
            sys.exit(f"{name} has no cases `{cases}`")
        return None if process.returncode == 0 else text if has_ended else text + "did not end\n"


def reason(output):
    """The line of a failing test that says most."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", output)
    for pattern in (r"emulated (?:GPU|NCCL): .*", r"rank \d+: .*", r"sft: error: .*", r".*error: in .*", r"did not end"):
        found = re.search(pattern, output)
        if found:
            return " ".join(found.group(0).split())[:150]
    return next((line.strip()[:150] for line in reversed(output.splitlines()) if line.strip()), "failed")


def try_mutant(mutant, source, folder, tests, jobs):
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
            output = tests.run(test)
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
    parser.add_argument("--jobs", default="2", help="that a build may run at a time")
    parser.add_argument("--trust", action="store_true", help="that the tests pass as they are, which is not tried then")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    mutants = [m for m in read_list() if arguments.only in m.name or arguments.only in m.file]
    if arguments.list:
        sys.exit(0 if print_list(mutants) else 1)
    source = arguments.folder / "source"
    folder = source / "build" / "release"
    copy_sources(source)
    subprocess.run(["cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DSFT_CUDA=ON", "-DSFT_WERROR=OFF",
                    "-DCMAKE_OPTIMIZE_DEPENDENCIES=ON"], check=True,
                   stdout=subprocess.DEVNULL)
    names = sorted({test for mutant in mutants for test in mutant.tests})
    print(f"{len(mutants)} mutants of {len(names)} tests; these are built, and have to pass, as they are", flush=True)
    said = build(folder, names, arguments.jobs)
    if said is not None:
        sys.exit("the sources do not build:\n" + said)
    tests = Tests(folder)
    for name in [] if arguments.trust else names:
        output = tests.run(name)
        if output is not None:
            sys.exit(f"{name} fails without a mutation:\n{output}")

    print("\n| mutation | place | outcome | caught by | seconds | how |\n|---|---|---|---|---|---|", flush=True)
    num_caught = 0
    for mutant in mutants:
        start = time.monotonic()
        outcome, test, why = try_mutant(mutant, source, folder, tests, arguments.jobs)
        num_caught += outcome == "caught"
        place = mutant.place((source / mutant.file).read_text()) or mutant.file
        cells = (mutant.name, place, outcome, test, f"{time.monotonic() - start:.0f}",
                 why.replace("|", "/").replace("\n", " ")[-300:])
        print("| " + " | ".join(cells) + " |", flush=True)
    print(f"\n{num_caught} of {len(mutants)} caught")
    sys.exit(0 if num_caught == len(mutants) else 1)


if __name__ == "__main__":
    main()
