#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run on many ranks leaves, as its users load it: the same loss, and a folder that other programs read.

usage: export.py SFT_BIN_FOLDER MODEL_FOLDER RECORDS.jsonl [--mesh R,F,S,T] [--steps N] [--other_transformers FOLDER]

MODEL_FOLDER is a pretrained model with a tokenizer and a chat template; RECORDS.jsonl has lines with `question` and
`answer`. On the mesh, by default of 16 ranks, `sft` trains the model on some records and evaluates it on others, in float32
and in bf16. Checked are:

  - the loss before the first step: that of transformers for MODEL_FOLDER
  - it falls
  - `output_dir/model`, and what sft-convert makes in bfloat16 of a bf16 run, in a new run: the same loss to the last bit
  - the same folder in transformers: the same loss to 1e-5, no tensor missing or left over, and the same greedy text
  - every tensor has a name that llama.cpp's converter knows (where `gguf` of PyPI is installed)
  - `lm_eval` runs a task of a local file on it (where it is installed)
  - an older transformers, of which --other_transformers is the folder to import from, reads the same weights

Needs torch, transformers, h5py, and mpirun.
"""
import argparse
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

import hub_models
import trl_losses
from trl_data import chat_pair

MAX_LENGTH = 512  # of GSM8K no record is longer, in most vocabularies
NUM_EVAL_RECORDS = 30
NUM_TRAIN_RECORDS = 200


def sft(binaries, mesh, output, **options):
    """One run; what it printed of each evaluation."""
    settings = {"train_files": binaries.rows / "train-*.h5", "eval_files": binaries.held / "train-*.h5", "shuffle": False,
                "per_device_train_batch_size": 1, "eval_steps": 0, "output_dir": output, **options,
                **dict(zip(("dp_replicate_size", "dp_shard_size", "sp_size", "tp_size"), mesh))}
    subprocess.run(["mpirun", "-np", str(math.prod(mesh)), binaries.folder / "sft", *trl_losses.words(settings)], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, **hub_models.MPI_ENVIRONMENT})
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line["eval_loss"] for line in lines if "eval_loss" in line]


class Binaries:
    """The programs, and the rows that they train on and are evaluated on."""

    def __init__(self, folder, model, records, work):
        self.folder, self.rows, self.held = folder, work / "rows", work / "held"
        parts = {"rows": records[NUM_EVAL_RECORDS:NUM_EVAL_RECORDS + NUM_TRAIN_RECORDS], "held": records[:NUM_EVAL_RECORDS]}
        for name, part in parts.items():
            file = work / (name + ".jsonl")
            file.write_text("".join(json.dumps(chat_pair(record)) + "\n" for record in part))
            subprocess.run([folder / "sft-prepare", "--input", file, "--output", work / name, "--model_name_or_path", model,
                            "--packing", "true" if name == "rows" else "false", "--max_length", str(MAX_LENGTH)],
                           check=True, stdout=subprocess.DEVNULL)


@torch.no_grad()
def loss_of_transformers(model, records, dtype):
    """Sum of nll / number of targets over the records' completions, one record at a time, and how the folder was read."""
    network, info = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=dtype, output_loading_info=True)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model)
    total, num_targets = 0.0, 0
    for record in map(chat_pair, records):
        prompt = tokenizer.apply_chat_template(record["prompt"], add_generation_prompt=True, return_dict=False)
        ids = tokenizer.apply_chat_template(record["prompt"] + record["completion"], return_dict=False)[:MAX_LENGTH]
        begin = max(1, next((i for i, (a, b) in enumerate(zip(prompt, ids)) if a != b), min(len(prompt), len(ids))))
        logits = network(torch.tensor([ids]), use_cache=False).logits[0].float()
        total += torch.nn.functional.cross_entropy(logits[begin - 1:-1], torch.tensor(ids[begin:]), reduction="sum").item()
        num_targets += len(ids) - begin
    return total / num_targets, info


class Report:
    def __init__(self):
        self.num_wrong = 0

    def check(self, is_right, text):
        self.num_wrong += not is_right
        print(f"{'ok   ' if is_right else 'WRONG'} {text}", flush=True)


def check_gguf_names(report, model):
    import gguf
    config = json.loads((model / "config.json").read_text())
    architecture = {"llama": gguf.MODEL_ARCH.LLAMA, "mistral": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2,
                    "qwen3": gguf.MODEL_ARCH.QWEN3}[config["model_type"]]
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    mapped = {name: names.get_name(name, try_suffixes=(".weight", ".bias")) for name in hub_models.tensors_of(model)}
    unknown = [name for name, other in mapped.items() if other is None]
    is_one_to_one = len(set(mapped.values())) == len(mapped)
    report.check(not unknown and is_one_to_one, f"llama.cpp's names: {len(mapped)} tensors, e.g. {list(mapped.items())[-1]}"
                 if not unknown else f"llama.cpp knows no {unknown}")


def check_metadata(report, model):
    """safetensors_rust readers, vLLM's and transformers' among them, ask for the format; llama.cpp for names of files."""
    from safetensors import safe_open
    files = sorted(path.name for path in model.glob("*.safetensors"))
    for file in files:
        with safe_open(model / file, "pt") as weights:
            report.check((weights.metadata() or {}).get("format") == "pt", f"{file} says `format: pt`")
    index = model / "model.safetensors.index.json"
    named = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.exists() else ["model.safetensors"]
    report.check(files == named, f"files {files} are those that a loader looks for")


