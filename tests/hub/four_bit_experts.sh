#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bases whose experts are kept in 4 bits, too: the losses of a model whose experts are the numbers that the codes stand
# for, the same on every mesh, below adapters of attention and of the experts, and less memory.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_data 60
{ tiny_model hidden_size=64 num_hidden_layers=2 num_attention_heads=8 head_dim=32 intermediate_size=64 num_experts=4 \
  num_experts_per_tok=2 moe_intermediate_size=128 norm_topk_prob=true qk_norm=true && model_run base; } >model.ini
{
  printf '[model]\nmodel_name_or_path = base/model\n[lora]\nuse_peft = true\nlora_r = 4\nlora_dropout = 0\n'
  printf 'lora_target_modules = q_proj v_proj\nlora_target_parameters = mlp.experts.gate_up_proj mlp.experts.down_proj\n'
  short_run 3 'logging_steps = 1' 'gradient_accumulation_steps = 4'
  printf '[optimizer]\nlearning_rate = 0.01\n[checkpoint]\nsave_strategy = no\n'
} >lora.ini
succeeds 'a model with experts' run 1 model.ini

# A folder whose experts are the numbers that codes of nf4 stand for
/usr/bin/python3 - base/model rounded <<'PYTHON'
import json, shutil, struct, sys
import numpy as np

VALUES = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                   -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                   0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                   0.7229568362236023, 1.0], np.float32)
shutil.copytree(*sys.argv[1:])
data = open(sys.argv[1] + "/model.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, numbers = json.loads(data[8:8 + size]), np.frombuffer(data[8 + size:], np.float32).copy()
num_rounded = 0
for name, tensor in header.items():
    if ".experts." not in name:
        continue
    begin, end = (offset // 4 for offset in tensor["data_offsets"])
    blocks = numbers[begin:end].reshape(-1, 64)
    scales = np.abs(blocks).max(axis=1, keepdims=True)
    codes = np.abs((blocks / scales)[..., None] - VALUES).argmin(axis=-1)
    numbers[begin:end] = (VALUES[codes] * scales).reshape(-1)
    num_rounded += 1
assert num_rounded > 0
with open(sys.argv[2] + "/model.safetensors", "wb") as file:
    file.write(data[:8 + size] + numbers.tobytes())
PYTHON

kept=(--lora.load_in_4bit true --lora.quantize_moe_experts true)
succeeds 'experts as numbers' run 1 lora.ini --lora.load_in_4bit true --train.output_dir numbers
succeeds 'and in 4 bits' run 1 lora.ini "${kept[@]}" --train.output_dir alone
check 'are another base' other_losses alone numbers 1e-5
succeeds 'the numbers of these codes' run 1 lora.ini --lora.load_in_4bit true --model.model_name_or_path rounded \
  --train.output_dir rounded-run
check 'have the same losses' same_losses alone rounded-run 1e-5
for form in false true; do
  nested=(--lora.use_bnb_nested_quant "$form")
  succeeds "nested $form: alone" run 1 lora.ini "${kept[@]}" "${nested[@]}" --train.output_dir "nested-$form"
  for mesh in '--parallel.ep_size 2' '--parallel.ep_size 2 --parallel.dp_shard_size 2' '--parallel.dp_shard_size 4' \
    '--parallel.tp_size 2 --parallel.sp_size 2'; do
    read -ra words <<<"$mesh"
    ranks=4 accumulation=1
    if [[ $mesh == '--parallel.ep_size 2' ]]; then ranks=2 accumulation=2; fi
    if [[ $mesh == *tp_size* ]]; then accumulation=4; fi
    rm -rf mesh
    succeeds "nested $form: $mesh" run $ranks lora.ini "${kept[@]}" "${nested[@]}" --parallel.zero_stage 3 "${words[@]}" \
      --train.gradient_accumulation_steps $accumulation --train.output_dir mesh
    check 'has the same losses' same_losses mesh "nested-$form" 1e-5
  done
done

bytes() { "$sft" lora.ini "$@" --dry-run --json | most_bytes parameters; }
check 'experts take less memory' test "$(bytes "${kept[@]}")" -lt "$(bytes --lora.load_in_4bit true)"
refuses 2 'lora.quantize_moe_experts. has nothing to do' "$sft" lora.ini --lora.quantize_moe_experts true
refuses 2 'does not fit moe_intermediate_size = 128 .rows of 32 numbers on each rank of tp' "$mpiexec" -np 4 "$sft" lora.ini \
  "${kept[@]}" --parallel.tp_size 4

finish_checks
