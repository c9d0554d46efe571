#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends the metrics of a run to W&B, MLflow or trackio, while it trains or afterwards, from wherever its folder can be
read: compute nodes need no network.

    postprocess/track.py output/run --to wandb --project my-project --follow
    WANDB_MODE=offline postprocess/track.py output/run --to wandb     # `wandb sync` sends it later
    postprocess/track.py output/run --to mlflow                       # MLFLOW_TRACKING_URI says where
    postprocess/track.py output/run --to trackio

What was sent is noted in OUTPUT/.track-SERVICE.json, so each line is sent once: the command may be stopped, started again
and run beside a resumed run, whose repeated steps have the same numbers. Tags are those of transformers: train/loss,
eval/loss. Needs the package of the service (pip install wandb, mlflow or trackio).
"""

from __future__ import annotations

import argparse
import configparser
import json
import re
import sys
import time
from pathlib import Path
from typing import Any, Protocol


class Service(Protocol):
    """A run in a service that keeps metrics."""

    def log(self, numbers: dict[str, float], step: int, time_s: float) -> None: ...

    def finish(self) -> None: ...


class Wandb:
    def __init__(self, project: str, name: str, run_id: str, config: dict[str, str], folder: Path) -> None:
        import wandb

        self.run = wandb.init(project=project, name=name, id=run_id, resume="allow", config=config, dir=folder)
        # Evaluations come behind their step, so points have an axis of their own, as in transformers.
        self.run.define_metric("train/global_step")
        self.run.define_metric("*", step_metric="train/global_step", step_sync=True)

    def log(self, numbers: dict[str, float], step: int, time_s: float) -> None:
        self.run.log(numbers | {"train/global_step": step})

    def finish(self) -> None:
        self.run.finish()


class Mlflow:
    def __init__(self, project: str, name: str, run_id: str, config: dict[str, str], folder: Path) -> None:
        import mlflow

        self.client = mlflow.MlflowClient()
        experiment = self.client.get_experiment_by_name(project)
        experiment_id = experiment.experiment_id if experiment else self.client.create_experiment(project)
        known = self.client.search_runs([experiment_id], f"tags.sft_run_id = '{run_id}'", max_results=1)
        if known:
            self.run_id = known[0].info.run_id
            return
        run = self.client.create_run(experiment_id, tags={"sft_run_id": run_id}, run_name=name)
        self.run_id = run.info.run_id
        for key, value in config.items():
            self.client.log_param(self.run_id, key, value[:6000])  # the longest that MLflow takes

    def log(self, numbers: dict[str, float], step: int, time_s: float) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(key, value, int(1000 * time_s), step) for key, value in numbers.items()]
        self.client.log_batch(self.run_id, metrics=metrics)

    def finish(self) -> None:
        self.client.set_terminated(self.run_id)


class Trackio:
    def __init__(self, project: str, name: str, run_id: str, config: dict[str, str], folder: Path) -> None:
        import trackio

        self.run = trackio.init(project=project, name=f"{name}-{run_id[:8]}", config=config, resume="allow", embed=False)

    def log(self, numbers: dict[str, float], step: int, time_s: float) -> None:
        self.run.log(numbers, step=step)

    def finish(self) -> None:
        self.run.finish()


SERVICES = {"wandb": Wandb, "mlflow": Mlflow, "trackio": Trackio}


def numbers_of(record: dict[str, Any]) -> dict[str, float]:
    """The numbers of a line of metrics.jsonl under the tags of transformers."""
    numbers = {}
    for key, value in record.items():
        if key in ("step", "time") or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        is_evaluation = key.startswith("eval_") and key != "eval_time_s"
        numbers["eval/" + key[5:] if is_evaluation else "train/" + key] = float(value)
    return numbers


def read_config(output: Path) -> tuple[str, dict[str, str]]:
    """The run's id, and its keys as section.key."""
    text = (output / "resolved.ini").read_text(encoding="utf-8")
    found = re.match(r"# run (\S+)", text)
    config = configparser.ConfigParser(interpolation=None)
    config.optionxform = str  # type: ignore[assignment,method-assign]
    config.read_string(text)
    keys = {f"{section}.{key}": value for section in config.sections() for key, value in config[section].items()}
    return (found[1] if found else output.resolve().name), keys


class Sent:
    """What was sent of a run: the last step and the last evaluation."""

    def __init__(self, path: Path, run_id: str) -> None:
        self.path, self.run_id = path, run_id
        self.train, self.eval = -1, -1
        if path.is_file():
            noted = json.loads(path.read_text(encoding="utf-8"))
            if noted.get("run_id") == run_id:
                self.train, self.eval = noted["train"], noted["eval"]

    def take(self, record: dict[str, Any]) -> bool:
        """Whether the line is a new one, which then counts as sent."""
        kind = "eval" if "eval_loss" in record else "train"
        if record["step"] <= getattr(self, kind):
            return False
        setattr(self, kind, record["step"])
        return True

    def note(self) -> None:
        text = json.dumps({"run_id": self.run_id, "train": self.train, "eval": self.eval})
        beside = self.path.with_suffix(".tmp")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.path)


def complete_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that another program writes: a last one without its end is left for later."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def send(output: Path, service: Service, sent: Sent) -> int:
    """Sends the lines that are new; returns how many."""
    count, time_s = 0, time.time()
    for record in complete_lines(output / "metrics.jsonl"):
        time_s = record.get("time", time_s)
        if sent.take(record):
            service.log(numbers_of(record), record["step"], time_s)
            count += 1
    if count:
        sent.note()
    return count


def is_at_end(output: Path) -> bool:
    """Whether the run has ended: the line behind the first one of its lock says how."""
    lock = output / "run.lock"
    return lock.is_file() and len(lock.read_text(encoding="utf-8").splitlines()) > 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="output_dir of the run")
    parser.add_argument("--to", choices=sorted(SERVICES), required=True, help="the service")
    parser.add_argument("--project", default="sft", help="project, of MLflow the experiment (sft)")
    parser.add_argument("--name", help="name of the run there; without it that of the folder")
    parser.add_argument("--follow", action="store_true", help="go on until the run has ended, or Ctrl-C")
    parser.add_argument("--interval", type=float, default=10.0, help="with --follow: seconds between two looks (10)")
    options = parser.parse_args()
    resolved = options.output / "resolved.ini"
    while options.follow and not resolved.is_file():
        time.sleep(options.interval)
    if not resolved.is_file():
        sys.exit(f"track.py: error: {options.output} is no output_dir of a run (it holds no resolved.ini): give the "
                 "folder that train.output_dir names")
    run_id, config = read_config(options.output)
    name = options.name or options.output.resolve().name
    try:
        service = SERVICES[options.to](options.project, name, run_id, config, options.output)
    except ImportError as error:
        sys.exit(f"track.py: error: {error} (--to {options.to} needs its package): pip install {options.to}")
    sent = Sent(options.output / f".track-{options.to}.json", run_id)
    count = send(options.output, service, sent)
    try:
        while options.follow and not is_at_end(options.output):
            time.sleep(options.interval)
            count += send(options.output, service, sent)
        count += send(options.output, service, sent)
    except KeyboardInterrupt:
        pass
    service.finish()
    print(f"sent {count} new lines of {options.output} to {options.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
