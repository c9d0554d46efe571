#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends the metrics of a run to W&B, MLflow, trackio or SwanLab, while it trains or afterwards, from wherever its folder
can be read: compute nodes need no network.

    postprocess/track.py output/run --to wandb --project my-project --follow
    WANDB_MODE=offline postprocess/track.py output/run --to wandb     # `wandb sync` sends it later
    postprocess/track.py output/run --to mlflow                       # MLFLOW_TRACKING_URI says where
    postprocess/track.py output/run --to trackio
    postprocess/track.py output/run --to swanlab

Each line is sent once, because OUTPUT/.track-SERVICE.json notes it when it was sent (to MLflow many lines in one call). The command may be interrupted, started
again, and run alongside a resumed run, whose repeated steps have the same values. The service is told how the run ended,
by its run.lock: done, stopped, failed, or killed without a word. Tags are those of transformers: train/loss, eval/loss.
Needs the package of the service (pip install wandb, mlflow, trackio or swanlab).
"""

from __future__ import annotations

import argparse
import configparser
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from run_state import RunState, last_change_s, state_of
from track_services import SERVICES, Point, Service, TrackedRun


def numbers_of(record: dict[str, Any]) -> dict[str, float]:
    """The numbers of a line of metrics.jsonl under the tags of transformers."""
    numbers = {}
    for key, value in record.items():
        if key in ("step", "time") or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        is_evaluation = key.startswith("eval_") and key != "eval_time_s"
        numbers["eval/" + key[5:] if is_evaluation else "train/" + key] = float(value)
    return numbers


def typed(text: str) -> Any:
    """A value of an .ini file as the number or boolean that it is."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def read_config(output: Path) -> tuple[str, dict[str, Any]]:
    """The run's id, and its keys as section.key."""
    text = (output / "resolved.ini").read_text(encoding="utf-8")
    found = re.match(r"# run (\S+)", text)
    config = configparser.ConfigParser(interpolation=None)
    config.optionxform = str  # type: ignore[assignment,method-assign]
    config.read_string(text)
    keys = {f"{section}.{key}": typed(value) for section in config.sections() for key, value in config[section].items()}
    return (found[1] if found else output.resolve().name), keys


def complete_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that another program writes: a last one without its end is left for later."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def points_of(output: Path) -> list[Point]:
    """The lines of metrics.jsonl. An evaluation has the time of the step before it."""
    points, time_s = [], last_change_s(output)
    for record in complete_lines(output / "metrics.jsonl"):
        time_s = record.get("time", time_s)
        points.append(Point(numbers_of(record), record["step"], time_s))
    return points


def calls_of(points: list[Point], most_numbers: int) -> list[list[Point]]:
    """Points in order, as many together as have `most_numbers`, or one that has more."""
    calls: list[list[Point]] = []
    count = 0
    for point in points:
        count += len(point.numbers)
        if not calls or count > most_numbers:
            calls.append([])
            count = len(point.numbers)
        calls[-1].append(point)
    return calls


def start_time_of(output: Path, run_id: str) -> float:
    """When the run first started, since 1970."""
    starts = [line["time"] for line in complete_lines(output / "starts.jsonl") if line.get("run_id") == run_id]
    times = starts or [line["time"] for line in complete_lines(output / "metrics.jsonl") if "time" in line]
    return min(times, default=time.time())


class Sent:
    """A note of what was sent of a run: the last step, the last evaluation, and the end that the service was told of.

    The note is written in place after each call of the service: a kill between the two sends what that call had again.
    """

    WIDTH = 1000  # bytes, so that one write replaces all of it

    def __init__(self, path: Path, run_id: str) -> None:
        self.noted: dict[str, Any] = {"run_id": run_id, "train": -1, "eval": -1, "end": ""}
        if path.is_file() and path.stat().st_size:
            try:
                noted = json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                sys.exit(f"track.py: error: {path} cannot be read (it is no JSON): remove it, and all lines are sent again")
            if noted.get("run_id") == run_id:
                self.noted |= noted
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    def unsent(self, points: list[Point]) -> list[Point]:
        last, found = dict(self.noted), []
        for point in points:
            kind = self._kind(point)
            if point.step > last[kind]:
                last[kind] = point.step
                found.append(point)
        return found

    def note(self, points: list[Point]) -> None:
        self.noted |= {self._kind(point): point.step for point in points}
        self._write()

    def note_end(self, end: RunState) -> None:
        self.noted["end"] = end.text[:200]
        self._write()

    def has_told(self, end: RunState) -> bool:
        return self.noted["end"] == end.text[:200]

    @staticmethod
    def _kind(point: Point) -> str:
        return "eval" if "eval/loss" in point.numbers else "train"

    def _write(self) -> None:
        os.pwrite(self.file, (json.dumps(self.noted).ljust(self.WIDTH - 1) + "\n").encode(), 0)


