#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The longest row whose plan (`sft --dry-run`) a GPU has room for, what grows with it and what does not.

  tests/tools/benchmarks/longest_row.py BUILD_FOLDER llama3-8b|qwen3-8b MACHINE NUM_RANKS STEP_TOKENS [--section.key VALUE ...]
  e.g. tests/tools/benchmarks/longest_row.py build/release llama3-8b h200x1 1 1000 --train.activation_offload true

Rows are one document; MACHINE and its memory are those of share/machines.ini, of which 2 % stay free. The node's memory is
printed, not a limit. Needs no GPU.
"""

import configparser
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
USABLE = 0.98  # of a GPU's memory, as --dry-run has it
GIB = 2**30

RUNS = Path(__file__).resolve().parent / "long_rows"


class Planner:
    def __init__(self, build, model, machine, num_ranks, keys, folder):
        self.ini = Path(folder) / "run.ini"
        self.ini.write_text((RUNS / f"{model}.ini").read_text() + (RUNS / "run.ini").read_text())
        self.command = [f"{build}/bin/sft", str(self.ini), "--dry-run", "--json", "--machine", machine, "--num_ranks",
                        num_ranks, "--num_rows", "1", *keys]

    def plan(self, num_tokens):
        """Bytes on the fullest GPU, and of its node."""
        run = subprocess.run([*self.command, "--max_length", str(num_tokens)], capture_output=True, text=True, check=False)
        if not run.stdout:
            sys.exit(run.stderr)
        plan = json.loads(run.stdout)
        return plan["memory_per_rank"]["on the GPU"]["most_bytes"], plan["memory_of_node"]["most"]


def gpu_bytes(machine):
    machines = configparser.ConfigParser(strict=False)
    machines.read(ROOT / "share" / "machines.ini")
    return float(machines[machine.split("x")[0]]["device_memory_gib"]) * GIB * USABLE


def main():
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    build, model, machine, num_ranks, step, *keys = sys.argv[1:]
    limit, step = gpu_bytes(machine), int(step)
    with tempfile.TemporaryDirectory() as folder:
        planner = Planner(build, model, machine, num_ranks, keys, folder)
        low, high = 0, step
        while planner.plan(high)[0] <= limit:
            low, high = high, 2 * high
        while high - low > step:
            middle = (low + high) // 2 // step * step
            low, high = (middle, high) if planner.plan(middle)[0] <= limit else (low, middle)
        if low == 0:
            sys.exit(f"not even {step} tokens have room")
        on_gpu, on_node = planner.plan(low)
        half = max(low // 2 // step * step, step // 2)
        a_token = (on_gpu - planner.plan(half)[0]) / (low - half)
    print(f"{low} tokens: {on_gpu / GIB:.2f} GiB on a GPU, {a_token:.0f} bytes a token and "
          f"{(on_gpu - a_token * low) / GIB:.2f} GiB beside; {on_node / GIB:.1f} GiB of the node")


if __name__ == "__main__":
    main()
