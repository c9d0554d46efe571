#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learning rates of transformers and torch, in rates.txt beside it.

    tests/unit/optim/make_rates.py --write    writes the file
    tests/unit/optim/make_rates.py --check    fails where it is another one

Lines are fields between bars. `steps | TYPE | KWARGS | LEARNING_RATE | WARMUP | NUM_STEPS | NUM_WARMUP_STEPS | RATE ...` has
the rate of every step, from the scheduler that the Trainer makes of these TrainingArguments; WARMUP is their warmup_steps,
NUM_WARMUP_STEPS what get_warmup_steps makes of it. `losses | TYPE | KWARGS | LEARNING_RATE | LOSS ... | RATE ...` has the
rate after every loss of an evaluation. `refused | TYPE | KWARGS | LEARNING_RATE` is what they do not take.

Needs torch and transformers.
"""
import json
import math
import pathlib
import random
import tempfile
import warnings

import torch
import transformers

import fixture_file

FILE = pathlib.Path(__file__).with_name("rates.txt")
WARMUPS = [(0, 8), (3, 11), (0.25, 11), (0.1, 30), (2.75, 8), (10, 7)]  # warmup_steps, steps
SOME_WARMUPS = [(0, 8), (3, 11), (0.3, 11)]
PLAIN = ["linear", "cosine", "cosine_with_restarts", "polynomial", "constant_with_warmup", "inverse_sqrt"]
# type, kwargs, peak rate
CHOSEN = [
    ("cosine", {"num_cycles": 1.25}, 2e-5),
    ("cosine", {"num_cycles": 0}, 2e-5),
    ("cosine_with_restarts", {"num_cycles": 2}, 1e-3),
    ("cosine_with_restarts", {"num_cycles": "3"}, 1e-3),
    ("cosine_with_restarts", {"num_cycles": 2.6}, 1e-3),
    ("polynomial", {"power": 2}, 1e-4),
    ("polynomial", {"power": 0.5, "lr_end": 3e-5}, 1e-4),
    ("polynomial", {"lr_end": 0}, 1e-4),
    ("inverse_sqrt", {"timescale": 5}, 1e-3),
    ("inverse_sqrt", {"timescale": 2.5}, 1e-3),
    ("inverse_sqrt", {"timescale": None}, 1e-3),
    ("cosine_with_min_lr", {"min_lr": 1e-6}, 3e-5),
    ("cosine_with_min_lr", {"min_lr_rate": 0.1}, 3e-5),
    ("cosine_with_min_lr", {"min_lr_rate": 0.2, "num_cycles": 1.5}, 3e-5),
    ("cosine_warmup_with_min_lr", {"min_lr": 1e-6}, 3e-5),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1, "warmup_lr_rate": 0.25}, 3e-5),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0, "warmup_lr_rate": 0, "num_cycles": 0.75}, 3e-5),
    ("warmup_stable_decay", {"num_decay_steps": 4}, 1e-3),
    ("warmup_stable_decay", {"num_decay_steps": 3, "num_stable_steps": 2, "min_lr_ratio": 0.1}, 1e-3),
    ("warmup_stable_decay", {"num_decay_steps": 4, "warmup_type": "cosine", "decay_type": "linear"}, 1e-3),
    ("warmup_stable_decay", {"num_decay_steps": 4, "warmup_type": "1-sqrt", "decay_type": "1-sqrt", "min_lr_ratio": 0.2}, 1e-3),
    ("warmup_stable_decay", {"num_decay_steps": 6, "decay_type": "cosine", "num_cycles": 1.5}, 1e-3),
    ("warmup_stable_decay", {"num_decay_steps": 20}, 1e-3),  # more than there are: the decay begins in its midst
    ("warmup_stable_decay", {"num_decay_steps": 0}, 1e-3),
]
PLATEAUS = [
    ({}, 1e-3, 40),
    ({"patience": 0}, 1e-3, 12),
    ({"patience": 1, "factor": 0.5, "cooldown": 2}, 1e-3, 30),
    ({"patience": 2, "factor": 0.3, "min_lr": 1e-4}, 1e-3, 30),
    ({"patience": 0, "factor": 0.5, "eps": 1e-4}, 1e-3, 20),
    ({"patience": 1, "threshold": 0.1, "threshold_mode": "abs"}, 2e-5, 20),
    ({"patience": 1, "threshold": 0.05, "threshold_mode": "rel"}, 2e-5, 20),
    ({"patience": 0, "mode": "max", "factor": 0, "min_lr": 1e-6}, 1e-3, 30),
    ({"patience": "1", "factor": "0.7", "mode": "max", "threshold_mode": "abs", "threshold": 0.2, "cooldown": 1}, 1e-3, 30),
    ({"patience": 0, "threshold": 1}, 1e-3, 6),
]
REFUSED = [
    ("polynomial", {"lr_end": 1e-3}, 1e-3),
    ("polynomial", {}, 1e-8),
    ("cosine_with_min_lr", {"min_lr": 1e-6, "min_lr_rate": 0.1}, 1e-3),
    ("cosine_with_min_lr", {}, 1e-3),
    ("cosine_with_min_lr", {"min_lr": 1e-6}, 0.0),
    ("cosine_warmup_with_min_lr", {"min_lr": 1e-6, "min_lr_rate": 0.1}, 1e-3),
    ("cosine_warmup_with_min_lr", {}, 1e-3),
    ("warmup_stable_decay", {}, 1e-3),
    ("warmup_stable_decay", {"num_decay_steps": 4, "warmup_type": "sqrt"}, 1e-3),
    ("warmup_stable_decay", {"num_decay_steps": 4, "decay_type": "exp"}, 1e-3),
    ("reduce_lr_on_plateau", {"factor": 1.0}, 1e-3),
    ("reduce_lr_on_plateau", {"mode": "least"}, 1e-3),
    ("reduce_lr_on_plateau", {"threshold_mode": "relative"}, 1e-3),
    ("linear", {"num_cycles": 2}, 1e-3),
    ("cosine", {"power": 2}, 1e-3),
    ("polynomial", {"num_cycles": 2}, 1e-3),
    ("inverse_sqrt", {"min_lr": 2}, 1e-3),
    ("inverse_sqrt", {"timescale": 0}, 1e-3),
    ("reduce_lr_on_plateau", {"num_cycles": 2}, 1e-3),
    ("cosine_with_min_lr", {"min_lr_rate": 0.1, "warmup_lr_rate": 0.1}, 1e-3),
    ("cosine", {"num_cycles": "many"}, 1e-3),
]


def arguments_of(folder, kind, kwargs, rate, **others):
    """As on the command line, where kwargs are JSON."""
    return transformers.TrainingArguments(
        output_dir=folder, use_cpu=True, report_to="none", lr_scheduler_type=kind, lr_scheduler_kwargs=json.dumps(kwargs),
        learning_rate=rate, eval_strategy="steps", eval_steps=1, **others)


class Schedule:
    """The scheduler that the Trainer makes, and its rate."""

    def __init__(self, arguments, num_steps):
        self.optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=arguments.learning_rate)
        self.scheduler = transformers.get_scheduler(
            arguments.lr_scheduler_type, self.optimizer, num_warmup_steps=arguments.get_warmup_steps(num_steps),
            num_training_steps=num_steps, scheduler_specific_kwargs=arguments.lr_scheduler_kwargs)

    def rate(self):
        return self.optimizer.param_groups[0]["lr"]


def texts(numbers):
    return " ".join(map(repr, numbers))


def line_of_steps(folder, kind, kwargs, rate, warmup, num_steps):
    arguments = arguments_of(folder, kind, kwargs, rate, warmup_steps=warmup)
    schedule = Schedule(arguments, num_steps)
    rates = []
    for step in range(num_steps):
        rates.append(schedule.rate())
        if step + 1 < num_steps:
            schedule.scheduler.step()
    return (f"steps | {kind} | {json.dumps(kwargs)} | {rate!r} | {warmup} | {num_steps} | "
            f"{arguments.get_warmup_steps(num_steps)} | {texts(rates)}")


def losses_of(num_losses, mode):
    """They fall, rise and stand still, by much and by little."""
    numbers = random.Random(num_losses)
    losses = []
    for i in range(num_losses):
        loss = 2.0 + 3.0 * math.exp(-i / 4) + numbers.choice([0.0, 1e-5, 0.02, 0.3]) * numbers.uniform(-1, 1)
        losses.append(losses[-1] if losses and numbers.random() < 0.2 else loss)
    return losses if mode == "min" else [1.0 / loss for loss in losses]


def line_of_losses(folder, kwargs, rate, num_losses):
    kind = "reduce_lr_on_plateau"
    schedule = Schedule(arguments_of(folder, kind, kwargs, rate), num_losses)
    losses = losses_of(num_losses, kwargs.get("mode", "min"))
    rates = []
    for loss in losses:
        schedule.scheduler.step(loss)
        rates.append(schedule.rate())
    return f"losses | {kind} | {json.dumps(kwargs)} | {rate!r} | {texts(losses)} | {texts(rates)}"


def line_of_refused(folder, kind, kwargs, rate):
    try:
        schedule = Schedule(arguments_of(folder, kind, kwargs, rate), 4)
        schedule.scheduler.step()
    except (ValueError, TypeError, ZeroDivisionError):
        return f"refused | {kind} | {json.dumps(kwargs)} | {rate!r}"
    raise AssertionError(f"{kind} takes {kwargs}")


def lines():
    yield f"# tests/unit/optim/make_rates.py, torch {torch.__version__}, transformers {transformers.__version__}"
    with tempfile.TemporaryDirectory() as folder:
        yield line_of_steps(folder, "constant", {}, 2e-5, 0, 5)
        for kind in PLAIN:
            for warmup in WARMUPS:
                yield line_of_steps(folder, kind, {}, 2e-5, *warmup)
        for chosen in CHOSEN:
            for warmup in SOME_WARMUPS:
                yield line_of_steps(folder, *chosen, *warmup)
        for plateau in PLATEAUS:
            yield line_of_losses(folder, *plateau)
        for refused in REFUSED:
            yield line_of_refused(folder, *refused)


def text():
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    fixture_file.write_or_check(__doc__, FILE, text)