class Follower:
    """Sends what a run writes, until it has ended or a signal asks to stop."""

    def __init__(self, output: Path, service: Service, sent: Sent, run_id: str) -> None:
        self.output, self.service, self.sent, self.run_id = output, service, sent, run_id
        self.count = 0
        self.must_stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self.must_stop.set())

    def send(self) -> None:
        """Sends the lines that are new. When the service raises, the lines of earlier calls stay noted."""
        for points in calls_of(self.sent.unsent(points_of(self.output)), self.service.most_numbers):
            if self.must_stop.is_set():
                return
            self.service.log(points)
            self.sent.note(points)
            self.count += len(points)

    def follow(self, interval_s: float, patience_s: float) -> RunState:
        """Goes on until the run is done, or has not been started again for `patience_s` after another end. Raises what the
        service raises once the run has ended and `patience_s` is over; before that it tries again."""
        ended_at_s = None
        while True:
            state = state_of(self.output, patience_s)
            if state.state == "running":
                ended_at_s = None
            else:
                ended_at_s = ended_at_s or time.monotonic()
            is_over = ended_at_s is not None and time.monotonic() - ended_at_s >= patience_s
            if read_config(self.output)[0] != self.run_id:
                return RunState("stopped", "another run has the folder now")
            try:
                self.send()
                is_over = is_over or state.state == "finished"
            except Exception as error:  # pylint: disable=broad-except  # of the network: each package has its own
                if is_over:
                    raise
                print(f"warning: cannot send now ({error}): tried again in {interval_s:g} s", file=sys.stderr)
            if is_over or self.must_stop.wait(interval_s):
                return state


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="output_dir of the run")
    parser.add_argument("--to", choices=sorted(SERVICES), required=True, help="the service")
    parser.add_argument("--project", default="sft", help="project, of MLflow the experiment (sft)")
    parser.add_argument("--name", help="name of the run there; without it that of the folder")
    parser.add_argument("--follow", action="store_true", help="go on until the run has ended, or Ctrl-C")
    parser.add_argument("--interval", type=float, default=10.0, help="with --follow: seconds between two looks (10)")
    parser.add_argument("--patience", type=float, default=60.0, metavar="SECONDS",
                        help="with --follow: how long a run that was stopped, failed or killed may take to start again (60)")
    options = parser.parse_args()
    resolved = options.output / "resolved.ini"
    while options.follow and not resolved.is_file():
        time.sleep(options.interval)
    if not resolved.is_file():
        sys.exit(f"track.py: error: {options.output} is no output_dir of a run (it holds no resolved.ini): give the "
                 "folder that train.output_dir names")
    run_id, config = read_config(options.output)
    name = options.name or options.output.resolve().name
    sent = Sent(options.output / f".track-{options.to}.json", run_id)
    try:
        service = SERVICES[options.to](
            TrackedRun(options.project, name, run_id, config, options.output, start_time_of(options.output, run_id)))
    except ImportError as error:
        sys.exit(f"track.py: error: {error} (--to {options.to} needs its package): pip install {options.to}")
    follower = Follower(options.output, service, sent, run_id)
    try:
        if options.follow:
            end = follower.follow(options.interval, options.patience)
        else:
            end = state_of(options.output, options.patience)
            follower.send()
    except Exception as error:  # pylint: disable=broad-except
        sys.exit(f"track.py: error: cannot send to {options.to} ({error}): start it again, {follower.count} lines were sent")
    service.finish(end, sent.has_told(end))
    sent.note_end(end)
    print(f"sent {follower.count} new lines of {options.output} to {options.to}; the run: {end.state} ({end.text})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
