#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GGUF files by llama.cpp's converter against the folders that they were made of.

usage: export_gguf.py SFT_BIN_FOLDER CONVERTER

CONVERTER is llama.cpp's convert_hf_to_gguf.py. Needs torch, transformers, gguf, sentencepiece and
safetensors. For random
models of several families, trained for a step by `sft`, `sft-convert --gguf --gguf_type f32` makes a file of the run's
folder; every tensor that the gguf package reads in it must be the one of model.safetensors, bit for bit but for the order
of rows that llama.cpp wants of queries and keys, and the sizes it names those of config.json.
"""
import argparse
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy
import sentencepiece
from safetensors.torch import load_file

import hub_models

FAMILIES = ["llama", "qwen2", "qwen3"]


def add_tokenizer(folder):
    """One of llama.cpp's kinds; the converter fills up the vocabulary."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter([f"what is number {i}" for i in range(100)]),
                                             model_writer=model, vocab_size=40, model_type="bpe", minloglevel=2)
    (folder / "tokenizer.model").write_bytes(model.getvalue())


def unpermuted(matrix, heads):
    """The rows of a head as Hugging Face has them: halves, where llama.cpp has pairs."""
    return matrix.reshape(heads, matrix.shape[0] // heads // 2, 2, *matrix.shape[1:]).swapaxes(1, 2).reshape(matrix.shape)


def check(family, binaries, converter, work):
    folder = hub_models.make_model(family, work / family)
    config = json.loads((folder / "config.json").read_text())
    add_tokenizer(folder)
    shard = work / (family + ".h5")
    hub_models.write_rows(shard, config["vocab_size"])
    output = work / ("output-" + family)
    hub_models.run_sft(binaries, folder, shard, output, (1, 1, 1, 1), ["--optimizer.learning_rate", "0.01"])
    file = work / (family + ".gguf")
    done = subprocess.run([binaries / "sft-convert", "--gguf", output / "model", file, "--gguf_type", "f32",
                           "--gguf_converter", converter], capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"})
    if done.returncode != 0:
        print(f"FAIL {family}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
        return False
    reader = gguf.GGUFReader(file)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, family.upper()), config["num_hidden_layers"])
    found = {tensor.name: tensor for tensor in reader.tensors}
    weights = load_file(output / "model" / "model.safetensors")
    worst = 0.0
    for name, weight in weights.items():
        tensor = found.pop(names.get_name(name, try_suffixes=(".weight", ".bias")))
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if family == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
            values = unpermuted(values, heads)
        worst = max(worst, float(numpy.abs(values - weight.float().numpy()).max()))
    sizes = {"block_count": "num_hidden_layers", "embedding_length": "hidden_size",
             "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads"}
    fields = all(reader.get_field(f"{family}.{field}").contents() == config[key] for field, key in sizes.items())
    others = set(found) - {"rope_freqs.weight"}
    agrees = worst == 0.0 and fields and not others
    print(f"{'ok  ' if agrees else 'FAIL'} {family:8} {len(weights)} tensors +- {worst:.1e}   sizes {fields}   others {others}")
    return agrees


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("converter", type=pathlib.Path)
    options = parser.parse_args()
    hub_models.be_quiet()
    with tempfile.TemporaryDirectory(prefix="gguf-") as work:
        return hub_models.status_of([check(family, options.binaries, options.converter, pathlib.Path(work))
                                     for family in FAMILIES])


if __name__ == "__main__":
    sys.exit(main())
