#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Model folders against transformers: first losses, gradient norms, and what is written back.

usage: hub_models.py SFT_BIN_FOLDER [--model FOLDER ...] [--ranks N ...] [--only NAME ...] [--keep FOLDER]
                     [--other_transformers FOLDER ...]

Needs torch, transformers, safetensors, h5py, and mpirun. For every case of the table below a small random model is made
with transformers and saved; for --model the folder itself is taken. The same packed rows go through transformers (float32,
one document at a time) and through one step of `sft` with learning rate 0 on each number of ranks: loss and gradient norm
must agree. The run leaves OUTPUT/model; its tensors must be those that it began with, bit for bit, and transformers must
load it without a complaint, and with the same loss; so must other versions, which are imported from the folders of
--other_transformers (such as VENV/lib/python3.11/site-packages).
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch
import transformers
from safetensors.torch import load_file

LOSS_TOLERANCE = 1e-5
NORM_TOLERANCE = 1e-4
MAX_LENGTH = 96
# More ranks than cores, and ranks of root.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
                   "OMPI_MCA_hwloc_base_binding_policy": "none", "OMP_NUM_THREADS": "1"}
DOCUMENT_LENGTHS = [[96], [41, 1, 30, 24], [5, 77], [13, 2, 60]]

LLAMA = dict(hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=101, max_position_embeddings=256, rms_norm_eps=1e-5)


def rope(kind, **fields):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=20000.0, **fields))


LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
CASES = {
    "llama": ("Llama", {}),
    "llama_bias": ("Llama", dict(attention_bias=True, mlp_bias=True)),
    "llama_head_dim": ("Llama", dict(head_dim=20, tie_word_embeddings=True)),
    "llama_mha": ("Llama", dict(num_key_value_heads=4)),
    "rope_linear": ("Llama", rope("linear", factor=4.0)),
    "rope_llama3": ("Llama", rope("llama3", **LLAMA3)),
    "rope_dynamic": ("Llama", rope("dynamic", factor=4.0)),
    "rope_yarn": ("Llama", rope("yarn", factor=4.0, original_max_position_embeddings=64)),
    "rope_yarn_all": ("Qwen3", rope("yarn", factor=4.0, original_max_position_embeddings=64, beta_fast=20.0,
                                    beta_slow=2.0, mscale=1.2, mscale_all_dim=0.7, truncate=False)),
    "rope_yarn_factor": ("Qwen2", rope("yarn", factor=2.0, attention_factor=1.3)),
    "mistral": ("Mistral", dict(sliding_window=None)),
    "mistral_window": ("Mistral", dict(sliding_window=128, head_dim=16)),
    "qwen2": ("Qwen2", dict(tie_word_embeddings=True)),
    "qwen2_sharded": ("Qwen2", {}),
    "qwen2_window_unused": ("Qwen2", dict(use_sliding_window=True, sliding_window=32, max_window_layers=2)),
    "qwen3": ("Qwen3", dict(head_dim=16)),
    "qwen3_bias": ("Qwen3", dict(head_dim=8, attention_bias=True, tie_word_embeddings=True)),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=5, pad_token_id=None)),
    "smollm3_list": ("SmolLM3", dict(no_rope_layers=[0, 1], mlp_bias=True, attention_bias=True, pad_token_id=None)),
    "granite": ("Granite", dict(embedding_multiplier=12.0, attention_multiplier=0.3, residual_multiplier=0.22,
                                logits_scaling=8.0)),
    "granite_plain": ("Granite", dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
    "bf16": ("Qwen3", dict(head_dim=16)),
    "fp16": ("Llama", {}),
}
OLD_FORM = {"rope_linear", "rope_llama3", "rope_yarn", "rope_dynamic"}  # written again as transformers 4 writes it


def make_model(name, folder):
    family, fields = CASES[name]
    config = getattr(transformers, family + "Config")(**{**LLAMA, **fields})
    torch.manual_seed(sum(map(ord, name)))
    network = getattr(transformers, family + "ForCausalLM")(config)
    with torch.no_grad():
        for parameter_name, parameter in network.named_parameters():
            if "norm" in parameter_name:
                parameter.copy_(1 + 0.3 * torch.randn_like(parameter))
            elif parameter_name.endswith("bias"):
                parameter.copy_(0.3 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) / parameter.shape[1] ** 0.5)
    network = network.to({"bf16": torch.bfloat16, "fp16": torch.float16}.get(name, torch.float32))
    network.save_pretrained(folder, max_shard_size="60KB" if name.endswith("sharded") else "5GB")
    return folder


