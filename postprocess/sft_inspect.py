#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differences of two checkpoints, and the state of a run: `sft-inspect --diff` and `sft-inspect status` in Python.

    postprocess/sft_inspect.py diff output/demo/checkpoint-001400 output/demo/model
    postprocess/sft_inspect.py status output/demo

    from sft_inspect import diff, status

    for tensor in diff("output/demo", "output/other").tensors:
        print(tensor.name, tensor.max_abs, tensor.relative)
    status("output/demo")["state"]

A path is a checkpoint, the output folder of a run (the checkpoint saved last), or a folder of the hub or of an adapter
with safetensors. Large checkpoints need `sft-inspect FOLDER --index` before. `diff` ends with status 1 where tensors differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from run_state import is_locked, process_of, read_lock, state_of_end
from sft_run import Checkpoint, Run, np

BLOCK_ELEMENTS = 1 << 20


@dataclasses.dataclass
class TensorDiff:
    """A tensor of two folders; shapes and dtypes are None where it is in the other one alone."""

    name: str
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    dtypes: tuple[str | None, str | None]
    max_abs: float | None = None  # None where shapes differ
    relative: float | None = None  # norm of the difference over the norm of the first
    num_different: int | None = None

    @property
    def same(self) -> bool:
        return self.num_different == 0 and self.dtypes[0] == self.dtypes[1]


@dataclasses.dataclass
class Diff:
    config: dict[str, tuple[str | None, str | None]]  # keys that differ; of two checkpoints
    tensors: list[TensorDiff]

    @property
    def same(self) -> bool:
        return all(tensor.same for tensor in self.tensors)


@dataclasses.dataclass
class _Tensor:
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[slice], np.ndarray]  # rows as float32


def _of_checkpoint(checkpoint: Checkpoint, optimizer: bool) -> dict[str, _Tensor]:
    tensors = {}
    for group in checkpoint.groups():
        is_weight = group in ("model", "adapter")
        if not is_weight and not optimizer:
            continue
        for name in checkpoint.names(group):
            dataset = checkpoint.dataset(name, group)
            dtype = "bf16" if dataset.id.get_type().get_size() == 2 else str(dataset.dtype)
            tensors[name if is_weight else f"{group}/{name}"] = _Tensor(
                dataset.shape, dtype, lambda rows, dataset=dataset: np.asarray(dataset[rows], dtype=np.float32)
            )
    return tensors


