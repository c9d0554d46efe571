#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# transformers reads a block-scaled FP8 folder with other blocks than its config says, where a matrix is no multiple of them.
#
# With FineGrainedFP8Config(dequantize=True), which is also what it falls back to where there is no GPU, Fp8Dequantize does not
# look at `weight_block_size`. It divides the rows by the number of scales: 192 rows in blocks of 128 have two scales, for 128
# and for 64 rows, and are read as two blocks of 96. So rows 96 to 127 get the second scale, without a warning; columns alike.
# Where the division leaves a remainder, as for the 576 rows and 5 scales of DeepSeek-V3's kv_a_proj_with_mqa, loading fails
# instead. A folder that stays in FP8 is read by the blocks of the config: transformers' own _dequantize_fp8_weight, which the
# gradients of such layers use, gives the numbers that were quantized here.
#
# A model is made of powers of two, which FP8 holds exactly with scales that are powers of two; each block has a scale of its
# own. "wrong" counts elements of a matrix after loading that are not those it was made of.
#
# Seen with transformers 5.24.0 and torch 2.15.0 on 2026-11-29:
#   dequantize: gate_proj 192 x 128: 4096 wrong, in rows 96 to 127
#   dequantize: k_proj 64 x 128: 0 wrong
#   dequantize: down_proj 128 x 192: 4096 wrong, in columns 96 to 127
#   _dequantize_fp8_weight: gate_proj 0 wrong, k_proj 0 wrong, down_proj 0 wrong
#   576 rows: ValueError: Weight shape (576, 128) not divisible by scale grid (5, 1).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet transformers==5.24.0 torch==2.15.0 accelerate==1.15.0 numpy==2.4.6
cat >read.py <<'PY'
import json
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, FineGrainedFP8Config, LlamaConfig, LlamaForCausalLM
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, _dequantize_fp8_weight

BLOCK = 128


def expanded(scales, shape):
    return scales.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)[: shape[0], : shape[1]]


def quantized(rows, columns):
    """Codes, their scales by blocks of BLOCK x BLOCK, and the numbers that they stand for."""
    codes = 2.0 ** torch.randint(-3, 3, (rows, columns)) * (1 - 2 * torch.randint(0, 2, (rows, columns)))
    down, across = -(-rows // BLOCK), -(-columns // BLOCK)
    scales = 2.0 ** -(3.0 * torch.arange(down * across) + 2).reshape(down, across)
    return codes.to(torch.float8_e4m3fn), scales, codes * expanded(scales, codes.shape)


torch.manual_seed(0)
LlamaForCausalLM(LlamaConfig(vocab_size=16, hidden_size=128, intermediate_size=192, num_hidden_layers=1, num_attention_heads=4,
                             num_key_value_heads=2)).save_pretrained("model")
tensors, numbers = load_file("model/model.safetensors"), {}
for name in [name for name in tensors if name.endswith("_proj.weight")]:
    tensors[name], tensors[name + "_scale_inv"], numbers[name] = quantized(*tensors[name].shape)
save_file(tensors, "model/model.safetensors", metadata={"format": "pt"})
with open("model/config.json", encoding="utf-8") as file:
    config = json.load(file)
config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK],
                                 "modules_to_not_convert": ["lm_head"]}
with open("model/config.json", "w", encoding="utf-8") as file:
    json.dump(config, file)
model = AutoModelForCausalLM.from_pretrained("model", dtype=torch.float32, quantization_config=FineGrainedFP8Config(dequantize=True))
kept = []
for module in ("mlp.gate_proj", "self_attn.k_proj", "mlp.down_proj"):
    name = f"model.layers.0.{module}.weight"
    short = module.split(".")[1]
    is_wrong = model.state_dict()[name] != numbers[name]
    where = ""
    for axis, (word, lines) in enumerate((("rows", is_wrong.any(1)), ("columns", is_wrong.any(0)))):
        if 0 < lines.sum() < len(lines):
            where += f", in {word} {lines.nonzero().min()} to {lines.nonzero().max()}"
    print(f"dequantize: {short} {' x '.join(map(str, is_wrong.shape))}: {is_wrong.sum()} wrong{where}")
    direct = _dequantize_fp8_weight(tensors[name], tensors[name + "_scale_inv"], [BLOCK, BLOCK], torch.float32)
    kept.append(f"{short} {(direct != numbers[name]).sum()} wrong")
print("_dequantize_fp8_weight:", ", ".join(kept))
codes, scales, _ = quantized(576, 128)
try:
    Fp8Dequantize(None).convert({"weight": codes, "weight_scale_inv": scales})
    print("576 rows: read")
except ValueError as error:
    print("576 rows: ValueError:", error)
PY
venv/bin/python read.py 2>/dev/null | tee out
cmp - out <<'END'
dequantize: gate_proj 192 x 128: 4096 wrong, in rows 96 to 127
dequantize: k_proj 64 x 128: 0 wrong
dequantize: down_proj 128 x 192: 4096 wrong, in columns 96 to 127
_dequantize_fp8_weight: gate_proj 0 wrong, k_proj 0 wrong, down_proj 0 wrong
576 rows: ValueError: Weight shape (576, 128) not divisible by scale grid (5, 1).
END
