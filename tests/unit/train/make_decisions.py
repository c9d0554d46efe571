#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What transformers decides after each of a row of evaluations: the best metric, its step, and whether EarlyStoppingCallback
stops, in decisions.txt beside it. Needs transformers.

    tests/unit/train/make_decisions.py --write    writes the file
    tests/unit/train/make_decisions.py --check    fails where it is another one

A case is a line `case METRIC GREATER PATIENCE THRESHOLD`, GREATER being what TrainingArguments makes of the metric's name
or a given value, and a line for each evaluation: `VALUE BEST_METRIC BEST_STEP STOPS`, steps counted from 1.
"""

import pathlib
import random
import sys
import tempfile

import torch
from transformers import EarlyStoppingCallback, Trainer, TrainerControl, TrainingArguments

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "optim"))
import fixture_file  # noqa: E402

FILE = pathlib.Path(__file__).with_name("decisions.txt")
CASES = [  # metric, greater_is_better, patience, threshold, values
    ("loss", None, 2, 0.0, [3.0, 2.0, 2.0, 1.5, 1.6, 1.7, 1.0]),
    ("eval_loss", None, 1, 0.0, [3.0, 3.0]),
    ("loss", None, 3, 0.25, [3.0, 2.75, 2.74, 2.6, 2.5, 2.1, 2.0, 1.9, 1.8]),
    ("mean_token_accuracy", None, 2, 0.0, [0.1, 0.3, 0.3, 0.2, 0.5]),
    ("eval_mean_token_accuracy", None, 2, 0.125, [0.125, 0.25, 0.375, 0.5, 0.75, 0.6, 0.8]),
    ("entropy", None, 2, 0.0, [2.0, 1.0, 3.0, 2.5, 2.0]),
    ("entropy", False, 2, 0.0, [2.0, 1.0, 3.0, 2.5, 2.0]),
    ("loss", True, 1, 0.0, [1.0, 2.0, 1.5]),
]


def decisions(metric, greater, patience, threshold, values, folder):
    arguments = TrainingArguments(output_dir=folder, use_cpu=True, metric_for_best_model=metric, greater_is_better=greater,
                                  eval_strategy="steps", eval_steps=1, save_steps=1, load_best_model_at_end=True)
    trainer = Trainer(torch.nn.Linear(1, 1), arguments, eval_dataset=[{}],
                      callbacks=[EarlyStoppingCallback(patience, threshold)])
    control = TrainerControl()
    yield f"case {metric.removeprefix('eval_')} {str(arguments.greater_is_better).lower()} {patience} {threshold!r}"
    for step, value in enumerate(values, 1):
        trainer.state.global_step = step
        metrics = {"eval_" + metric.removeprefix("eval_"): value}
        control = trainer.callback_handler.on_evaluate(arguments, trainer.state, control, metrics)
        trainer._determine_best_metric(metrics, None)
        yield f"{value!r} {trainer.state.best_metric!r} {trainer.state.best_global_step} {int(control.should_training_stop)}"


def make_text() -> str:
    draw = random.Random(7)
    cases = list(CASES)
    for number in range(12):
        values = [draw.randrange(40) / 8 for _ in range(24)]
        cases.append(("loss" if number % 2 else "mean_token_accuracy", None, 1 + number % 5, (number % 3) / 4, values))
    with tempfile.TemporaryDirectory() as folder:
        return "".join(line + "\n" for case in cases for line in decisions(*case, folder))


if __name__ == "__main__":
    fixture_file.write_or_check(__doc__, FILE, make_text)
