#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Matrices that bitsandbytes quantized to 4 bits on CPUs, in four_bits.txt beside it.

    tests/unit/core/make_four_bits.py --write    writes the file
    tests/unit/core/make_four_bits.py --check    fails where it is another one

The number of element i is value(i). A line is `TYPE NESTED NUM_ELEMENTS | CODES | SCALES | NESTED_SCALES OFFSET`: the sums
hash() of the bytes of codes and of scales, float32 or codes, and the nested scales and their offset as hexadecimal floats.

Needs torch and bitsandbytes.
"""
import pathlib
import sys

import numpy as np
import torch
from bitsandbytes.functional import quantize_4bit

FILE = pathlib.Path(__file__).with_name("four_bits.txt")
NUM_ELEMENTS = 64 * 600
ZEROS = range(640, 704)  # a block


def value(i):
    """float32, exactly: products of small whole numbers and a power of two."""
    if i in ZEROS:
        return 0.0
    return float((i * i * 7 + i * 31) % 2003 - 1001) * (1 + i // 64 % 37) * 2.0 ** -20


def hash_of(data):
    result = 0xCBF29CE484222325
    for byte in data:
        result = (result ^ byte) * 0x100000001B3 % 2 ** 64
    return result


def lines():
    matrix = torch.tensor([value(i) for i in range(NUM_ELEMENTS)], dtype=torch.float32).reshape(-1, 64)
    for kind in ("nf4", "fp4"):
        for nested in (False, True):
            codes, state = quantize_4bit(matrix, quant_type=kind, compress_statistics=nested, blocksize=64)
            scales = np.ascontiguousarray(state.absmax.numpy())
            numbers = [*state.state2.absmax.tolist(), state.offset.item()] if nested else []
            yield (f"{kind} {int(nested)} {NUM_ELEMENTS} | {hash_of(codes.numpy().tobytes()):016x} | "
                   f"{hash_of(scales.tobytes()):016x} |" + "".join(" " + number.hex() for number in numbers))


def main():
    text = "\n".join(lines()) + "\n"
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text)
    elif sys.argv[1:] == ["--check"]:
        sys.exit(0 if FILE.read_text() == text else f"{FILE} differs")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
