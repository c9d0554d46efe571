#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Model folders in FP8: what sft-convert makes of them, beside transformers' own dequantization, to the bit.

usage: fp8_folders.py SFT_BIN_FOLDER

Needs torch, transformers 5, accelerate and safetensors. Tiny models of several families get matrices of F8_E4M3 with scales of
128 x 128 blocks, as DeepSeek and Qwen publish them. transformers reads the sizes of blocks from the number of scales, so
its shapes are multiples of 128; others are compared with the numbers by definition alone.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

BLOCK = 128
SIZES = dict(hidden_size=256, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=264, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)
CASES = {
    "qwen3": dict(SIZES, head_dim=64),
    "qwen3_moe": dict(SIZES, head_dim=64, moe_intermediate_size=128, num_experts=4, num_experts_per_tok=2),
    "phi3": dict(SIZES, original_max_position_embeddings=256),
    "llama": dict(SIZES, hidden_size=192, intermediate_size=320, num_attention_heads=6, head_dim=32),  # no multiples
}


def quantize(weight):
    """Codes, scales and the numbers that they stand for."""
    rows, columns = weight.shape
    scales = torch.empty(-(-rows // BLOCK), -(-columns // BLOCK))
    codes = torch.empty(rows, columns, dtype=torch.float8_e4m3fn)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            place = slice(i * BLOCK, (i + 1) * BLOCK), slice(j * BLOCK, (j + 1) * BLOCK)
            scales[i, j] = weight[place].float().abs().max() / 448
            codes[place] = (weight[place].float() / scales[i, j]).to(torch.float8_e4m3fn)
    each = scales.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)[:rows, :columns]
    return codes, scales, (codes.float() * each).to(torch.bfloat16)


def make_folder(folder, family, sizes):
    """Writes the folder and returns its numbers by their names in the file."""
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes), dtype=torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.05 * torch.randn(parameter.shape) + (1 if parameter.dim() == 1 else 0))
    model.save_pretrained(folder)
    stored, numbers = {}, {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        stored[name] = numbers[name] = tensor
        if name.endswith("_proj.weight"):
            stored[name], stored[name + "_scale_inv"], numbers[name] = quantize(tensor)
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic",
                                         weight_block_size=[BLOCK, BLOCK], modules_to_not_convert=["lm_head"])
    (folder / "config.json").write_text(json.dumps(config))
    return numbers


def main():
    programs, wrong = pathlib.Path(sys.argv[1]), 0
    torch.manual_seed(0)
    for family, sizes in CASES.items():
        with tempfile.TemporaryDirectory() as work:
            folder, plain = pathlib.Path(work) / "fp8", pathlib.Path(work) / "plain"
            numbers = make_folder(folder, family, sizes)
            subprocess.run([programs / "sft-convert", folder, plain.with_name("start")], check=True)
            subprocess.run([programs / "sft-convert", plain.with_name("start"), plain, "--dtype", "bfloat16"], check=True)
            found = load_file(plain / "model.safetensors")
            same = found.keys() == numbers.keys() and all(torch.equal(found[name], numbers[name]) for name in numbers)
            wrong += not same
            print(f"{family}: {'the numbers by definition' if same else 'OTHER NUMBERS'}")
            if sizes["hidden_size"] % BLOCK:
                continue
            theirs, ours = (AutoModelForCausalLM.from_pretrained(each, dtype=torch.bfloat16).state_dict()
                            for each in (folder, plain))
            same = all(torch.equal(theirs[name], ours[name]) for name in ours)
            wrong += not same
            print(f"{family}: {'those of transformers' if same else 'OTHER NUMBERS than those of transformers'}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