def check_lm_eval(report, models, records, work):
    """Which of three answers belongs to a question: a task of lm-evaluation-harness that needs no network."""
    import lm_eval
    from lm_eval.tasks import TaskManager
    others = [record["answer"] for record in records]
    lines = [{"question": record["question"], "choices": [record["answer"], others[i - 1], others[i - 2]]}
             for i, record in enumerate(records)]
    (work / "task.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = {"task": "which_answer", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(work / "task.jsonl")}},
            "output_type": "multiple_choice", "test_split": "test", "doc_to_text": "{{question}}", "target_delimiter": "\n",
            "doc_to_choice": "choices", "doc_to_target": 0, "metric_list": [{"metric": "acc_norm"}]}
    for name, model in models.items():
        results = lm_eval.simple_evaluate("hf", model_args={"pretrained": str(model), "dtype": "float32"}, tasks=[task],
                                          device="cpu", task_manager=TaskManager(), bootstrap_iters=0)
        accuracy = results["results"]["which_answer"]["acc_norm,none"]
        report.check(0 <= accuracy <= 1, f"lm_eval, {len(lines)} questions, {name}: acc_norm {accuracy:.3f}")


def check_other_transformers(report, model, other, loss):
    program = ("import sys, torch, transformers\n"
               "network, info = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], output_loading_info=True)\n"
               "transformers.AutoTokenizer.from_pretrained(sys.argv[1])\n"
               "assert not any(info[key] for key in ('missing_keys', 'unexpected_keys', 'mismatched_keys')), info\n"
               "assert network.dtype == torch.float32, network.dtype\n"
               "ids = torch.arange(3, 67)[None]\n"
               "print(transformers.__version__, network.eval()(ids, labels=ids, use_cache=False).loss.item())\n")
    done = subprocess.run([sys.executable, "-c", program, model], env={**os.environ, "PYTHONPATH": str(other)},
                          capture_output=True, text=True)
    version, found = done.stdout.split() if done.returncode == 0 else (done.stderr[-500:], "nan")
    report.check(abs(float(found) - loss) < 1e-5, f"transformers {version}: loss {found}, this one {loss}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("records", type=pathlib.Path)
    parser.add_argument("--mesh", default="2,2,2,2", help="sizes of dp_replicate, dp_shard, sp, tp")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--learning_rate", type=float, default=2e-5)
    parser.add_argument("--other_transformers", type=pathlib.Path)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    mesh = [int(size) for size in options.mesh.split(",")]
    records = [json.loads(line) for line in options.records.read_text(encoding="utf-8").splitlines()]
    held = records[:NUM_EVAL_RECORDS]
    report = Report()
    with tempfile.TemporaryDirectory(prefix="export-") as top:
        work = pathlib.Path(top)
        binaries = Binaries(options.binaries, options.model, records, work)
        for precision, dtype in (("fp32", "float32"), ("bf16", "bfloat16")):
            output = work / precision
            before, after = sft(binaries, mesh, output, model_name_or_path=options.model, precision=precision,
                                max_steps=options.steps, learning_rate=options.learning_rate, eval_on_start=True)
            start, _ = loss_of_transformers(options.model, held, getattr(torch, dtype))
            tolerance = 1e-5 if precision == "fp32" else 3e-3  # bf16 rounds the inputs of every product to 8 bits
            report.check(abs(before - start) < tolerance,
                         f"{precision}: loss before {before:.6f}, transformers {start:.6f}")
            report.check(after < before, f"{precision}: loss after {options.steps} steps {after:.6f}")
            folders = {"output_dir/model": output / "model"}
            if precision == "bf16":
                folders["sft-convert --dtype bfloat16"] = work / "bfloat16"
                subprocess.run([binaries.folder / "sft-convert", output, work / "bfloat16", "--dtype", "bfloat16"], check=True,
                               capture_output=True)
            for name, folder in folders.items():
                reloaded, = sft(binaries, mesh, work / ("again-" + folder.name + precision), model_name_or_path=folder,
                                precision=precision, max_steps=0, save_hub_model=False)
                report.check(reloaded == after, f"{precision}: {name} reloads to {reloaded!r}, the run ended with {after!r}")
                found, info = loss_of_transformers(folder, held, getattr(torch, dtype))
                report.check(abs(found - after) < tolerance, f"{precision}: {name} in transformers: {found:.6f}")
                odd = {key: info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[key]}
                report.check(not odd, f"{precision}: {name} has the tensors of its model {odd or ''}")
                check_metadata(report, folder)
        exported = work / "fp32" / "model"
        if importlib.util.find_spec("gguf"):
            check_gguf_names(report, exported)
        done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("generate.py"), binaries.folder, exported,
                               "--max_new_tokens", "32"], capture_output=True, text=True)
        report.check(done.returncode == 0, "greedy text as transformers writes it: " + " / ".join(done.stdout.splitlines()))
        if options.other_transformers:
            ids = torch.arange(3, 67)[None]
            network = transformers.AutoModelForCausalLM.from_pretrained(exported).eval()
            check_other_transformers(report, exported, options.other_transformers,
                                     network(ids, labels=ids, use_cache=False).loss.item())
        if importlib.util.find_spec("lm_eval"):
            check_lm_eval(report, {"before": options.model, "after": exported}, held, work)
    print(f"{report.num_wrong} wrong")
    return report.num_wrong > 0


if __name__ == "__main__":
    sys.exit(main())
