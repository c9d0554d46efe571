#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten steps on every mesh of a table against those on one rank, for families whose layers differ.

usage: meshes.py SFT_BIN_FOLDER [--families NAME ...] [--max_ranks N] [--first N] [--cases N] [--seed N]
                 [--any_margin]

The table has every way to write 2, 3, 4, 6, 8, 12 and 16 ranks as dp_replicate x dp_shard x sp x tp; with experts, ep takes
some of dp_shard. A token whose experts are equally likely but for rounding goes elsewhere where sums have another order
(router_margins.py). So models with experts are drawn until no choice of the ten steps on one rank is that narrow; with
--any_margin the first one is taken, and the first step that is off is held against the other choice of a narrow token:
`flip` where that explains it. What else a run chooses (stage, method, recomputation, offloading, accumulation ...) is drawn
for each mesh, the same for a seed; families take turns. Windows are shorter and longer than the chunks of a rank, and
documents as short as one token. A mesh that `sft` refuses is listed with its reason. Needs torch, transformers and h5py, for the weights, and mpirun.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch
import transformers

import families
import hub_models
import router_margins

NUM_ROWS = 48  # of a step: as many as 1, 2, 3, 4, 6, 8, 12 and 16 data ranks can share
NUM_STEPS = 10
MAX_LENGTH = 48
LOSS_TOLERANCE, NORM_TOLERANCE = 1e-5, 1e-4
# Between the logits of an expert that is chosen and of one that is not: runs that agree to 1e-7 differ by 1e-6 there.
LEAST_MARGIN = 5e-6
# As tests/equivalence has it: with 1e-8 what has no gradient but rounding moves by the whole rate, and logits by 1e-4.
NO_NOISE = {"adam_epsilon": 1e-6}
ROUNDING = 1e-6  # of a loss: steps that differ by less are the same

# 24 heads with 12 of keys and values, and widths that 12 divides: tp may be 2, 3, 4, 6 and 12.
SIZES = dict(hidden_size=96, intermediate_size=96, num_hidden_layers=3, num_attention_heads=24, num_key_value_heads=12,
             vocab_size=97, max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=False, pad_token_id=None,
             bos_token_id=None, eos_token_id=None, head_dim=8)
ROPE = dict(rope_parameters=dict(rope_type="default", rope_theta=1e4))
MODELS = {
    "llama": ("Llama", ROPE),
    "qwen3": ("Qwen3", ROPE),
    "short windows": ("Qwen3", ROPE | dict(use_sliding_window=True, sliding_window=3, max_window_layers=1)),
    "long windows": ("Mistral", ROPE | dict(sliding_window=29)),
    "olmo3": ("Olmo3", dict(sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                            rope_parameters={kind: dict(rope_type="default", rope_theta=theta) for kind, theta in
                                             (("full_attention", 1e4), ("sliding_attention", 1e3))})),
    "gemma2": ("Gemma2", ROPE | dict(sliding_window=9, query_pre_attn_scalar=8, attn_logit_softcapping=2.0,
                                     final_logit_softcapping=3.0)),
    "experts": ("Qwen3Moe", ROPE | dict(num_experts=24, num_experts_per_tok=3, moe_intermediate_size=24, mlp_only_layers=[1],
                                        norm_topk_prob=True, router_aux_loss_coef=0.01)),
}


