# SPDX-License-Identifier: Apache-2.0
"""Reads the files of a run in Python: its metrics, its configuration and its checkpoints.

    from sft_run import Run

    run = Run("output/demo")
    run.metric("loss")                                   # numpy array, one value a logged step
    run.steps("eval_loss"), run.metric("eval_loss")      # one value an evaluation
    run.metric("goodput")[-1]                            # share of the run's time that its steps had, restarts included
    run.config["model"]["hidden_size"]                   # text, as in resolved.ini
    checkpoint = run.checkpoint()                        # the one saved last
    checkpoint.step, checkpoint.names()
    checkpoint.tensor("model.norm.weight")               # numpy array, whole
    checkpoint.dataset("model.embed_tokens.weight")[:4]  # h5py dataset: reads the first four rows only

Needs numpy and h5py (Debian: python3-numpy, python3-h5py).
"""

from __future__ import annotations

import configparser
import json
import math
import re
from pathlib import Path
from typing import Any

try:
    import h5py
    import numpy as np
except ImportError as error:
    raise ImportError(f"{error} (checkpoints are HDF5; Debian: python3-h5py)") from error

GROUPS = ("model", "adapter", "exp_avg", "exp_avg_sq")


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl, also of a run that is still writing its last one."""
    records = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                break
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                raise ValueError(f"{path}:{number} is no JSON object")
            records.append(record)
    return records


def read_ini(text: str) -> configparser.ConfigParser:
    """A resolved.ini; keys keep their case, values are texts."""
    config = configparser.ConfigParser(interpolation=None)
    config.optionxform = str  # type: ignore[assignment,method-assign]
    config.read_string(text)
    return config


class Checkpoint:
    """A complete checkpoint folder. Tensors have their Hugging Face names and full logical shapes."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        index = self.folder / "checkpoint.h5"
        if not index.is_file():
            raise FileNotFoundError(f"{self.folder} is no complete checkpoint: it holds no checkpoint.h5")
        self._file = h5py.File(index, "r")
        self.attributes: dict[str, Any] = {name: _plain(value) for name, value in self._file.attrs.items()}
        if self.attributes.get("format") != "sft-checkpoint":
            raise ValueError(f"{index} is no checkpoint of sft")
        self._check_shards()
        self._tensors = self._file if self.attributes["format_version"] == 1 else None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.folder)!r})"

    def close(self) -> None:
        if self._tensors is not None:
            self._tensors.close()
        self._file.close()

    @property
    def step(self) -> int:
        return int(self.attributes["step"])

    @property
    def config(self) -> configparser.ConfigParser:
        """The resolved configuration of the run that wrote it."""
        return read_ini(self.attributes["config"])

    def groups(self) -> list[str]:
        """The groups that it has: model or adapter, and those of the optimizer."""
        return [name for name, item in self._whole().items() if isinstance(item, h5py.Group)]

    def names(self, group: str = "model") -> list[str]:
        """Names of the tensors of a group: model, exp_avg or exp_avg_sq."""
        return sorted(self._whole()[group])

    def dataset(self, name: str, group: str = "model") -> h5py.Dataset:
        """A tensor that is read where it is indexed; valid until close()."""
        return self._whole()[group][name]

    def tensor(self, name: str, group: str = "model") -> np.ndarray:
        """A whole tensor, float32."""
        return self.dataset(name, group)[()]

    def _whole(self) -> h5py.File:
        """The file of the whole tensors: tensors.h5, or of format version 1 checkpoint.h5 itself."""
        if self._tensors is None:
            path = self.folder / "tensors.h5"
            if not path.is_file():
                raise FileNotFoundError(f"{path} is not there: make it with `sft-inspect {self.folder} --index`")
            self._tensors = h5py.File(path, "r")
        return self._tensors

    def _check_shards(self) -> None:
        """HDF5 would read the numbers of a missing shard as NaN without a word."""
        for line in self.attributes["shards"].splitlines():
            name, size_bytes, _ = line.split()
            shard = self.folder / name
            if not shard.is_file() or shard.stat().st_size != int(size_bytes):
                raise FileNotFoundError(f"{shard} is missing or cut: the checkpoint cannot be read")


class Run:
    """The output_dir of a run."""

    def __init__(self, output_dir: str | Path) -> None:
        self.output_dir = Path(output_dir)

    def metrics(self) -> list[dict[str, Any]]:
        return read_metrics(self.output_dir / "metrics.jsonl")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        """The lines that could have the metric: those of evaluations or those of steps."""
        is_eval = name.startswith("eval_")
        return [record for record in self.metrics() if ("eval_loss" in record) == is_eval]

    def metric(self, name: str) -> np.ndarray:
        """One value a logged step or, where the name begins with eval_, an evaluation; NaN where it has none."""
        values = (record.get(name) for record in self._lines(name))
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)

    def steps(self, name: str = "loss") -> np.ndarray:
        """The steps of the values of a metric."""
        return np.array([record["step"] for record in self._lines(name)], dtype=np.int64)

    @property
    def config(self) -> configparser.ConfigParser:
        return read_ini((self.output_dir / "resolved.ini").read_text(encoding="utf-8"))

    def checkpoints(self) -> list[Path]:
        """Folders of the complete checkpoints, by step."""
        folders = (
            (int(match[1]), entry)
            for entry in self.output_dir.iterdir()
            if (match := re.fullmatch(r"checkpoint-(\d+)", entry.name)) and (entry / "checkpoint.h5").is_file()
        )
        return [folder for _, folder in sorted(folders)]

    def checkpoint(self, step: int | None = None) -> Checkpoint:
        """The checkpoint of a step, or the one that was saved last."""
        if step is not None:
            return Checkpoint(self.output_dir / f"checkpoint-{step:06d}")
        folders = self.checkpoints()
        if not folders:
            raise FileNotFoundError(f"{self.output_dir} has no complete checkpoint")
        return Checkpoint(_saved_last(folders))


def _saved_last(folders: list[Path]) -> Path:
    """The checkpoint saved last. One that goes on from another was saved after it, whatever their dates are."""
    dates: list[str] = []
    origins: list[tuple[str, int]] = []  # run and step
    for folder in folders:
        with h5py.File(folder / "checkpoint.h5", "r") as file:
            attributes = {key: _plain(value) for key, value in file.attrs.items()}
        run, step = str(attributes.get("run_id", "")), int(attributes["step"])
        ancestors = [line.split() for line in str(attributes.get("ancestors", "")).splitlines()]
        ends = {ancestor: int(last_step) for ancestor, last_step in ancestors} | {run: step}
        before = [d for d, (r, s) in zip(dates, origins) if r and s <= ends.get(r, -1)]
        dates.append(max([str(attributes["date"]), *before]))
        origins.append((run, step))
    return folders[max(range(len(folders)), key=lambda i: (dates[i], i))]


def _plain(value: Any) -> Any:
    """An attribute as a Python number or text."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return value.item() if isinstance(value, np.generic) else value