def to_old_form(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = scaling
    path.write_text(json.dumps(config, indent=2))


def write_rows(path, vocab_size, documents=None, seed=7, without_target=()):
    """A shard of random rows, and their tokens and weights; `documents`: the lengths of each row's. Rows of
    `without_target` are not trained on."""
    documents = documents or DOCUMENT_LENGTHS
    rng = np.random.default_rng(seed)
    tokens = np.zeros((len(documents), MAX_LENGTH), np.int32)
    weights = np.zeros((len(documents), MAX_LENGTH), np.float32)
    for row, lengths in enumerate(documents):
        tokens[row, :sum(lengths)] = rng.integers(0, vocab_size, sum(lengths))
        weights[row, :sum(lengths)] = rng.choice([0.0, 0.5, 1.0, 1.0], sum(lengths))
        if row in without_target:
            weights[row] = 0
    lengths = [length for row in documents for length in row]
    offsets = np.cumsum([0] + [len(row) for row in documents])
    with h5py.File(path, "w") as file:
        file["tokens"], file["loss_weight"] = tokens, weights
        file["document_lengths"], file["document_offsets"] = np.array(lengths, np.int32), offsets.astype(np.int64)
        file.attrs.update(dict(
            format="sft-packed", format_version=1, max_length=MAX_LENGTH, vocab_size=vocab_size, pad_token_id=0,
            eos_token_id=0, tokenizer="none", num_rows=len(tokens), num_documents=len(lengths),
            num_tokens=sum(lengths), num_target_tokens=int((weights > 0).sum()), packing_strategy="bfd",
            source="hub_models.py"))
    return tokens, weights


def reference(folder, tokens, weights):
    """Loss and gradient norm by transformers, in float32."""
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    network.eval()
    total, weight_sum = 0.0, 0.0
    for row, lengths in enumerate(DOCUMENT_LENGTHS):
        begin = 0
        for length in lengths:
            document = torch.from_numpy(tokens[row, begin:begin + length]).long()[None]
            weight = torch.from_numpy(weights[row, begin + 1:begin + length])
            if length > 1:
                logits = network(input_ids=document, use_cache=False).logits[0]
                nll = torch.nn.functional.cross_entropy(logits[:-1], document[0, 1:], reduction="none")
                total, weight_sum = total + (weight * nll).sum(), weight_sum + weight.sum().item()
            begin += length
    loss = total / weight_sum
    loss.backward()
    norm = torch.sqrt(sum(p.grad.double().square().sum() for p in network.parameters() if p.grad is not None))
    return loss.item(), norm.item()


def meshes(num_ranks):
    """Axis sizes (dp_replicate, dp_shard, sp, tp) to try for a number of ranks."""
    return {1: [(1, 1, 1, 1)], 2: [(1, 1, 1, 2), (1, 2, 1, 1)], 4: [(1, 2, 1, 2), (1, 1, 2, 2), (1, 1, 1, 4)],
            16: [(2, 2, 2, 2)]}[num_ranks]


def run_sft(binaries, folder, shard, output, mesh, options=()):
    """mesh: sizes of dp_replicate, dp_shard, sp and tp, and of ep where it has a fifth one."""
    num_ranks = int(np.prod(mesh))
    sizes = [word for name, size in zip(("dp_replicate_size", "dp_shard_size", "sp_size", "tp_size", "ep_size"), mesh)
             for word in (f"--parallel.{name}", str(size))]
    data_ranks = mesh[0] * mesh[1] * int(np.prod(mesh[4:]))
    settings = {"--model.model_name_or_path": folder, "--data.train_files": shard, "--data.shuffle": "false",
                "--train.max_steps": "1",
                "--train.per_device_train_batch_size": len(DOCUMENT_LENGTHS) // data_ranks, "--train.precision": "fp32",
                "--optimizer.learning_rate": "0", "--train.logging_steps": "1", "--train.output_dir": output}
    settings.update(zip(options[::2], options[1::2]))
    words = [str(word) for setting in settings.items() for word in setting]
    command = ["mpirun", "-np", str(num_ranks), str(binaries / "sft"), *sizes, *words]
    environment = {**os.environ, **MPI_ENVIRONMENT}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode != 0:
        raise RuntimeError(f"sft failed with {result.returncode}: {result.stderr}")
    if settings["--train.max_steps"] == "0":
        return None
    line = json.loads((output / "metrics.jsonl").read_text().splitlines()[0])
    return line["loss"], line["grad_norm"], result.stderr


def tensors_of(folder):
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(path))
    return tensors