def meshes(max_ranks):
    """(dp_replicate, dp_shard, sp, tp), every product of the table once."""
    found = []
    for num_ranks in (2, 3, 4, 6, 8, 12, 16):
        if num_ranks > max_ranks:
            break
        for replicate in range(1, num_ranks + 1):
            for shard in range(1, num_ranks // replicate + 1):
                for sp in range(1, num_ranks // (replicate * shard) + 1):
                    if num_ranks % (replicate * shard * sp) == 0:
                        found.append((replicate, shard, sp, num_ranks // (replicate * shard * sp)))
    return found


def make_model(name, folder, seed=11):
    prefix, fields = MODELS[name]
    torch.manual_seed(seed)
    network = getattr(transformers, prefix + "ForCausalLM")(getattr(transformers, prefix + "Config")(**(SIZES | fields)))
    families.draw_parameters(network)
    network.save_pretrained(folder)


def write_rows(path):
    """Rows of NUM_STEPS steps: full ones, short ones, documents of one token."""
    rng = np.random.default_rng(5)
    documents = []
    for row in range(NUM_ROWS * NUM_STEPS):
        left, lengths = MAX_LENGTH - int(rng.choice([0, 0, 0, 5, 30])), []
        while left > 0:
            lengths.append(min(left, int(rng.choice([1, 2, 7, 13, 48]))))
            left -= lengths[-1]
        documents.append(lengths)
    tokens = np.zeros((len(documents), MAX_LENGTH), np.int32)
    weights = np.zeros(tokens.shape, np.float32)
    for row, lengths in enumerate(documents):
        tokens[row, :sum(lengths)] = rng.integers(0, SIZES["vocab_size"], sum(lengths))
        weights[row, :sum(lengths)] = rng.choice([0.0, 0.5, 1.0, 1.0], sum(lengths))
    lengths = [length for row in documents for length in row]
    offsets = np.cumsum([0] + [len(row) for row in documents])
    with h5py.File(path, "w") as file:
        file["tokens"], file["loss_weight"] = tokens, weights
        file["document_lengths"], file["document_offsets"] = np.array(lengths, np.int32), offsets.astype(np.int64)
        file.attrs.update(dict(
            format="sft-packed", format_version=1, max_length=MAX_LENGTH, vocab_size=SIZES["vocab_size"], pad_token_id=0,
            eos_token_id=0, tokenizer="none", num_rows=len(tokens), num_documents=len(lengths),
            num_tokens=sum(lengths), num_target_tokens=int((weights > 0).sum()), packing_strategy="bfd",
            source="meshes.py"))


def draw_options(rng, name, mesh):
    replicate, shard, sp, tp = mesh
    rows = NUM_ROWS // (replicate * shard)
    # An auxiliary loss is that of a micro-batch, of which one rank has one.
    most = 1 if name == "experts" else 3
    accumulation = rng.choice([steps for steps in range(1, most + 1) if rows % steps == 0])
    options = {"gradient_accumulation_steps": accumulation, "per_device_train_batch_size": rows // accumulation,
               "activation_checkpointing": rng.choice(["none", "selective", "full"]),
               "mlp_tile_tokens": rng.choice([0, 0, 32]), "zero_stage": rng.choice([0, 1, 2, 3, 3]),
               "fsdp_units": rng.choice(["block", "parts", "2"]),
               "reshard_after_forward": rng.choice(["true", "true", "false"]),
               "offload_optimizer": rng.choice(["none", "none", "host"])}
    if sp > 1:
        options["sp_method"] = rng.choice(["ring", "all_gather", "ulysses"] + (["hybrid"] if sp % 4 == 0 else []))
        if options["sp_method"] == "hybrid":
            options["ulysses_size"] = 2
    if tp > 1:
        options["tp_sequence_parallel"] = rng.choice(["true", "false"])
    if name == "experts":  # ranks of ep read rows of their own, as those of dp_shard do
        options["ep_size"] = rng.choice([size for size in range(1, shard + 1) if shard % size == 0])
        options["dp_shard_size"] = shard // options["ep_size"]
    return options


def folders_of_steps(binaries, folder, output):
    """The weights before each step, where a run has saved after each, as model folders."""
    folders = [folder]
    for step in range(1, NUM_STEPS):
        folders.append(output / f"model-{step}")
        subprocess.run([binaries / "sft-convert", output / f"checkpoint-{step:06}", folders[-1]], check=True,
                       capture_output=True)
    return folders


def make_baseline(binaries, name, folder, shard, work, any_margin):
    """A model, and losses and norms of one rank."""
    alone = {"per_device_train_batch_size": NUM_ROWS} | ({} if any_margin else NO_NOISE)
    has_experts = "num_experts" in MODELS[name][1]
    if has_experts:
        alone |= {"save_strategy": "steps", "save_steps": 1}
    for seed in range(11, 40):
        output = work / f"{folder.name}-1-{seed}"
        make_model(name, folder, seed)
        baseline = run(binaries, folder, shard, output, (1, 1, 1, 1), alone)
        if not has_experts:
            return baseline
        folders = folders_of_steps(binaries, folder, output)
        margin = router_margins.smallest_margin(folders, shard, NUM_ROWS)
        print(f"{name}: seed {seed}, the narrowest choice by {margin:.1e}", flush=True)
        if any_margin or margin >= LEAST_MARGIN:
            return *baseline, folders
    raise RuntimeError("no model has wide margins")


def flip_of(folders, shard, losses, expected):
    """The other choice of one token that explains the first step that is off, as text; none where none does."""
    step = int(np.argmax(np.abs(losses / expected - 1) > ROUNDING))
    deviation = losses[step] / expected[step] - 1
    found = router_margins.explain(folders[step], router_margins.batches_of_step(shard, step, NUM_ROWS), deviation)
    if found is None or abs(found[1] - deviation) > ROUNDING:
        return None
    return (f"step {step + 1} is off by {deviation:.3e}; a token whose experts differ by {found[0].margin:.0e} gives "
            f"{found[1]:.3e} with the other one")


def run(binaries, folder, shard, output, mesh, options):
    """Losses and gradient norms of the steps; a RuntimeError has what `sft` said."""
    sizes = dict(zip(("dp_replicate_size", "dp_shard_size", "sp_size", "tp_size"), mesh))
    settings = sizes | {"save_strategy": "no", "save_hub_model": "false"} | options | {
        "model_name_or_path": folder, "train_files": shard, "max_steps": NUM_STEPS, "precision": "fp32",
        "learning_rate": 1e-3, "lr_scheduler_type": "constant", "logging_steps": 1, "output_dir": output,
        "shuffle": "false"}
    words = [str(word) for key, value in settings.items() for word in (f"--{key}", value)]
    result = subprocess.run(["mpirun", "-np", str(int(np.prod(mesh))), str(binaries / "sft"), *words],
                            capture_output=True, text=True, env={**os.environ, **hub_models.MPI_ENVIRONMENT})
    if result.returncode != 0:
        errors = [line for line in result.stderr.splitlines() if "error: " in line]
        raise RuntimeError(f"status {result.returncode}: {errors[0] if errors else result.stderr[-400:]}")
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return np.array([line["loss"] for line in lines]), np.array([line["grad_norm"] for line in lines])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--families", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--max_ranks", type=int, default=16)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--any_margin", action="store_true")
    options = parser.parse_args()
    hub_models.be_quiet()
    table = meshes(options.max_ranks)[options.first:options.first + options.cases]
    counts = {"ok": 0, "FAIL": 0, "refused": 0, "flip": 0}
    with tempfile.TemporaryDirectory(prefix="meshes-") as work:
        work = pathlib.Path(work)
        write_rows(work / "rows.h5")
        baselines = {}
        for number, mesh in enumerate(table, options.first):
            name = options.families[number % len(options.families)]
            folder = work / name.replace(" ", "-")
            if name not in baselines:
                baselines[name] = make_baseline(options.binaries, name, folder, work / "rows.h5", work,
                                                options.any_margin)
            drawn = draw_options(random.Random(f"{options.seed} {number}"), name, mesh)
            drawn |= {} if options.any_margin else NO_NOISE
            shown = f"{'x'.join(map(str, mesh))} {name} {' '.join(map(str, drawn.values()))}"
            try:
                losses, norms = run(options.binaries, folder, work / "rows.h5", work / f"out-{number}", mesh, drawn)
            except RuntimeError as error:
                verdict = "refused" if str(error).startswith("status 2:") else "FAIL"
                counts[verdict] += 1
                print(f"{verdict} {number}: {shown}: {error}", flush=True)
                continue
            loss = np.max(np.abs(losses / baselines[name][0] - 1))
            norm = np.max(np.abs(norms / baselines[name][1] - 1))
            verdict = "ok" if len(losses) == NUM_STEPS and loss <= LOSS_TOLERANCE and norm <= NORM_TOLERANCE else "FAIL"
            flip = None
            if verdict == "FAIL" and len(losses) == NUM_STEPS and len(baselines[name]) == 3:
                flip = flip_of(baselines[name][2], work / "rows.h5", losses, baselines[name][0])
            verdict = "flip" if flip and options.any_margin else verdict
            counts[verdict] += 1
            print(f"{verdict:4} {number}: {shown}: loss {loss:.0e}, norm {norm:.0e}" + (f"; {flip}" if flip else ""),
                  flush=True)
    print(f"{counts['ok']} of {len(table)} meshes train as one rank does, {counts['refused']} refused, "
          f"{counts['flip']} with another choice of a token")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
