#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives each reader of tests/fuzz to libFuzzer for some seconds, several at a time.

  tests/fuzz/run.py BUILD_FOLDER PROGRAM [--seconds 60] [--jobs 2] [--only READER ... | --quarter N]

PROGRAM is fuzz_all, or fuzz_inputs, which has those of what strangers give. --quarter N takes every fourth reader
of it, from number N on: who counts up has given all of them their time after four runs. N is also libFuzzer's seed
then, so that a run from an empty build folder can be repeated.

It begins with the seeds and what earlier runs in this build folder found worth keeping (fuzz/corpus). An input that
ends a reader otherwise than by an error for the user, or that takes too long or too much memory, is in fuzz/findings,
and is printed in base64 with what the reader said of it, for who cannot reach that folder; the exit status is then 1. A finding that is mended goes to tests/fuzz/seeds, which the test fuzz_readers reads in every
build.

Files without a seal reach the HDF5 library as they are, and it crashes on some of them. Where it stands above all of
our code in the stack of a crash, the finding is counted apart.
"""

import argparse
import base64
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 120  # for one input; far more than any needs, for machines that are busy
OF_HDF5 = ("shard", "checkpoint")  # readers of HDF5 files
MAX_SHOWN_BYTES = 4096
MAX_BYTES = {"shard": 32768, "checkpoint": 32768, "tokenizer": 16384}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", nargs="+")
    which.add_argument("--quarter", type=int)
    return parser.parse_args()


class Tally:
    """What became of a reader."""

    def __init__(self):
        self.inputs, self.branches, self.of_library, self.findings, self.said = 0, 0, 0, [], ""

    def add(self, text, new):
        """What one run of libFuzzer printed, and the inputs that it left."""
        self.inputs += max([0] + [int(number) for number in re.findall(r"^#(\d+)\s", text, re.MULTILINE)])
        self.branches = max([self.branches] + [int(count) for count in re.findall(r" cov: (\d+)", text)])
        if new and is_of_library(text):
            self.of_library += len(new)
        elif new:
            self.findings += new
            self.said += text


def is_of_library(text):
    """Whether HDF5 stands above all of ours in the first stack that was printed."""
    for frame in re.findall(r"^ +#\d+ 0x\S+ .*$", text, re.MULTILINE):
        if "libhdf5" in frame:
            return True
        if " in sft::" in frame:
            return False
    return False


def describe(tally):
    """What the reader said of its findings, and the small ones themselves."""
    telling = re.compile(r"no error for a user|ERROR: |runtime error: |SUMMARY: | in sft::")
    lines = [line for line in tally.said.splitlines() if telling.search(line)]
    print("\n".join(f"  {line.strip()[:300]}" for line in lines[:20]))
    for path in tally.findings:
        content = path.read_bytes()
        if path.suffix != ".log" and len(content) <= MAX_SHOWN_BYTES:
            print(f"  {path.name}: base64 {base64.b64encode(content).decode()}")


def fuzz(program, reader, folder, seconds, seed):
    """Runs libFuzzer on the reader until its time is over."""
    corpus, findings = folder / "corpus" / reader, folder / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    tally, end = Tally(), time.monotonic() + seconds
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        # What HDF5 keeps to the end of the process is no leak.
        environment = os.environ | {"TMPDIR": scratch, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
        while (left_s := int(end - time.monotonic())) > 0:
            before = set(findings.iterdir())
            result = subprocess.run(
                [program, f"--reader={reader}", f"-max_total_time={left_s}", f"-timeout={TIMEOUT_S}",
                 f"-seed={seed}", f"-report_slow_units={TIMEOUT_S}", "-rss_limit_mb=2048", "-malloc_limit_mb=1024",
                 f"-max_len={MAX_BYTES.get(reader, 4096)}",
                 f"-artifact_prefix={findings}/{reader}-", "-print_final_stats=1", corpus, HERE / "seeds" / reader],
                env=environment, capture_output=True, text=True, errors="replace", check=False)
            log = folder / f"{reader}.log"
            log.write_text(result.stdout + result.stderr)
            new = sorted(path for path in set(findings.iterdir()) - before if path.name.startswith(f"{reader}-"))
            tally.add(result.stderr, new or ([log] if result.returncode != 0 else []))
            if reader not in OF_HDF5 or tally.findings:
                break
    return tally


def main():
    options = parse()
    program = options.build.resolve() / "bin" / options.program
    folder = options.build.resolve() / "fuzz"
    readers = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    if options.quarter is not None:
        readers = readers[options.quarter % 4::4]
    readers = options.only or readers
    with ThreadPoolExecutor(options.jobs) as pool:
        seed = options.quarter or 0  # 0: libFuzzer takes one
        tallies = list(pool.map(lambda reader: fuzz(program, reader, folder, options.seconds, seed), readers))
    width = max(map(len, readers))
    print(f"{'':{width}}    inputs  branches  of HDF5  findings")
    for reader, tally in zip(readers, tallies):
        print(f"{reader:{width}}  {tally.inputs:8}  {tally.branches:8}  {tally.of_library:7}  {len(tally.findings):8}  "
              f"{' '.join(map(str, tally.findings))}".rstrip())
        if tally.findings:
            describe(tally)
    return 1 if any(tally.findings for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
