#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`optim = adafactor` against transformers.Adafactor, and `adamw_8bit` against its published rule in torch.

usage: optimizers.py SFT_BIN_FOLDER [--ranks N ...]

Needs torch, transformers, peft, h5py, and mpirun. Both train the same model on the same rows in float32 for ten steps. The rule
of moments in 8 bits is that of tests/unit/optim/make_adamw_8bit.py, with the exceptions of bitsandbytes and transformers; a
number half way between two codes, to rounding, may get the other one.
"""
import functools
import math
import pathlib
import sys

import torch
from transformers.optimization import Adafactor

import hub_models
import optimizer_runs
from optimizer_runs import DECAY

sys.path.append(str(pathlib.Path(__file__).parents[2] / "unit" / "optim"))
import make_adamw_8bit  # noqa: E402

MIN_8BIT_ELEMENTS = 4096
WIDE = dict(intermediate_size=96)  # matrices of 18 blocks
hub_models.CASES.update({"wide_llama": ("Llama", WIDE), "wide_qwen2": ("Qwen2", dict(WIDE, tie_word_embeddings=True)),
                         "wide_qwen3": ("Qwen3", dict(WIDE, head_dim=16))})
# Optimizer, model, rate, and what losses may differ by, of the way that they have gone.
CASES = [("adafactor", "wide_llama", 1e-2, 1e-5), ("adafactor", "wide_qwen2", 1e-2, 1e-5),
         ("adafactor", "wide_qwen3", 3e-3, 1e-5),
         ("adamw_8bit", "wide_llama", 2e-3, 1e-3), ("adamw_8bit", "wide_qwen3", 2e-3, 1e-3)]


class AdamW8bit:
    """The rule of Dettmers et al. 2022, in the order of operations of bitsandbytes."""

    def __init__(self, network, rate):
        self.rate, self.step_number, self.parameters = rate, 0, []
        embedding = network.get_input_embeddings().weight
        for parameter in network.parameters():
            is_blockwise = parameter.numel() >= MIN_8BIT_ELEMENTS and parameter is not embedding
            moments = [make_adamw_8bit.Moment(parameter.numel(), numbers) if is_blockwise else Exact(parameter.numel())
                       for numbers in (make_adamw_8bit.SIGNED, make_adamw_8bit.UNSIGNED)]
            self.parameters.append((parameter, moments))

    @torch.no_grad()
    def step(self, beta1=0.9, beta2=0.999, epsilon=1e-8):
        self.step_number += 1
        correction1, correction2 = 1 - beta1**self.step_number, math.sqrt(1 - beta2**self.step_number)
        for parameter, (first, second) in self.parameters:
            g, decay = parameter.grad.flatten(), DECAY if parameter.ndim > 1 else 0.0
            s1, s2 = first.read() * beta1 + (1 - beta1) * g, second.read() * beta2 + (1 - beta2) * g * g
            change = -self.rate * correction2 / correction1 * (s1 / (s2.sqrt() + correction2 * epsilon))
            if isinstance(first, Exact):  # weights decay before the step, as in torch.optim.AdamW
                parameter.mul_(1 - self.rate * decay).add_(change.view_as(parameter))
            else:
                parameter.add_(change.view_as(parameter)).mul_(1 - self.rate * decay)
            first.write(s1)
            second.write(s2)


class Exact:
    """A moment in float32."""

    def __init__(self, size):
        self.numbers = torch.zeros(size)

    def read(self):
        return self.numbers

    def write(self, numbers):
        self.numbers = numbers


def make_adafactor(network, rate):
    matrices = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in network.parameters() if parameter.ndim == 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return Adafactor(groups, lr=rate, scale_parameter=False, relative_step=False)


def make_optimizers(optim, rate, network):
    return [{"adafactor": make_adafactor, "adamw_8bit": AdamW8bit}[optim](network, rate)]


def check_case(optim, model, rate, tolerance, binaries, work, ranks):
    return optimizer_runs.check_case(optim, model, functools.partial(make_optimizers, optim, rate),
                                     {"optim": optim, "learning_rate": rate}, tolerance, binaries, work, ranks)


def check(binaries, work, ranks):
    return [check_case(*case, binaries, work, ranks) for case in CASES]


if __name__ == "__main__":
    sys.exit(hub_models.check_on_meshes(__doc__, check))
