#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the planned memory of ranks against what they took at most, on every mesh of the equivalence table.

Reads the meshes from tests/equivalence/mesh_table.hpp, trains some steps of a model of the same family on each, and
prints the planned memory of the fullest rank, the highest peak of any, and their ratio. Exit status 1 where a plan is
below the peak, or above it by more than --tolerance.

usage: tests/tools/benchmarks/plan_memory.py [--build build/release] [--hidden 40] [--tolerance 0.02] [--save]
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]
# As tests/support/awkward_data.cpp has them, beside the sizes.
FAMILIES = {
    "llama": {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": "true"},
    "qwen2": {"num_attention_heads": 6, "num_key_value_heads": 2, "attention_bias": "true"},
    "qwen3": {"num_attention_heads": 4, "num_key_value_heads": 1, "num_hidden_layers": 3, "qk_norm": "true",
              "tie_word_embeddings": "true"},
    "gemma3": {"num_attention_heads": 4, "num_key_value_heads": 1, "qk_norm": "true", "tie_word_embeddings": "true",
               "block_norms": "gemma2", "hidden_act": "gelu_pytorch_tanh", "zero_centered_norms": "true",
               "sliding_window": 7, "layer_types": "sliding_attention full_attention"},
    "olmo2": {"num_attention_heads": 4, "num_key_value_heads": 2, "block_norms": "olmo2", "qk_norm": "true",
              "qk_norm_all_heads": "true"},
}


def meshes():
    text = (SOURCE / "tests/equivalence/mesh_table.hpp").read_text()
    row = re.compile(r"\{\{(\d+), (\d+), (\d+), (\d+)\}, Family::(\w+)(, config::Reshard::never)?\}")
    return [(tuple(map(int, found[:4])), found[4], bool(found[5])) for found in row.findall(text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=SOURCE / "build" / "release")
    parser.add_argument("--hidden", type=int, default=40, help="hidden size, a multiple of 40: the table's is 40")
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--most_ranks", type=int, default=16)
    parser.add_argument("--save", action="store_true", help="with checkpoints beside training")
    options = parser.parse_args()
    programs = pathlib.Path(options.build).resolve() / "bin"
    failed = 0
    print("| mesh | model | planned MiB | peak MiB | planned / peak |\n|---|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        with (folder / "text.jsonl").open("w") as out:
            for number in range(600):
                out.write(json.dumps({"prompt": f"What comes behind {number}?", "completion": f" {number + 1}" * (number % 7 + 1)}) + "\n")
        subprocess.run([programs / "sft-prepare", "--input", "text.jsonl", "--output", "data", "--max_length", "96"],
                       cwd=folder, check=True, capture_output=True)
        for (replicas, shards, sp, tp), family, keeps in meshes():
            num_ranks = replicas * shards * sp * tp
            if num_ranks > options.most_ranks:
                continue
            model = {"hidden_size": options.hidden, "intermediate_size": 2 * options.hidden + options.hidden // 5 * 2,
                     "num_hidden_layers": 2, "head_dim": 16, "vocab_size": 384, **FAMILIES[family]}
            model["intermediate_size"] = (model["intermediate_size"] + 11) // 12 * 12
            (folder / "run.ini").write_text("[model]\n" + "".join(f"{key} = {value}\n" for key, value in model.items()) +
                                            "[data]\ntrain_files = data/train-*.h5\n")
            keys = {"dp_replicate_size": replicas, "dp_shard_size": shards, "sp_size": sp, "tp_size": tp,
                    "reshard_after_forward": "false" if keeps else "true", "precision": "fp32", "max_steps": 10,
                    "per_device_train_batch_size": 2, "gradient_accumulation_steps": 3, "logging_steps": 1,
                    "output_dir": "output", "resume_from_checkpoint": "none"}
            keys.update({"save_steps": 4} if options.save else {"save_strategy": "no"})
            words = [word for key, value in keys.items() for word in (f"--{key}", str(value))]
            subprocess.run(["rm", "-rf", "output"], cwd=folder, check=True)
            done = subprocess.run([programs / "sft-run", "-n", str(num_ranks), "run.ini", *words], cwd=folder,
                                  env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{replicas} x {shards} x {sp} x {tp}: {done.stdout[-800:]}{done.stderr[-1500:]}")
            # What the run says at its very end, behind its last checkpoint.
            found = re.search(r"plan vs run +planned ([\d.]+) MiB, peak ([\d.]+) MiB", done.stdout + done.stderr)
            planned, peak = float(found[1]), float(found[2])
            ratio = planned / peak
            failed += not 1 <= ratio <= 1 + options.tolerance  # to 0.1 MiB
            print(f"| {replicas} x {shards} x {sp} x {tp} | {family} | {planned:.1f} | {peak:.1f} | {ratio:.3f} |",
                  flush=True)
    print(f"\n{failed} meshes whose plan is below the peak or more than {options.tolerance:.0%} above it")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
