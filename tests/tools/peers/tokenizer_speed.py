#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast the tokenizers are beside PyPI's `tokenizers`, and what more threads bring.

usage: tokenizer_speed.py BIN_FOLDER RECORDS.jsonl FOLDER ... [--pairs N] [--threads N ...] [--copies N]

BIN_FOLDER has `tokenize` and `sft-prepare`; each FOLDER a tokenizer.json. The texts are the records' strings. On one thread
both encode them in turn, and the ratio is that of a pair's processor times, so other work on the machine counts little.
Then `tokenize` and `sft-prepare` take the texts --copies times, with each number of threads in turn; sft-prepare also reads,
packs, compresses and writes. Medians are printed, with the least and the most behind the ratio.
"""
import argparse
import json
import os
import pathlib
import platform
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import tokenizers


def encoded(texts):
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def time_of_tokenize(program, folder, data, num_threads):
    """Seconds of the clock, and of processors."""
    done = subprocess.run([program, folder, "--time", "--threads", str(num_threads)], input=data, capture_output=True, check=True)
    return tuple(map(float, done.stdout.split()))


def time_of_prepare(program, folder, records, num_threads):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as output:
        subprocess.run([program, "--input", records, "--output", os.path.join(output, "rows"), "--tokenizer", folder,
                        "--eos_token", "<|endoftext|>", "--num_threads", str(num_threads)], check=True, capture_output=True)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def spread(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def compare(program, folder, texts, num_pairs):
    data, size = encoded([text.encode() for text in texts]), sum(len(text.encode()) for text in texts)
    ours, theirs = [], []
    for _ in range(num_pairs):
        ours.append(time_of_tokenize(program, folder, data, 1)[1])
        fresh = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))  # without what it has cached
        begin = time.process_time()
        for text in texts:
            fresh.encode(text, add_special_tokens=False)
        theirs.append(time.process_time() - begin)
    ratios = [b / a for a, b in zip(ours, theirs)]
    print(f"{folder.name}: {size / statistics.median(ours) / 1e6:.1f} MB/s, tokenizers {size / statistics.median(theirs) / 1e6:.2f} "
          f"MB/s, ratio {spread(ratios)}", flush=True)


def scale(name, measure, threads, num_rounds, size):
    times = {n: [] for n in threads}
    for _ in range(num_rounds):
        for n in threads:
            times[n].append(measure(n))
    for n in threads:
        walls, processors = zip(*times[n])
        ratios = [one[0] / many[0] for one, many in zip(times[threads[0]], times[n])]
        print(f"{name}, {n} threads: {statistics.median(walls):.2f} s, {size / statistics.median(walls) / 1e6:.1f} MB/s, processors "
              f"{statistics.median(processors):.2f} s, {spread(ratios)} times as fast as {threads[0]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("records", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--copies", type=int, default=5)
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    records = map(json.loads, options.records.read_text(encoding="utf-8").splitlines())
    texts = ["\n".join(value for value in record.values() if isinstance(value, str)) for record in records]
    print(f"tokenizers {tokenizers.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.1f}, {len(texts)} texts")
    for folder in options.folders:
        compare(options.binaries / "tokenize", folder, texts, options.pairs)
    with tempfile.TemporaryDirectory() as work:
        file = pathlib.Path(work) / "texts.jsonl"
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts * options.copies), encoding="utf-8")
        data = encoded([text.encode() for text in texts * options.copies])
        size = sum(len(text.encode()) for text in texts) * options.copies
        for folder in options.folders:
            scale(f"{folder.name}, tokenize", lambda n: time_of_tokenize(options.binaries / "tokenize", folder, data, n),
                  options.threads, options.pairs, size)
            scale(f"{folder.name}, sft-prepare", lambda n: time_of_prepare(options.binaries / "sft-prepare", folder, file, n),
                  options.threads, options.pairs, size)
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