def _of_safetensors(path: Path) -> Iterator[tuple[str, _Tensor]]:
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    stored = {"F32": ("float32", "<f4"), "F16": ("float16", "<f2"), "BF16": ("bf16", "<u2")}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        if about["dtype"] not in stored:
            raise ValueError(f"tensor {name} of {path} has dtype {about['dtype']}")
        dtype, kind = stored[about["dtype"]]
        values = np.memmap(path, kind, "r", 8 + length + about["data_offsets"][0], tuple(about["shape"]))

        def read(rows: slice, values: np.ndarray = values, dtype: str = dtype) -> np.ndarray:
            part = np.array(values[rows])
            return (part.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else part.astype(np.float32)

        yield name, _Tensor(tuple(about["shape"]), dtype, read)


class _Folder:
    def __init__(self, path: str | Path, optimizer: bool) -> None:
        folder = Path(path)
        files = sorted(folder.glob("*.safetensors"))
        self.checkpoint: Checkpoint | None = None
        if files:
            self.tensors = {name: tensor for file in files for name, tensor in _of_safetensors(file)}
            about = folder / "config.json"
            if about.is_file() and json.loads(about.read_text(encoding="utf-8")).get("tie_word_embeddings"):
                self.tensors.pop("lm_head.weight", None)
            return
        is_checkpoint = (folder / "checkpoint.h5").is_file()
        self.checkpoint = Checkpoint(folder) if is_checkpoint else Run(folder).checkpoint()
        self.tensors = _of_checkpoint(self.checkpoint, optimizer)

    def close(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint.close()


def _compare(name: str, before: _Tensor | None, after: _Tensor | None) -> TensorDiff:
    result = TensorDiff(
        name,
        (before.shape if before else None, after.shape if after else None),
        (before.dtype if before else None, after.dtype if after else None),
    )
    if before is None or after is None or before.shape != after.shape:
        return result
    rows = before.shape[0]
    step = max(1, BLOCK_ELEMENTS // max(1, int(np.prod(before.shape[1:]))))
    largest, squares, before_squares, num_different = 0.0, 0.0, 0.0, 0
    for begin in range(0, rows, step):
        a = before.read(slice(begin, min(begin + step, rows))).astype(np.float64)
        b = after.read(slice(begin, min(begin + step, rows))).astype(np.float64)
        before_squares += float((a * a).sum())
        differ = (a != b) & ~(np.isnan(a) & np.isnan(b))
        if not differ.any():
            continue
        distance = np.abs(a[differ] - b[differ])
        num_different += distance.size
        largest = float(np.maximum(largest, distance.max()))
        squares += float((distance * distance).sum())
    result.max_abs, result.num_different = largest, num_different
    with np.errstate(divide="ignore", invalid="ignore"):
        result.relative = float(np.sqrt(squares) / np.sqrt(np.float64(before_squares))) if num_different else 0.0
    return result


def diff(before: str | Path, after: str | Path, optimizer: bool = False) -> Diff:
    """Compares two folders tensor by tensor, a few rows at a time; `optimizer`: entries that are no weights, too."""
    folders = [_Folder(path, optimizer) for path in (before, after)]
    try:
        first, second = (folder.tensors for folder in folders)
        if not first.keys() & second.keys():
            raise ValueError(f"{before} and {after} have no tensor in common")
        names = [*first, *(name for name in second if name not in first)]
        tensors = [_compare(name, first.get(name), second.get(name)) for name in names]
        config: dict[str, tuple[str | None, str | None]] = {}
        if all(folder.checkpoint for folder in folders):
            keys = [
                {f"{name}.{key}": text for name, section in checkpoint.config.items() for key, text in section.items()}
                for checkpoint in (folder.checkpoint for folder in folders)
                if checkpoint
            ]
            for key in sorted(keys[0].keys() | keys[1].keys()):
                if keys[0].get(key) != keys[1].get(key):
                    config[key] = (keys[0].get(key), keys[1].get(key))
        return Diff(config, tensors)
    finally:
        for folder in folders:
            folder.close()


def _lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects at the end of a file; a line that is being written is left out."""
    if not path.is_file():
        return []
    with open(path, "rb") as file:
        begin = max(0, path.stat().st_size - (256 << 10))
        file.seek(begin)
        lines = file.read().split(b"\n")[1 if begin else 0 : -1]
    return [json.loads(line) for line in lines if line]


def _is_suspended(holder: str) -> bool:
    process = process_of(holder)
    if process is None or process[1] != socket.gethostname():
        return False
    try:
        text = Path(f"/proc/{process[0]}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return re.search(r"^State:.*stop", text, re.MULTILINE) is not None


def status(output_dir: str | Path) -> dict[str, Any]:
    """Whether the run is alive, how far it is, what it saved last; names and states as `sft-inspect status --json`."""
    folder = Path(output_dir)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    holder, end = read_lock(folder)
    starts, metrics = _lines(folder / "starts.jsonl"), _lines(folder / "metrics.jsonl")
    steps = [line for line in metrics if "eval_loss" not in line]
    result: dict[str, Any] = {"output_dir": str(folder), "alive": bool(is_locked(folder / "run.lock")), "holder": holder}
    start = starts[-1] if starts else {}
    began = start.get("time", 0.0)
    if start:
        result |= {key: start[key] for key in ("run_id", "step", "num_steps") if key in start}
    last = steps[-1] if steps else {}
    result |= {key: last[key] for key in ("step", "epoch", "loss", "step_time_s", "tokens_per_second") if key in last}
    note = last if last.get("time", 0.0) >= began and last else start
    result |= {key: note[key] for key in ("goodput", "restarts", "repeated_steps") if key in note}
    if "time" in note:
        result["line_age_s"] = max(0.0, time.time() - note["time"])
    evaluations = [line for line in metrics if "eval_loss" in line]
    if evaluations:
        result |= {"eval_step": evaluations[-1]["step"], "eval_loss": evaluations[-1]["eval_loss"]}
    own = [line for line in steps if line.get("time", 0.0) >= began][-20:]
    if len(own) > 1 and own[-1]["step"] > own[0]["step"]:
        result["step_time_s"] = (own[-1]["time"] - own[0]["time"]) / (own[-1]["step"] - own[0]["step"])
    if Run(folder).checkpoints():
        with Run(folder).checkpoint() as checkpoint:
            date = datetime.strptime(checkpoint.attributes["date"], "%Y-%m-%dT%H:%M:%S.%fZ")
            date = date.replace(tzinfo=timezone.utc)
            result |= {"checkpoint": str(checkpoint.folder), "checkpoint_step": checkpoint.step}
            result["checkpoint_age_s"] = max(0.0, time.time() - date.timestamp())
    result["state"] = _state(folder, result, end, bool(own))
    if result["state"] in ("starting", "training", "saving") and {"num_steps", "step", "step_time_s"} <= result.keys():
        result["time_left_s"] = max(0, result["num_steps"] - result["step"]) * result["step_time_s"]
    return result


def _state(folder: Path, found: dict[str, Any], end: str, has_begun: bool) -> str:
    if found["alive"]:
        if _is_suspended(found["holder"]):
            return "suspended"
        if any(".former" not in entry.name for entry in folder.glob("checkpoint-*.tmp")):
            return "saving"
        if not has_begun:
            return "starting"
        is_silent = found.get("line_age_s", 0.0) > max(60.0, 10.0 * found.get("step_time_s", 0.0))
        return "silent" if is_silent else "training"
    return state_of_end(end) or ("lost" if found["holder"] or "step" in found else "never_started")


def _print_diff(found: Diff) -> None:
    for key, (before, after) in found.config.items():
        print(f"{key}: {before} -> {after}")
    for tensor in found.tensors:
        if tensor.same:
            continue
        if tensor.max_abs is None:
            print(f"{tensor.name}  {tensor.shapes[0]} -> {tensor.shapes[1]}")
        else:
            dtypes = "" if tensor.dtypes[0] == tensor.dtypes[1] else f"  {tensor.dtypes[0]} -> {tensor.dtypes[1]}"
            print(f"{tensor.name}  {tensor.max_abs:.5g}  {tensor.relative:.5g}{dtypes}")
    print(f"{sum(not tensor.same for tensor in found.tensors)} of {len(found.tensors)} tensors differ")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_diff = commands.add_parser("diff", help="what differs between two checkpoints, model folders or adapters")
    of_diff.add_argument("before")
    of_diff.add_argument("after")
    of_diff.add_argument("--optimizer", action="store_true", help="also the optimizer's entries")
    of_status = commands.add_parser("status", help="how the run with this output folder does")
    of_status.add_argument("output_dir")
    options = parser.parse_args()
    try:
        if options.command == "status":
            print(json.dumps(status(options.output_dir), indent=2))
            return 0
        found = diff(options.before, options.after, options.optimizer)
    except (OSError, ValueError, KeyError) as error:
        print(f"sft_inspect.py: error: {error}", file=sys.stderr)
        return 3
    _print_diff(found)
    return 0 if found.same else 1


if __name__ == "__main__":
    sys.exit(main())
