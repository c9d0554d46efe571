#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans 20 runs, from a GPU of 24 GB to 64 nodes of 8, and holds each against the dry run of what it wrote.

For each, `sft-plan --apply` writes an .ini file, and `sft --dry-run` of that file, with data of full rows, must be legal,
need as much memory as the plan says, no more than the machine has, and take as long. Exit status 1 where one does not.
No GPU is needed.

usage: tests/tools/benchmarks/plan_cases.py [--build build/release]
"""

import argparse
import json
import math
import pathlib
import struct
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]


def llama(hidden, layers, heads, kv_heads, mlp, vocab, **more):
    return {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "intermediate_size": mlp, "vocab_size": vocab, **more}


MODELS = {
    "135M": llama(576, 30, 9, 3, 1536, 49152, tie_word_embeddings="true"),
    "1B": llama(2048, 16, 32, 8, 8192, 128256, tie_word_embeddings="true", head_dim=64),
    "3B": llama(3072, 28, 24, 8, 8192, 128256, tie_word_embeddings="true", head_dim=128),
    "7B": llama(3584, 28, 28, 4, 18944, 152064, attention_bias="true"),
    "8B": llama(4096, 32, 32, 8, 14336, 128256),
    "14B": llama(5120, 40, 40, 8, 17408, 151936, head_dim=128, qk_norm="true"),
    "32B": llama(5120, 64, 64, 8, 25600, 151936, head_dim=128, qk_norm="true"),
    "70B": llama(8192, 80, 64, 8, 28672, 128256),
    "30B-A3B": llama(2048, 48, 32, 4, 6144, 151936, head_dim=128, qk_norm="true", num_experts=128,
                     num_experts_per_tok=8, moe_intermediate_size=768),
    "8x7B": llama(4096, 32, 32, 8, 14336, 32000, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=14336),
}
LORA = {"use_peft": "true", "lora_r": 16}
QLORA = {**LORA, "load_in_4bit": "true"}
# name, model, keys of its own, max_length, rows a step, machine (devices, nodes, GiB of one)
CASES = [
    ("135M", {}, 2048, 32, (1, 1, 23.6)),
    ("1B", {}, 4096, 16, (1, 1, 23.6)),
    ("8B", LORA, 4096, 16, (1, 1, 23.6)),
    ("8B", QLORA, 8192, 16, (1, 1, 23.6)),
    ("14B", QLORA, 4096, 16, (1, 1, 23.6)),
    ("3B", {}, 8192, 32, (4, 1, 23.6)),
    ("8B", LORA, 16384, 32, (4, 1, 23.6)),
    ("7B", {}, 8192, 64, (8, 1, 79.2)),
    ("8B", {}, 32768, 64, (8, 1, 79.2)),
    ("8B", {}, 131072, 8, (8, 1, 79.2)),
    ("32B", LORA, 16384, 64, (8, 1, 79.2)),
    ("70B", QLORA, 8192, 64, (8, 1, 79.2)),
    ("30B-A3B", {}, 8192, 64, (8, 2, 79.2)),
    ("8B", {}, 32768, 64, (8, 4, 139.8)),
    ("14B", {}, 65536, 64, (8, 4, 139.8)),
    ("32B", {}, 32768, 128, (8, 8, 79.2)),
    ("8x7B", {}, 8192, 128, (8, 8, 79.2)),
    ("70B", {}, 8192, 512, (8, 16, 79.2)),
    ("70B", {}, 131072, 64, (8, 32, 139.8)),
    ("70B", {}, 8192, 1024, (8, 64, 79.2)),
]


def machine_text(devices, nodes, device_gib):
    """An H100 with other memory."""
    lines = (SOURCE / "share/machines.ini").read_text().splitlines()
    section = []
    for line in lines[lines.index("[h100]") + 1:]:
        if line.startswith("["):
            break
        section.append(line)
    changed = {"ranks_per_node": devices, "num_nodes": nodes, "device_memory_gib": device_gib}
    kept = [line for line in section if line.split(" ")[0] not in changed and line]
    return "\n".join(["[machine]", *kept, *(f"{key} = {value}" for key, value in changed.items())]) + "\n"


def write_weights(folder, sizes):
    """A file of the model's weights as far as a dry run looks at them: names and shapes, over a hole for their numbers."""
    hidden, mlp, vocab = sizes["hidden_size"], sizes["intermediate_size"], sizes["vocab_size"]
    head_dim = sizes.get("head_dim", hidden // sizes["num_attention_heads"])
    queries, keys = (sizes[f"num_{name}_heads"] * head_dim for name in ("attention", "key_value"))
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden], "lm_head.weight": [vocab, hidden]}
    for layer in range(sizes["num_hidden_layers"]):
        of_layer = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_proj": [queries, hidden],
                    "self_attn.k_proj": [keys, hidden], "self_attn.v_proj": [keys, hidden],
                    "self_attn.o_proj": [hidden, queries], "mlp.gate_proj": [mlp, hidden], "mlp.up_proj": [mlp, hidden],
                    "mlp.down_proj": [hidden, mlp]}
        if "qk_norm" in sizes:
            of_layer |= {"self_attn.q_norm": [head_dim], "self_attn.k_norm": [head_dim]}
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in of_layer.items()}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(file.tell() + end)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=SOURCE / "build" / "release")
    programs = pathlib.Path(parser.parse_args().build).resolve() / "bin"
    failures = 0
    print("| model | with | rows of | machine | plan | GiB of a GPU | s a step | dry run |\n|---|---|--:|---|---|--:|--:|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)

        def run(words, statuses=(0,)):
            done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True)
            if done.returncode not in statuses:
                raise SystemExit(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
            return done

        prepared = set()
        for model, keys, max_length, rows, (devices, nodes, gib) in CASES:
            data = f"data-{max_length}-{rows}"
            if data not in prepared:  # full rows, as many as a step has
                line = json.dumps({"input_ids": [5] * max_length}) + "\n"
                (folder / "rows.jsonl").write_text(line * rows)
                run([programs / "sft-prepare", "--input", "rows.jsonl", "--output", data, "--max_length", max_length])
                prepared.add(data)
            (folder / "machine.ini").write_text(machine_text(devices, nodes, gib))
            sizes = MODELS[model]
            if "load_in_4bit" in keys:  # weights in 4 bits are those of a model
                (folder / model).mkdir(exist_ok=True)
                kept = {key: value for key, value in sizes.items() if key not in ("qk_norm", "tie_word_embeddings")}
                kind = "Qwen3" if "qk_norm" in sizes else "Llama"
                (folder / model / "config.json").write_text(json.dumps(
                    {"model_type": kind.lower(), "architectures": [f"{kind}ForCausalLM"], "rms_norm_eps": 1e-5,
                     "rope_theta": 1e6, "hidden_act": "silu", "tie_word_embeddings": False,
                     "max_position_embeddings": 1 << 20, **kept}))
                write_weights(folder / model, sizes)
                sizes = {"model_name_or_path": folder / model}
            lines = ["[model]"] + [f"{key} = {value}" for key, value in sizes.items()]
            lines += ["[lora]"] + [f"{key} = {value}" for key, value in keys.items()] if keys else []
            (folder / "model.ini").write_text("\n".join(lines) + "\n")
            done = run([programs / "sft-plan", "model.ini", "--max_length", max_length, "--rows", rows, "--machine",
                        "machine.ini", "--json", "--apply", "planned.ini"], (0, 2))
            if "{" not in done.stdout:
                raise SystemExit(f"{model}: {done.stderr}")
            report = json.loads(done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1])
            name = f"| {model} | {'QLoRA' if 'load_in_4bit' in keys else 'LoRA' if keys else '-'} | {max_length} | {nodes} x {devices} x {gib} GiB |"
            if not report["plans"]:
                print(f"{name} nothing fits | - | - | - |", flush=True)
                continue
            plan = report["plans"][0]
            done = run([programs / "sft", "planned.ini", "--dry-run", "--json", "--machine", "machine.ini", "--num_ranks",
                        devices * nodes, "--ranks_per_node", devices, "--data.train_files", f"{data}/train-*.h5"])
            dry = json.loads(done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1])
            planned, real = plan["device_bytes"], dry["memory_per_rank"]["on the GPU"]["most_bytes"]
            steps = plan["step_s"], dry["planned_step"]["step_s"]
            problems = []
            if real > gib * 2**30:
                problems.append("does not fit")
            if abs(planned - real) > 0.001 * real:
                problems.append(f"needs {real / 2**30:.2f} GiB")
            if abs(steps[0] - steps[1]) > 0.001 * steps[1]:
                problems.append(f"takes {steps[1]:.3g} s")
            failures += bool(problems)
            mesh = "x".join(str(size) for size in plan["mesh"].values())
            print(f"{name} {mesh} | {planned / 2**30:.2f} | {steps[0]:.3g} | {', '.join(problems) or 'the same'} |", flush=True)
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
