#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`optim = muon` against torch.optim.Muon, with torch.optim.AdamW for what is no matrix of a block.

usage: muon.py SFT_BIN_FOLDER [--ranks N ...]

Needs torch, transformers, peft, h5py, and mpirun. Both train the same model on the same rows in float32 for ten steps. torch
rounds every sum of the Newton-Schulz iteration to bf16, `sft` only what goes into a product, so single directions differ by a
hundredth or two, and losses by less than a thousandth of their way down.
"""
import json
import sys

import torch
import transformers

import hub_models
from lora import batch_loss, losses_of

STEPS = 10
RATE = 2e-3
DECAY = 0.1
TOLERANCE = 5e-4  # of the way that the loss has gone
MESH_TOLERANCE = 5e-4
CASES = {
    "llama": ("llama", {}),
    "qwen2, plain momentum": ("qwen2", {"momentum": 0.9, "nesterov": False}),
    "qwen3, original": ("qwen3", {"adjust_lr_fn": "original"}),
}


def train_torch(folder, tokens, weights, muon):
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    matrices, others, vectors = [], [], []
    for name, parameter in network.named_parameters():
        if parameter.ndim < 2:
            vectors.append(parameter)
        else:
            (matrices if ".layers." in name else others).append(parameter)
    optimizers = [
        torch.optim.Muon(matrices, lr=RATE, weight_decay=DECAY, **{"adjust_lr_fn": "match_rms_adamw", **muon}),
        torch.optim.AdamW([{"params": others, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}], lr=RATE),
    ]
    losses = []
    for _ in range(STEPS):
        loss = batch_loss(network, tokens, weights)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    return losses


def check_case(name, binaries, work, ranks):
    model, muon = CASES[name]
    folder = hub_models.make_model(model, work / model)
    shard = work / (model + ".h5")
    tokens, weights = hub_models.write_rows(shard, json.loads((folder / "config.json").read_text())["vocab_size"])
    expected = train_torch(folder, tokens, weights, muon)
    keys = {"optim": "muon", "learning_rate": RATE, "lr_scheduler_type": "constant", "weight_decay": DECAY,
            **{{"momentum": "muon_momentum"}.get(key, key): str(value).lower() for key, value in muon.items()}}
    words = [word for key, value in keys.items() for word in (f"--optimizer.{key}", str(value))]
    runs = []
    for num_ranks in ranks:
        for mesh in hub_models.meshes(num_ranks):
            output = work / (f"output-{name}-" + "x".join(map(str, mesh)))
            hub_models.run_sft(binaries, folder, shard, output, mesh, [*words, "--train.max_steps", str(STEPS)])
            runs.append(losses_of(output)[0])
    way = expected[0] - min(expected)
    worst = max(abs(a - b) for a, b in zip(runs[0], expected, strict=True)) / way
    apart = max(abs(a - b) for run in runs for a, b in zip(run, runs[0], strict=True)) / way
    agrees = worst < TOLERANCE and apart < MESH_TOLERANCE
    print(f"{'ok  ' if agrees else 'FAIL'} {name:22} loss {expected[0]:.5f} to {expected[-1]:.5f}, ours {runs[0][-1]:.5f}; of the "
          f"way: +- {worst:.1e}, {len(runs)} meshes +- {apart:.1e}", flush=True)
    return agrees


def check(binaries, work, ranks):
    return [check_case(name, binaries, work, ranks) for name in CASES]


if __name__ == "__main__":
    sys.exit(hub_models.check_on_meshes(__doc__, check))
