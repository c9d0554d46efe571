#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors that transformers.Adafactor has stepped, made as transformers.Trainer makes it, in adafactor.txt beside it.

    tests/unit/optim/make_adafactor.py --write    writes the file
    tests/unit/optim/make_adafactor.py --check    fails where it is another one

A line is `ROWS COLUMNS LEARNING_RATE WEIGHT_DECAY SCALE NUM_STEPS STRIDE | PARAMETERS | MOMENTS`: every STRIDE-th element of the
parameter, and all moments, those of rows, then of columns; of a vector (COLUMNS is 0) every STRIDE-th. Element i is value(i, 0)
before the steps, and its gradient in step s (1-based) is gradient(i, s), of which SCALE is taken. That of every element of the
last row is zero.

Needs torch and transformers.
"""
import math
import pathlib

import torch
import transformers
from transformers.optimization import Adafactor

import fixture_file

FILE = pathlib.Path(__file__).with_name("adafactor.txt")
CASES = [
    (33, 70, 1e-2, 0.1, 1.0, 10, 7),
    (70, 33, 1e-2, 0.0, 0.7, 10, 7),
    (5, 2, 3e-2, 0.2, 1e-3, 10, 1),
    (410, 0, 1e-2, 0.0, 0.7, 10, 7),
    (1, 300, 2e-2, 0.1, 30.0, 10, 7),
]


def value(element, round_number):
    return math.sin(0.7 * element + 0.013 * element * element + 2.3 * round_number)


def gradient(element, round_number, rows, columns):
    if columns > 0 and rows > 1 and element // columns == rows - 1:
        return 0.0
    return value(element, round_number) * 10.0 ** -(element // 100 % 4)


def line(rows, columns, rate, decay, scale, num_steps, stride):
    size = rows * max(columns, 1)
    shape = (rows, columns) if columns > 0 else (rows,)
    parameter = torch.nn.Parameter(torch.tensor([value(i, 0) for i in range(size)]).view(shape))
    optimizer = Adafactor([parameter], lr=rate, weight_decay=decay, scale_parameter=False, relative_step=False)
    for step in range(1, num_steps + 1):
        parameter.grad = torch.tensor([gradient(i, step, rows, columns) for i in range(size)]).view(shape) * scale
        optimizer.step()
    state = optimizer.state[parameter]
    if columns > 0:
        moments = torch.cat([state["exp_avg_sq_row"], state["exp_avg_sq_col"]])
    else:
        moments = state["exp_avg_sq"][::stride]
    words = [rows, columns, rate, decay, scale, num_steps, stride, "|"]
    words += [f"{number:.8g}" for number in parameter.detach().flatten()[::stride].tolist()] + ["|"]
    words += [f"{number:.8g}" for number in moments.tolist()]
    return " ".join(str(word) for word in words) + "\n"


def text():
    torch.set_num_threads(1)
    return (f"# tests/unit/optim/make_adafactor.py, torch {torch.__version__}, transformers {transformers.__version__}\n"
            + "".join(line(*case) for case in CASES))


if __name__ == "__main__":
    fixture_file.write_or_check(__doc__, FILE, text)
