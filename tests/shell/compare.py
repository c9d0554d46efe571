#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two runs, or two files of tensors: status 0 where they are the same, 3 and a line where they differ.

  compare.py evaluation RUN RUN TOLERANCE      last losses of evaluation, absolute
  compare.py tensors FILE FILE [TOLERANCE]     names, dtypes, shapes and bytes; with a tolerance names and float32 values
"""
import json
import struct
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import tensor_files  # noqa: E402

DIFFERENT = 3


def logged(run, key):
    lines = map(json.loads, Path(run, "metrics.jsonl").read_text().splitlines())
    return [line[key] for line in lines if key in line]


def evaluation(first, second, tolerance):
    first, second = logged(first, "eval_loss")[-1], logged(second, "eval_loss")[-1]
    assert first > 1e-3, first
    return [] if abs(first - second) < tolerance else [(first, second)]


def tensors(first, second, tolerance=None):
    first, second = tensor_files.read(first), tensor_files.read(second)
    assert len(first) > 10, len(first)
    if first.keys() != second.keys():
        return sorted(first.keys() ^ second.keys())
    return [name for name in first if not alike(first[name], second[name], tolerance)]


def alike(first, second, tolerance):
    if tolerance is None:
        return first == second
    assert first[0] == second[0] == "F32", (first[0], second[0])
    first, second = (struct.unpack(f"<{len(data) // 4}f", data) for _, _, data in (first, second))
    return len(first) == len(second) and all(abs(a - b) < tolerance for a, b in zip(first, second))


def main():
    compare, first, second, *tolerance = sys.argv[1:]
    comparison = {"evaluation": evaluation, "tensors": tensors}[compare]
    differences = comparison(first, second, *map(float, tolerance))
    if differences:
        print("different:", *differences[:3])
        sys.exit(DIFFERENT)


if __name__ == "__main__":
    main()
