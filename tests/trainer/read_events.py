#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the points of the event files in a folder, a line each: tag, step, value; of files in the order of their names,
as TensorBoard reads them. A file that begins a session (SessionLog START) makes earlier points forgotten.

    read_events.py FOLDER
"""

import struct
import sys
from pathlib import Path


def frames(data: bytes):
    while data:
        (length,) = struct.unpack_from("<Q", data)
        yield data[12:12 + length]
        data = data[16 + length:]


def varint(data: bytes, i: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[i] & 127) << shift
        shift += 7
        i += 1
        if data[i - 1] < 128:
            return value, i


def fields(data: bytes):
    """Number and value of each field of a protocol buffer; of fixed ones their bytes."""
    i = 0
    while i < len(data):
        key, i = varint(data, i)
        if key & 7 == 0:
            value, i = varint(data, i)
        else:
            length = {1: 8, 5: 4}.get(key & 7)
            if length is None:
                length, i = varint(data, i)
            value, i = data[i:i + length], i + length
        yield key >> 3, value


points = []
for path in sorted(Path(sys.argv[1]).glob("events.out.tfevents.*")):
    for event in frames(path.read_bytes()):
        found = dict(fields(event))
        if 7 in found:
            points = []
        for number, summary in fields(event):
            if number != 5:
                continue
            for _, value in fields(summary):
                parts = dict(fields(value))
                if 2 in parts:
                    points.append((parts[1].decode(), found.get(2, 0), struct.unpack("<f", parts[2])[0]))
for tag, step, value in points:
    print(tag, step, f"{value:.6g}")
