#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Matrices that torch.optim.Muon has stepped, in muon.txt beside it.

    tests/unit/optim/make_muon.py --write    writes the file
    tests/unit/optim/make_muon.py --check    fails where it is another one

A line is `ROWS COLUMNS MOMENTUM NESTEROV ADJUST_LR_FN LEARNING_RATE WEIGHT_DECAY NUM_STEPS | NUMBER ...`: the matrix, row by
row, behind the steps. Element i is value(i, 0) before them, and its gradient in step s (1-based) is value(i, s).

Needs torch.
"""
import math
import pathlib

import torch

import fixture_file

FILE = pathlib.Path(__file__).with_name("muon.txt")
CASES = [
    (12, 30, 0.95, True, "match_rms_adamw", 0.02, 0.1, 3),
    (30, 12, 0.95, True, "match_rms_adamw", 0.02, 0.1, 3),
    (16, 16, 0.9, False, "match_rms_adamw", 0.01, 0.0, 3),
    (24, 9, 0.8, False, "original", 0.05, 0.2, 2),
    (9, 24, 0.8, True, "original", 0.05, 0.2, 2),
]


def value(element, round_number):
    return math.sin(0.7 * element + 0.013 * element * element + 2.3 * round_number)


def matrix(rows, columns, round_number):
    numbers = [value(element, round_number) for element in range(rows * columns)]
    return torch.tensor(numbers, dtype=torch.float32).view(rows, columns)


def line(rows, columns, momentum, nesterov, adjust_lr_fn, rate, decay, num_steps):
    parameter = torch.nn.Parameter(matrix(rows, columns, 0))
    optimizer = torch.optim.Muon([parameter], lr=rate, weight_decay=decay, momentum=momentum, nesterov=nesterov,
                                 adjust_lr_fn=adjust_lr_fn)
    for step in range(1, num_steps + 1):
        parameter.grad = matrix(rows, columns, step)
        optimizer.step()
    numbers = " ".join(f"{number:.6f}" for number in parameter.detach().flatten().tolist())
    return f"{rows} {columns} {momentum} {int(nesterov)} {adjust_lr_fn} {rate} {decay} {num_steps} | {numbers}\n"


def text():
    torch.set_num_threads(1)
    return f"# tests/unit/optim/make_muon.py, torch {torch.__version__}\n" + "".join(line(*case) for case in CASES)


if __name__ == "__main__":
    fixture_file.write_or_check(__doc__, FILE, text)
