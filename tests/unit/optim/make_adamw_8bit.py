#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors that AdamW with moments in 8 bits has stepped, in adamw_8bit.txt beside it: the rule of Dettmers et al. 2022
in torch, with the order of operations of bitsandbytes' kernel for blocks (kOptimizerStatic8bit2StateBlockwise).

    tests/unit/optim/make_adamw_8bit.py --write         writes the file
    tests/unit/optim/make_adamw_8bit.py --check         fails where it is another one
    tests/unit/optim/make_adamw_8bit.py --bitsandbytes  compares the tables of codes with those of bitsandbytes

The first two lines are the numbers of the 256 codes, with a sign and without. A line behind them is
`ROWS COLUMNS BETA1 BETA2 LEARNING_RATE WEIGHT_DECAY SCALE NUM_STEPS STRIDE | PARAMETERS | CODES | CODES | SCALES |
SCALES`: of every STRIDE-th element the parameter and the codes of both moments, and all scales, behind the steps.
Element i is value(i, 0) before them, and its gradient in step s (1-based) is gradient(i, s), of which SCALE is taken.

Needs torch.
"""
import math
import pathlib
import sys

import torch

import fixture_file

FILE = pathlib.Path(__file__).with_name("adamw_8bit.txt")
BLOCK = 256
EPSILON = 1e-8
CASES = [
    (66, 68, 0.9, 0.999, 1e-3, 0.1, 1.0, 10, 11),
    (4100, 0, 0.9, 0.95, 2e-3, 0.0, 0.7, 10, 11),
    (96, 256, 0.8, 0.99, 1e-2, 0.0, 1.0, 10, 53),
]


def value(element, round_number):
    return math.sin(0.7 * element + 0.013 * element * element + 2.3 * round_number)


def gradient(element, round_number):
    return value(element, round_number) * 10.0 ** -(element // 100 % 4)


def numbers_of_codes(has_sign):
    """Decades up to 1, each with twice as many numbers as the one below, in the middle of equal parts of (0.1, 1)."""
    numbers = [0.0, 1.0]
    for decade in range(7):
        count = 2 ** (decade + (0 if has_sign else 1))
        borders = torch.linspace(0.1, 1, count + 1, dtype=torch.float32)
        middles = 10.0 ** (decade - 6) * ((borders[:-1] + borders[1:]) / 2)
        numbers += middles.tolist()
        if has_sign:
            numbers += (-middles).tolist()
    return torch.tensor(sorted(numbers), dtype=torch.float32)


SIGNED, UNSIGNED = numbers_of_codes(True), numbers_of_codes(False)


def nearest(numbers, x):
    """Codes of the nearest numbers."""
    borders = (numbers[:-1] + numbers[1:]) * 0.5
    return torch.bucketize(x, borders)


class Moment:
    """Codes and the scale of every block."""

    def __init__(self, size, numbers):
        self.numbers = numbers
        self.codes = torch.zeros(size, dtype=torch.long)
        self.scales = torch.zeros((size + BLOCK - 1) // BLOCK)

    def read(self):
        return self.numbers[self.codes] * self.scales.repeat_interleave(BLOCK)[:self.codes.numel()]

    def write(self, x):
        padded = torch.nn.functional.pad(x, (0, -x.numel() % BLOCK)).view(-1, BLOCK)
        self.scales = padded.abs().amax(dim=1)
        self.codes = nearest(self.numbers, (padded / self.scales[:, None]).flatten()[:x.numel()])
        if self.numbers[0] < 0:  # the sign of a number outlives rounding
            self.codes -= ((x < 0) & (self.numbers[self.codes] >= 0)).long()


def line(rows, columns, beta1, beta2, rate, decay, scale, num_steps, stride):
    size = rows * max(columns, 1)
    parameter = torch.tensor([value(i, 0) for i in range(size)], dtype=torch.float32)
    first, second = Moment(size, SIGNED), Moment(size, UNSIGNED)
    for step in range(1, num_steps + 1):
        g = torch.tensor([gradient(i, step) for i in range(size)], dtype=torch.float32) * scale
        s2 = second.read() * beta2 + (1 - beta2) * g * g
        s1 = first.read() * beta1 + (1 - beta1) * g
        correction1, correction2 = 1 - beta1**step, math.sqrt(1 - beta2**step)
        parameter = parameter + -rate * correction2 / correction1 * (s1 / (s2.sqrt() + correction2 * EPSILON))
        parameter = parameter * (1 - rate * decay)
        first.write(s1)
        second.write(s2)
    words = [rows, columns, beta1, beta2, rate, decay, scale, num_steps, stride, "|"]
    words += [f"{number:.8g}" for number in parameter[::stride].tolist()] + ["|"]
    words += first.codes[::stride].tolist() + ["|"] + second.codes[::stride].tolist() + ["|"]
    words += [f"{number:.8g}" for number in first.scales.tolist()] + ["|"]
    words += [f"{number:.8g}" for number in second.scales.tolist()]
    return " ".join(str(word) for word in words) + "\n"


def text():
    tables = "".join(" ".join(f"{number:.9g}" for number in table.tolist()) + "\n" for table in (SIGNED, UNSIGNED))
    return f"# tests/unit/optim/make_adamw_8bit.py, torch {torch.__version__}\n" + tables + "".join(
        line(*case) for case in CASES)


def compare_tables():
    import bitsandbytes.functional

    for has_sign, table in ((True, SIGNED), (False, UNSIGNED)):
        if not torch.equal(bitsandbytes.functional.create_dynamic_map(signed=has_sign), table):
            sys.exit("bitsandbytes has other codes")
    print("the codes are those of bitsandbytes", bitsandbytes.__version__)


if __name__ == "__main__":
    torch.set_num_threads(1)
    fixture_file.write_or_check(__doc__, FILE, text, {"--bitsandbytes": compare_tables})
