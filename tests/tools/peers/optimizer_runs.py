# SPDX-License-Identifier: Apache-2.0
"""Ten steps by an optimizer of torch and by ours, on the same rows in float32: for scripts that compare optimizers."""
import json

import torch
import transformers

import hub_models
from lora import batch_loss, losses_of

STEPS = 10
DECAY = 0.1


def train_torch(folder, make_optimizers, tokens, weights):
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    optimizers = make_optimizers(network)
    losses = []
    for _ in range(STEPS):
        loss = batch_loss(network, tokens, weights)
        network.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    return losses


def check_case(name, model, make_optimizers, keys, tolerance, binaries, work, ranks):
    """Whether `sft` with these keys of [optimizer] has the losses of what make_optimizers(network) gives, on every mesh of so
    many ranks, to `tolerance` of the way that they go."""
    folder = hub_models.make_model(model, work / model)
    shard = work / (model + ".h5")
    tokens, weights = hub_models.write_rows(shard, json.loads((folder / "config.json").read_text())["vocab_size"])
    expected = train_torch(folder, make_optimizers, tokens, weights)
    keys = {"lr_scheduler_type": "constant", "weight_decay": DECAY, **keys}
    words = [word for key, value in keys.items() for word in (f"--optimizer.{key}", str(value))]
    runs = []
    for num_ranks in ranks:
        for mesh in hub_models.meshes(num_ranks):
            output = work / (f"output-{name}-{model}-" + "x".join(map(str, mesh)))
            hub_models.run_sft(binaries, folder, shard, output, mesh, [*words, "--train.max_steps", str(STEPS)])
            runs.append(losses_of(output)[0])
    way = expected[0] - min(expected)
    worst = max(abs(a - b) for a, b in zip(runs[0], expected, strict=True)) / way
    apart = max(abs(a - b) for run in runs for a, b in zip(run, runs[0], strict=True)) / way
    agrees = worst < tolerance and apart < tolerance
    print(f"{'ok  ' if agrees else 'FAIL'} {name:22} {model:10} loss {expected[0]:.5f} to {expected[-1]:.5f}, ours "
          f"{runs[0][-1]:.5f}; of the way: +- {worst:.1e}, {len(runs)} meshes +- {apart:.1e}", flush=True)
    return agrees
