#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds planned times of steps against measured ones on this machine, and the planner's choice against the fastest.

Draws small models, lengths, meshes, stages, ways of attending, recomputations and micro-batches at random, no two alike,
measures the machine with as many ranks in the same session (`sft --check --write_machine`), trains some steps of each, and
prints planned, measured and their ratio. Then lets sft-plan choose for some tasks, and measures the plans that it tells of
beside other ways to train the same, all of them in turn, twice. Run it when the machine is at rest.

usage: tests/tools/benchmarks/plan_times.py [--build build/release] [--cases 30] [--choices 6] [--seed 1] [--ranks 1 2 4 8]
"""

import argparse
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

MODELS = {
    "narrow": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
               "intermediate_size": 704, "vocab_size": 2048},
    "wide": {"hidden_size": 768, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8,
             "intermediate_size": 2048, "vocab_size": 4096},
    "tall": {"hidden_size": 384, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8,
             "intermediate_size": 1024, "vocab_size": 1024},
}
LENGTHS = [128, 512, 1024]
# Of the planner's choice: model, tokens of a row, ranks.
TASKS = [("narrow", 128, 2), ("wide", 512, 2), ("tall", 128, 4), ("wide", 128, 4), ("narrow", 512, 8), ("tall", 128, 8)]
NUM_OTHERS = 6  # ways beside the plans
STEPS, MOST_STEPS = 6, 40  # the first two are left out: machine code is made, and memory is touched first
LEAST_S = 3.0  # that the others take together: of short steps there are more


def run(words, folder, **more):
    environment = dict(os.environ, OMP_NUM_THREADS="1", TMPDIR=str(folder))
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class Bench:
    def __init__(self, build, folder):
        self.bin, self.folder = pathlib.Path(build).resolve() / "bin", pathlib.Path(folder)
        self.data = {}
        self.machines = {}
        text = self.folder / "text.jsonl"
        words = random.Random(7)
        with text.open("w") as out:
            for _ in range(6000):
                line = " ".join(str(words.randrange(100000)) for _ in range(60))
                out.write(json.dumps({"text": line}) + "\n")
        for length in LENGTHS:
            name = f"data-{length}"
            run([self.bin / "sft-prepare", "--input", text, "--output", name, "--max_length", str(length), "--packing",
                 "true", "--packing_strategy", "wrapped"], self.folder)
            self.data[length] = f"{name}/train-*.h5"

    def ini(self, name, model, length, keys):
        path = self.folder / f"{name}.ini"
        lines = ["[model]"] + [f"{key} = {value}" for key, value in MODELS[model].items()]
        lines += ["[data]", f"train_files = {self.data[length]}"]
        path.write_text("\n".join(lines) + "\n")
        return [str(path)] + [word for key, value in keys.items() for word in (f"--{key}", str(value))]

    def machine(self, num_ranks, precision):
        key = (num_ranks, precision)
        if key not in self.machines:
            path = self.folder / f"here-{num_ranks}-{precision}.ini"
            words = self.ini("check", "narrow", 128, {"precision": precision, "dp_shard_size": num_ranks})
            run([self.bin / "sft-run", "-n", str(num_ranks), *words, "--check", "--write_machine", str(path)],
                self.folder)
            self.machines[key] = path
        return self.machines[key]

    def measure(self, name, num_ranks, model, length, keys):
        """Planned and measured seconds of a step."""
        planned, times = self.train(name, num_ranks, model, length, keys, STEPS)
        if sum(times) < LEAST_S:
            more = min(MOST_STEPS, math.ceil(LEAST_S / statistics.median(times)))
            planned, times = self.train(f"{name}-more", num_ranks, model, length, keys, more + 2)
        return planned, statistics.median(times)

    def train(self, name, num_ranks, model, length, keys, num_steps):
        keys = dict(keys, output_dir=f"out-{name}", max_steps=num_steps, logging_steps=1, save_strategy="no",
                    resume_from_checkpoint="none")
        machine = self.machine(num_ranks, keys["precision"])
        run([self.bin / "sft-run", "-n", str(num_ranks), *self.ini(name, model, length, keys), "--machine", str(machine)],
            self.folder)
        lines = [json.loads(line) for line in (self.folder / f"out-{name}" / "metrics.jsonl").open()]
        steps = [line for line in lines if "step_time_s" in line][2:]
        return steps[-1]["planned_step_time_s"], [line["step_time_s"] for line in steps]


def meshes(num_ranks):
    found = []
    for tp in range(1, num_ranks + 1):
        for sp in range(1, num_ranks // tp + 1):
            for shard in range(1, num_ranks // tp // sp + 1):
                if num_ranks % (tp * sp * shard) == 0:
                    found.append((num_ranks // tp // sp // shard, shard, sp, tp))
    return found


def draw(choose, ranks):
    num_ranks = choose.choice(ranks)
    replicas, shards, sp, tp = choose.choice(meshes(num_ranks))
    keys = {"dp_replicate_size": replicas, "dp_shard_size": shards, "sp_size": sp, "tp_size": tp,
            "precision": choose.choice(["bf16", "fp32"]),
            "activation_checkpointing": choose.choice(["none", "selective", "full"]),
            "per_device_train_batch_size": choose.choice([1, 2, 4]),
            "gradient_accumulation_steps": choose.choice([1, 2])}
    keys["zero_stage"] = choose.choice([1, 2, 3] if shards * sp > 1 else [3])
    if sp > 1:
        keys["sp_method"] = choose.choice(["ring", "all_gather", "ulysses"])
    return num_ranks, choose.choice(list(MODELS)), choose.choice(LENGTHS), keys


def name_of(keys):
    mesh = "x".join(str(keys[key]) for key in ("dp_replicate_size", "dp_shard_size", "sp_size", "tp_size"))
    rest = [keys["precision"], f"zero {keys['zero_stage']}", keys.get("sp_method", ""), keys["activation_checkpointing"],
            f"{keys['per_device_train_batch_size']} x {keys['gradient_accumulation_steps']}"]
    return mesh, ", ".join(part for part in rest if part)


def check_times(bench, choose, ranks, num_cases):
    print("| ranks | model | length | mesh | with | planned s | measured s | ratio |\n|--:|---|--:|---|---|--:|--:|--:|")
    ratios, seen = {False: [], True: []}, []
    for number in range(num_cases):
        case = draw(choose, ranks)
        while case in seen:
            case = draw(choose, ranks)
        seen.append(case)
        num_ranks, model, length, keys = case
        planned, measured = bench.measure(f"case-{number}", num_ranks, model, length, keys)
        ratio = planned / measured
        ratios[num_ranks > os.cpu_count()].append(ratio)
        mesh, rest = name_of(keys)
        print(f"| {num_ranks} | {model} | {length} | {mesh} | {rest} | {planned:.3f} | {measured:.3f} | {ratio:.2f} |",
              flush=True)
    print()
    for share_cores, found in ratios.items():
        if not found:
            continue
        within = sum(abs(ratio - 1) <= 0.15 for ratio in found)
        print(f"{'ranks share cores' if share_cores else 'a core for each rank'}: {within} of {len(found)} within 15 %; median "
              f"ratio {statistics.median(found):.2f}, from {min(found):.2f} to {max(found):.2f}")
    print(flush=True)


def ways(choose, num_ranks, rows, seen):
    """Another way to train `rows` rows a step, none of `seen`."""
    while True:
        replicas, shards, sp, tp = choose.choice(meshes(num_ranks))
        rows_of_rank = rows // (replicas * shards)
        micro_batch = choose.choice([size for size in (1, 2, 4, 8, 16) if rows_of_rank % size == 0])
        keys = {"dp_replicate_size": replicas, "dp_shard_size": shards, "sp_size": sp, "tp_size": tp, "precision": "bf16",
                "activation_checkpointing": "none", "per_device_train_batch_size": micro_batch,
                "gradient_accumulation_steps": rows_of_rank // micro_batch,
                "zero_stage": choose.choice([1, 2, 3] if shards * sp > 1 else [3])}
        if sp > 1:
            keys["sp_method"] = choose.choice(["ring", "all_gather", "ulysses"])
        if keys not in seen:
            return keys


def check_choice(bench, choose, number, model, length, num_ranks):
    """The plans for a task beside other ways. How many times as long as the fastest of all the first plan takes."""
    rows = 2 * num_ranks
    base = bench.ini("choice", model, length, {"precision": "bf16"})
    plans = json.loads(run([bench.bin / "sft-plan", *base, "--rows", str(rows), "--machine",
                            str(bench.machine(num_ranks, "bf16")), "--json"], bench.folder))["plans"]
    candidates = []
    for plan in plans:
        keys = {key.split(".")[1]: value for key, value in plan["keys"].items()}
        for key in ("offload_folder", "output_dir"):
            keys.pop(key, None)
        candidates.append({"precision": "bf16", **keys})
    for _ in range(NUM_OTHERS):
        candidates.append(ways(choose, num_ranks, rows, candidates))
    found = [[bench.measure(f"choice-{number}-{turn}-{i}", num_ranks, model, length, keys)
              for i, keys in enumerate(candidates)] for turn in range(2)]
    times = [min(turn[i][1] for turn in found) for i in range(len(candidates))]
    fastest = min(times)
    print(f"task {number}: {model}, rows of {length}, {rows} a step, {num_ranks} ranks\n")
    print("| | keys | planned s | measured s | of the fastest |\n|---|---|--:|--:|--:|")
    for i, keys in enumerate(candidates):
        text = ", ".join(f"{key} {value}" for key, value in keys.items() if key != "precision")
        print(f"| {f'plan {i + 1}' if i < len(plans) else ''} | {text} | {found[0][i][0]:.3f} | {times[i]:.3f} | "
              f"{times[i] / fastest:.2f} |")
    print(flush=True)
    return times[0] / fastest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = pathlib.Path(__file__).resolve().parents[3]
    parser.add_argument("--build", default=here / "build" / "release")
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--choices", type=int, default=len(TASKS), help="tasks to choose for")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    options = parser.parse_args()
    choose = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.build, folder)
        if options.cases > 0:
            check_times(bench, choose, options.ranks, options.cases)
        tasks = [task for task in TASKS if task[2] in options.ranks][:options.choices]
        over = [check_choice(bench, choose, number, *task) for number, task in enumerate(tasks, 1)]
        if over:
            print(f"chosen / fastest: {', '.join(f'{ratio:.2f}' for ratio in over)}; {sum(ratio <= 1.1 for ratio in over)} of "
                  f"{len(over)} within 10 %")


if __name__ == "__main__":
    main()
