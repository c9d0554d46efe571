#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans the runs whose memory torchtitan, ALST and Megatron-LM have published, and prints both.

No GPU is needed: the plans are those of sft-plan. docs/benchmarks/2026-11-26-plans.md explains what differs.

usage: tests/tools/benchmarks/published_memory.py [--build build/release]
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]
LLAMA = {
    "8B": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
           "intermediate_size": 14336, "vocab_size": 128256},
    "70B": {"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
            "intermediate_size": 28672, "vocab_size": 128256},
}
FSDP = {"dp_replicate_size": 1, "sp_size": 1, "tp_size": 1, "zero_stage": 3, "offload_optimizer": "none",
        "offload_parameters": "none", "activation_offload": "false"}
ALST = {"dp_replicate_size": 1, "dp_shard_size": 1, "tp_size": 1, "zero_stage": 3, "sp_method": "ulysses",
        "activation_checkpointing": "full", "activation_offload": "true", "offload_optimizer": "host",
        "per_device_train_batch_size": 1, "mlp_tile_tokens": 8192}


class Planner:
    def __init__(self, build, folder):
        self.program, self.folder = pathlib.Path(build).resolve() / "bin" / "sft-plan", pathlib.Path(folder)
        lines = (SOURCE / "share/machines.ini").read_text().splitlines()
        start = lines.index("[h100]")
        h100 = [line for line in lines[start + 1:] if line and not line.startswith("[h200]")]
        if "[h200]" in lines:
            h100 = [line for line in lines[start + 1:lines.index("[h200]")] if line]
        self.h100 = h100

    def machine(self, ranks_per_node, num_nodes, device_gib, node_gib):
        changed = {"ranks_per_node": ranks_per_node, "device_memory_gib": device_gib, "node_memory_gib": node_gib}
        lines = ["[h100]"] + [line for line in self.h100 if line.split(" ")[0] not in changed]
        lines += [f"{key} = {value}" for key, value in changed.items()] + [f"num_nodes = {num_nodes}"]
        path = self.folder / "machine.ini"
        path.write_text("\n".join(lines) + "\n")
        return path

    def plan(self, model, machine, max_length, rows, keys):
        path = self.folder / "model.ini"
        path.write_text("[model]\n" + "".join(f"{key} = {value}\n" for key, value in LLAMA[model].items()))
        words = [word for key, value in keys.items() for word in (f"--{key}", str(value))]
        done = subprocess.run([self.program, path, "--max_length", str(max_length), "--rows", str(rows), "--machine",
                               machine, "--json", *words], capture_output=True, text=True)
        if done.returncode not in (0, 2) or not done.stdout:
            raise SystemExit(done.stderr[-1500:])
        return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=SOURCE / "build" / "release")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        planner = Planner(options.build, folder)
        print("| run | published GiB | planned GiB | with whole logits |\n|---|--:|--:|--:|")

        def show(name, published, report, tokens):
            """Beside the plan, whose loss goes over chunks, with all logits: in bf16, and twice in float32."""
            plans = report["plans"]
            planned = plans[0]["device_bytes"] / 2**30 if plans else float("nan")
            logits = tokens * 128256 * (2 + 4 + 4) / 2**30
            print(f"| {name} | {published} | {planned:.1f} | {planned + logits:.1f} |", flush=True)

        # torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: rows of 8192 where it says nothing else
        roomy = planner.machine(8, 1, 240, 4096)
        for published, checkpointing in (("82.4, compiled 77.0", "selective"), ("the same", "none"), ("the same", "full")):
            show(f"torchtitan, 8B, FSDP 8, 2 rows; here {checkpointing}", published, planner.plan(
                "8B", roomy, 8192, 16, {**FSDP, "activation_checkpointing": checkpointing,
                                        "per_device_train_batch_size": 2, "dp_shard_size": 8}), 2 * 8192)
        show("torchtitan, 8B, FSDP 128, 2 rows, selective", "67.0, compiled 62.0", planner.plan(
            "8B", planner.machine(8, 16, 240, 4096), 8192, 256,
            {**FSDP, "activation_checkpointing": "selective", "per_device_train_batch_size": 2, "dp_shard_size": 128}), 2 * 8192)
        for shards, cp, published in ((8, 1, "83.9"), (4, 2, "84.2"), (2, 4, "84.0"), (1, 8, "84.5")):
            show(f"torchtitan, 8B, FSDP {shards} x CP {cp}, a row of {32768 * cp}, full", published, planner.plan(
                "8B", planner.machine(8, 1, 240, 4096), 32768 * cp, shards,
                {**FSDP, "sp_size": cp, "dp_shard_size": shards, "activation_checkpointing": "full",
                 "per_device_train_batch_size": 1, **({"sp_method": "ring"} if cp > 1 else {})}), 32768)
        show("torchtitan, 70B, FSDP 32 x TP 8, 16 rows, full", "71.9", planner.plan(
            "70B", planner.machine(8, 32, 240, 4096), 8192, 512,
            {**FSDP, "tp_size": 8, "dp_shard_size": 32, "activation_checkpointing": "full",
             "per_device_train_batch_size": 16}), 16 * 8192 / 8)

        print("\n| run | published longest row | planned longest row |\n|---|--:|--:|")
        # ALST, arXiv 2506.13996: Llama 8B on H100 of 80 GB, nodes with 1.9 TiB; one GPU offloads its weights too
        for ranks, nodes, published, parameters in ((1, 1, "500 k", "host"), (8, 1, "3.7 M", "none"), (8, 4, "15 M", "none")):
            machine = planner.machine(ranks, nodes, 79.1, 1945)
            sp = ranks * nodes
            report = planner.plan("8B", machine, 65536 * sp, 1, {**ALST, "sp_size": sp, "offload_parameters": parameters})
            longest = report.get("longest_row", 0)
            print(f"| ALST, 8B, {nodes} x {ranks} H100 | {published} | {longest / 1e6:.2f} M |", flush=True)

        print("\n| run | Megatron-LM's theoretical_memory_usage.py GiB | planned GiB |\n|---|--:|--:|")
        # 18 bytes a weight, of which 12 are sharded by the distributed optimizer: ZeRO-1
        for ranks, tp in ((8, 1), (8, 2), (8, 8)):
            weights = 8.03e9 / tp
            theory = weights * (6 + 12 / (ranks / tp)) / 2**30
            report = planner.plan("8B", planner.machine(ranks, 1, 240, 4096), 1024, ranks // tp,
                                  {**FSDP, "zero_stage": 1, "tp_size": tp, "dp_shard_size": ranks // tp,
                                   "activation_checkpointing": "none", "per_device_train_batch_size": 1})
            of_rank = report["plans"][0]["fullest_rank_bytes"]
            state = sum(of_rank[label] for label in ("parameters", "gradients", "optimizer")) / 2**30
            print(f"| 8B, {ranks} GPUs, TP {tp}: weights, gradients, optimizer | {theory:.1f} | {state:.1f} |", flush=True)


if __name__ == "__main__":
    main()
