# SPDX-License-Identifier: Apache-2.0
"""Services that keep metrics, each with the same three calls: begin a run or go on with it, log, finish."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Protocol

from run_state import RunState


@dataclasses.dataclass
class TrackedRun:
    """The facts about a run that a service gets at its begin."""

    project: str
    name: str
    run_id: str
    config: dict[str, Any]  # section.key: numbers and booleans where they are
    folder: Path
    start_time_s: float  # since 1970


@dataclasses.dataclass
class Point:
    """A line of metrics.jsonl."""

    numbers: dict[str, float]  # under the tags of transformers
    step: int
    time_s: float  # since 1970


class Service(Protocol):
    """A run in a service. The constructor takes a TrackedRun."""

    most_numbers: int  # in one call of log(), but for a point that has more

    def log(self, points: list[Point]) -> None:
        """Lines of metrics.jsonl, in order."""

    def finish(self, end: RunState, is_told: bool) -> None:
        """The last call. `is_told`: an earlier call of track.py told the service of the same end."""


class Wandb:
    most_numbers = 1

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        self.run = wandb.init(project=run.project, name=run.name, id=run.run_id, resume="allow", config=run.config, dir=run.folder)
        # Evaluations come after their step, so points have an axis of their own, as in transformers.
        self.run.define_metric("train/global_step")
        self.run.define_metric("*", step_metric="train/global_step", step_sync=True)

    def log(self, points: list[Point]) -> None:
        for point in points:
            self.run.log(point.numbers | {"train/global_step": point.step, "_timestamp": point.time_s})

    def finish(self, end: RunState, is_told: bool) -> None:
        self.run.summary["sft_end"] = end.text
        if end.state in ("running", "stopped"):  # W&B then shows a run that goes on later as preempted
            self.run.mark_preempting()
        self.run.finish(exit_code={"finished": 0, "stopped": 75}.get(end.state, 1))


class Mlflow:
    STATUS = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED", "lost": "KILLED"}
    most_numbers = 1000  # its REST API takes no more
    MOST_PARAMS = 100  # in one call
    LONGEST_PARAM = 6000

    def __init__(self, run: TrackedRun) -> None:
        import mlflow
        from mlflow.entities import Param

        self.client = mlflow.MlflowClient()
        experiment = self.client.get_experiment_by_name(run.project)
        experiment_id = experiment.experiment_id if experiment else self.client.create_experiment(run.project)
        known = self.client.search_runs([experiment_id], f"tags.sft_run_id = '{run.run_id}'", max_results=1)
        if known:
            self.run_id, self.status = known[0].info.run_id, known[0].info.status
            return
        made = self.client.create_run(
            experiment_id, start_time=int(1000 * run.start_time_s), tags={"sft_run_id": run.run_id}, run_name=run.name)
        self.run_id, self.status = made.info.run_id, made.info.status
        params = [Param(key, str(value)[: self.LONGEST_PARAM]) for key, value in run.config.items()]
        for i in range(0, len(params), self.MOST_PARAMS):
            self.client.log_batch(self.run_id, params=params[i : i + self.MOST_PARAMS])

    def log(self, points: list[Point]) -> None:
        from mlflow.entities import Metric

        self._set_status("RUNNING")
        metrics = [
            Metric(key, value, int(1000 * point.time_s), point.step) for point in points for key, value in point.numbers.items()]
        self.client.log_batch(self.run_id, metrics=metrics)

    def _set_status(self, status: str) -> None:
        """A run that was resumed goes on."""
        if self.status != status:
            self.client.update_run(self.run_id, status=status)
            self.status = status

    def finish(self, end: RunState, is_told: bool) -> None:
        if end.state not in self.STATUS:
            self._set_status("RUNNING")
            return
        self.client.set_tag(self.run_id, "sft_end", end.text)
        end_time = int(1000 * end.end_time_s) if end.end_time_s else None
        self.client.set_terminated(self.run_id, self.STATUS[end.state], end_time)


class Trackio:
    """trackio knows neither the state of a run nor the time of a point: the time is a number, an end without success an alert."""

    most_numbers = 1

    def __init__(self, run: TrackedRun) -> None:
        import trackio

        self.package = trackio
        self.run = trackio.init(
            project=run.project, name=f"{run.name}-{run.run_id[:8]}", config=run.config, resume="allow", embed=False)

    def log(self, points: list[Point]) -> None:
        for point in points:
            self.run.log(point.numbers | {"train/time": point.time_s}, step=point.step)

    def finish(self, end: RunState, is_told: bool) -> None:
        if end.state in ("failed", "lost", "stopped") and not is_told:
            level = self.package.AlertLevel.WARN if end.state == "stopped" else self.package.AlertLevel.ERROR
            self.package.alert(title=f"the run {end.state}", text=end.text, level=level)
        self.run.finish()


class Swanlab:
    """SwanLab takes no time for a point: it is a number. SWANLAB_MODE=offline keeps what `swanlab sync` sends later."""

    most_numbers = 1
    STATE = {"finished": "success", "failed": "crashed", "lost": "crashed"}

    def __init__(self, run: TrackedRun) -> None:
        import swanlab

        self.run = swanlab.init(
            project=run.project, name=run.name, id=run.run_id, resume="allow", config=run.config, log_dir=str(run.folder / "swanlog"))

    def log(self, points: list[Point]) -> None:
        for point in points:
            self.run.log(point.numbers | {"train/time": point.time_s}, step=point.step)

    def finish(self, end: RunState, is_told: bool) -> None:
        state = self.STATE.get(end.state, "aborted")
        self.run.finish(state=state, error=end.text if state == "crashed" else None)


SERVICES = {"wandb": Wandb, "mlflow": Mlflow, "trackio": Trackio, "swanlab": Swanlab}
