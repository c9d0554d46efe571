#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Model folders in FP8, with scales of blocks that the shapes are no multiples of: every program reads them as the bf16
# numbers that they stand for, on every mesh, and what is written is not quantized.
#
#   fp8.sh MPIEXEC SFT SFT_PREPARE SFT_CONVERT SFT_INSPECT SFT_GENERATE
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_data 80
short_run 3 'logging_steps = 1' >run.ini
{ tiny_model hidden_size=128 intermediate_size=128 num_hidden_layers=2 && model_run base; } >base.ini # matrices of whole blocks
succeeds 'a model to begin from' run 1 base.ini

# fp8: blocks of 48 x 40; rows: compressed-tensors, a scale for each row; numbers: what both are read as
with_tensors base/model <<'PYTHON'
import bisect, struct, sys
import tensor_files

def e4m3(code):
    exponent, fraction = code >> 3 & 15, code & 7
    return fraction * 2.0 ** -9 if exponent == 0 else (8 + fraction) * 2.0 ** (exponent - 10)

CODES = [e4m3(code) for code in range(127)]

def bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.pack("<H", bits + 0x7FFF + (bits >> 16 & 1) >> 16 & 0xFFFF)

def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]

def nearest(value):
    at = bisect.bisect_left(CODES, abs(value))
    code = min((at, at - 1), key=lambda c: abs(CODES[min(max(c, 0), 126)] - abs(value)))
    return min(max(code, 0), 126) | (128 if value < 0 else 0)

def write(folder, tensors, quantization):
    change = (lambda config: config.update(quantization_config=quantization)) if quantization else (lambda config: None)
    tensor_files.write(sys.argv[1], folder, tensors, change)

def quantize(tensors, block, suffix):
    stored, numbers = {}, {}
    for name, (dtype, shape, data) in tensors.items():
        values = struct.unpack("<%df" % (len(data) // 4), data)
        if not name.endswith("_proj.weight"):
            stored[name] = numbers[name] = ("BF16", shape, b"".join(map(bf16, values)))
            continue
        rows, columns = shape
        height, width = block(shape)
        across = -(-columns // width)
        largest = [0.0] * (-(-rows // height) * across)
        block_of = [i // columns // height * across + i % columns // width for i in range(rows * columns)]
        for i, value in enumerate(values): largest[block_of[i]] = max(largest[block_of[i]], abs(value))
        scales = [f32(x / 448) for x in largest]
        codes = bytes(nearest(value / scales[block_of[i]]) for i, value in enumerate(values))
        stored[name] = ("F8_E4M3", shape, codes)
        stored[name + suffix] = ("F32", [len(scales) // across, across], struct.pack("<%df" % len(scales), *scales))
        signed = [CODES[min(c & 127, 126)] * (-1 if c & 128 else 1) for c in range(256)]
        numbers[name] = ("BF16", shape, b"".join(bf16(f32(signed[c] * scales[block_of[i]])) for i, c in enumerate(codes)))
    return stored, numbers

tensors = tensor_files.read(sys.argv[1])
stored, numbers = quantize(tensors, lambda shape: (48, 40), "_scale_inv")
write("fp8", stored, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [48, 40],
                      "modules_to_not_convert": ["lm_head"]})
write("numbers", numbers, None)
stored, numbers = quantize(tensors, lambda shape: (1, shape[1]), "_scale")
stored["model.layers.0.self_attn.k_scale"] = ("F32", [1], struct.pack("<f", 1.0))
weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}
write("rows", stored, {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
                       "quantization_status": "compressed",
                       "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}})
write("rows-numbers", numbers, None)
PYTHON

unquantized() { ! grep -qE 'quantization_config|F8_E4M3' "$1/config.json" "$1/model.safetensors"; }
for folder in fp8 rows; do
  numbers=$([[ $folder == fp8 ]] && echo numbers || echo rows-numbers)
  succeeds "the numbers of $folder" run 1 run.ini --model_name_or_path "$numbers" --output_dir "run-$numbers" \
    --gradient_accumulation_steps 4
  succeeds "$folder" run 1 run.ini --model_name_or_path "$folder" --output_dir "run-$folder" --gradient_accumulation_steps 4
  check 'has the same losses' same_losses "run-$folder" "run-$numbers" 0
  succeeds "sft-convert of $folder" "$sft_convert" "run-$folder" "trained-$folder"
  check 'leaves no quantization' unquantized "trained-$folder"
  succeeds "a checkpoint of $folder" "$sft_convert" "$folder" "begin-$folder"
  succeeds 'and a folder of that' "$sft_convert" "begin-$folder" "plain-$folder" --dtype bfloat16
  succeeds 'which has the numbers to the bit' "$sft_inspect" --diff "plain-$folder" "$numbers"
done
succeeds 'on a mesh that cuts blocks' run 4 run.ini --model_name_or_path fp8 --output_dir mesh --tp_size 2 --dp_shard_size 2 \
  --gradient_accumulation_steps 2
check 'the losses are the same' same_losses mesh run-fp8 1e-5
for folder in fp8 numbers; do
  succeeds "$folder in 4 bits" run 1 run.ini --model_name_or_path "$folder" --output_dir "codes-$folder" --use_peft true \
    --load_in_4bit true --gradient_accumulation_steps 4
done
check 'is quantized alike' same_losses codes-fp8 codes-numbers 0
succeeds 'a dry run' "$sft" run.ini --dry-run --model_name_or_path fp8
succeeds 'sft-inspect' "$sft_inspect" --diff fp8 numbers
succeeds 'sft-generate' "$sft_generate" fp8 --tokenizer byte --prompt hello --max_new_tokens 2
finish_checks