def check_export(folder, exported):
    """The tensors that were written are those that were read, and transformers takes the folder."""
    before, after = tensors_of(folder), tensors_of(exported)
    for name in set(before) - set(after):  # a tied head that the start held twice
        assert name == "lm_head.weight", name
        del before[name]
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    for name, tensor in before.items():
        assert torch.equal(tensor.float(), after[name].float()), name
    _, info = transformers.AutoModelForCausalLM.from_pretrained(exported, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info


def check_other_version(packages, written):
    """Whether the version of transformers in `packages` has the same losses of what was written: {name: (folder, shard, loss)}."""
    program = ("import json, sys, h5py, transformers, hub_models\n"
               "transformers.logging.set_verbosity_error()\n"
               "losses = {}\n"
               "for name, (folder, shard, _) in json.load(sys.stdin).items():\n"
               "    with h5py.File(shard) as file:\n"
               "        losses[name], _ = hub_models.reference(folder, file['tokens'][:], file['loss_weight'][:])\n"
               "print(json.dumps([transformers.__version__, losses]))\n")
    path = os.pathsep.join([str(packages), str(pathlib.Path(__file__).parent)])
    done = subprocess.run([sys.executable, "-c", program], input=json.dumps(written), env={**os.environ, "PYTHONPATH": path},
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(f"FAIL transformers of {packages}: {done.stderr[-500:]}")
        return False
    version, losses = json.loads(done.stdout)
    other = {name: found for name, found in losses.items() if abs(found - written[name][2]) >= LOSS_TOLERANCE}
    print(f"{'FAIL' if other else 'ok  '} transformers {version}: {len(losses)} of what was written, {len(other)} with another loss",
          *(f"{name}: {found:.6f}, not {written[name][2]:.6f}" for name, found in other.items()), sep="\n     ", flush=True)
    return not other


def check_case(name, folder, binaries, work, ranks, written):
    vocab_size = json.loads((folder / "config.json").read_text())["vocab_size"]
    shard = work / f"{name}.h5"
    tokens, weights = write_rows(shard, vocab_size)
    loss, norm = reference(folder, tokens, weights)
    worst_loss, worst_norm, warned = 0.0, 0.0, set()
    for num_ranks in ranks:
        for mesh in meshes(num_ranks):
            output = work / ("output-" + name + "-" + "x".join(map(str, mesh)))
            got_loss, got_norm, errors = run_sft(binaries, folder, shard, output, mesh)
            warned.update(line for line in errors.splitlines() if line.startswith("warning"))
            worst_loss = max(worst_loss, abs(got_loss - loss))
            worst_norm = max(worst_norm, abs(got_norm - norm) / norm)
            check_export(folder, output / "model")
    agrees = worst_loss < LOSS_TOLERANCE and worst_norm < NORM_TOLERANCE
    written[name] = (str(output / "model"), str(shard), loss)
    print(f"{'ok  ' if agrees else 'FAIL'} {name:22} loss {loss:.6f} +- {worst_loss:.1e}   norm {norm:.6f} +- "
          f"{worst_norm:.1e} relative", flush=True)
    for line in sorted(warned):
        print("     " + line)
    return agrees


def check_on_meshes(description, check):
    """The command line of a script like this one: the exit status of check(binaries, work folder, numbers of ranks), whose
    results are truth values."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    be_quiet()
    with tempfile.TemporaryDirectory(prefix=pathlib.Path(sys.argv[0]).stem + "-") as work:
        return status_of(check(options.binaries, pathlib.Path(work), options.ranks))


def be_quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def status_of(results):
    print(f"{sum(results)} of {len(results)} agree")
    return 0 if all(results) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--other_transformers", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the models and outputs; default: removed")
    options = parser.parse_args()
    be_quiet()
    work = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="hub-models-"))
    work.mkdir(parents=True, exist_ok=True)
    folders = {path.name: path for path in options.model}
    for name in ([] if options.model else options.only or CASES):
        folders[name] = make_model(name, work / name)
    for name in OLD_FORM & folders.keys():
        old = work / (name + "_old")
        shutil.copytree(folders[name], old, dirs_exist_ok=True)
        to_old_form(old)
        folders[name + "_old"] = old
    written = {}
    results = [check_case(name, folder, options.binaries, work, options.ranks, written) for name, folder in folders.items()]
    results += [check_other_version(packages, written) for packages in options.other_transformers]
    if options.keep is None:
        shutil.rmtree(work)
    return status_of(results)


if __name__ == "__main__":
    sys.exit(main())
