#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`optim = muon` against torch.optim.Muon, with torch.optim.AdamW for what is no matrix of a block.

usage: muon.py SFT_BIN_FOLDER [--ranks N ...]

Needs torch, transformers, peft, h5py, and mpirun. Both train the same model on the same rows in float32 for ten steps. torch
rounds every sum of the Newton-Schulz iteration to bf16, `sft` only what goes into a product, so single directions differ by a
hundredth or two, and losses by less than a thousandth of their way down.
"""
import functools
import sys

import torch

import hub_models
import optimizer_runs
from optimizer_runs import DECAY

RATE = 2e-3
TOLERANCE = 5e-4  # of the way that the loss has gone
CASES = {
    "llama": ("llama", {}),
    "qwen2, plain momentum": ("qwen2", {"momentum": 0.9, "nesterov": False}),
    "qwen3, original": ("qwen3", {"adjust_lr_fn": "original"}),
}


def make_optimizers(muon, network):
    matrices, others, vectors = [], [], []
    for name, parameter in network.named_parameters():
        if parameter.ndim < 2:
            vectors.append(parameter)
        else:
            (matrices if ".layers." in name else others).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=RATE, weight_decay=DECAY, **{"adjust_lr_fn": "match_rms_adamw", **muon}),
        torch.optim.AdamW([{"params": others, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}], lr=RATE),
    ]


def check_case(name, binaries, work, ranks):
    model, muon = CASES[name]
    keys = {"optim": "muon", "learning_rate": RATE,
            **{{"momentum": "muon_momentum"}.get(key, key): str(value).lower() for key, value in muon.items()}}
    return optimizer_runs.check_case(name, model, functools.partial(make_optimizers, muon), keys, TOLERANCE, binaries, work,
                                     ranks)


def check(binaries, work, ranks):
    return [check_case(name, binaries, work, ranks) for name in CASES]


if __name__ == "__main__":
    sys.exit(hub_models.check_on_meshes(__doc__, check))
