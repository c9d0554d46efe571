#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Adapters that begin with a part of the weights (init_lora_weights = pissa, olora) as users meet them: a run resumes to
# the last bit, also on another mesh, and what it leaves is a plain adapter of twice the rank beside the model as it was.
#
#   split_weights.sh MPIEXEC SFT SFT_PREPARE SFT_CONVERT SFT_INSPECT SFT_GENERATE
# shellcheck disable=SC2317  # succeeds calls functions by name
set -euo pipefail

mpiexec=$1 sft=$2 sft_prepare=$3 sft_convert=$4 sft_inspect=$5 sft_generate=$6
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
# shellcheck source=tests/hub/adapter_runs.sh
source "$(dirname "${BASH_SOURCE[0]}")/adapter_runs.sh"

make_pairs 40
"$sft_prepare" --input pairs.jsonl --output data --max_length 48 >/dev/null
cp -r data held

cat >model.ini <<INI
[model]
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 16
intermediate_size = 48
vocab_size = 272
initializer_range = 0.2
INI
base_run >>model.ini
cat >lora.ini <<INI
[model]
model_name_or_path = base/model
[lora]
use_peft = true
lora_r = 4
lora_dropout = 0.1
rank_pattern = {"k_proj": 3}
[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = 4
logging_steps = 1
precision = fp32
[optimizer]
learning_rate = 0.01
lr_scheduler_type = constant
[checkpoint]
save_steps = 2
[device]
backend = cpu
INI

evaluates=(--data.eval_files 'held/*.h5')
# near TOLERANCE FIRST SECOND: safetensors files with the same tensors, but for rounding.
near() {
  python3 - "$@" <<'PYTHON'
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:size])
    header.pop("__metadata__", None)
    return {name: struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f",
                                data[size + t["data_offsets"][0]:size + t["data_offsets"][1]]) for name, t in header.items()}
first, second = map(read, sys.argv[2:])
assert first.keys() == second.keys()
assert all(abs(a - b) < float(sys.argv[1]) for name in first for a, b in zip(first[name], second[name]))
PYTHON
}
far() { ! near "$@" 2>/dev/null; }
# same_evaluation TOLERANCE RUN RUN: the last losses of evaluation.
same_evaluation() {
  python3 - "$@" <<'PYTHON'
import json, sys
losses = [[line["eval_loss"] for line in map(json.loads, open(f"{run}/metrics.jsonl")) if "eval_loss" in line][-1]
          for run in sys.argv[2:]]
assert abs(losses[0] - losses[1]) < float(sys.argv[1]), losses
PYTHON
}

succeeds 'a model to begin from' run 1 model.ini
succeeds 'its loss' run 1 lora.ini --lora.use_peft false --train.output_dir plain --train.max_steps 0 "${evaluates[@]}"
mesh=(--parallel.tp_size 2 --parallel.dp_shard_size 2)
for init in pissa olora; do
  options=(lora.ini --lora.init_lora_weights "$init")
  # The model is the same at first
  succeeds "$init at step 0" run 2 "${options[@]}" --train.output_dir "$init-zero" --train.max_steps 0 --parallel.dp_shard_size 2 \
    "${evaluates[@]}"
  succeeds 'has the loss of the model' same_evaluation 1e-5 plain "$init-zero"
  succeeds 'and is joined with it' "$sft_convert" --merge base/model "$init-zero/adapter" "$init-merged-zero"
  succeeds 'without a change' near 1e-5 base/model/model.safetensors "$init-merged-zero/model.safetensors"

  # Interrupted and resumed = uninterrupted
  succeeds 'a run' run 4 "${options[@]}" --train.output_dir "$init" "${mesh[@]}"
  succeeds 'two steps' run 4 "${options[@]}" --train.output_dir "$init-parts" "${mesh[@]}" --train.max_steps 2
  succeeds 'and two more' run 4 "${options[@]}" --train.output_dir "$init-parts" "${mesh[@]}" \
    --checkpoint.resume_from_checkpoint auto
  succeeds 'have the same losses' cmp <(losses "$init") <(losses "$init-parts")
  succeeds 'and the same adapters' cmp "$init/adapter/adapter_model.safetensors" "$init-parts/adapter/adapter_model.safetensors"

  # What it leaves
  check 'twice the rank' grep -q '"r": 8' "$init/adapter/adapter_config.json"
  check 'of each module' grep -q '"k_proj": 6' "$init/adapter/adapter_config.json"
  check 'plain' grep -q '"init_lora_weights": true' "$init/adapter/adapter_config.json"
  succeeds 'joined with the model' "$sft_convert" --merge "$init" "$init-merged"
  succeeds 'it is another one' far 1e-3 base/model/model.safetensors "$init-merged/model.safetensors"
  succeeds 'whose loss' run 1 lora.ini --lora.use_peft false --model.model_name_or_path "$init-merged" \
    --train.output_dir "$init-joined" --train.max_steps 0 "${evaluates[@]}"
  succeeds 'and that of the run, on another mesh,' run 2 "${options[@]}" --train.output_dir "$init-beside" --parallel.sp_size 2 \
    --train.gradient_accumulation_steps 2 --checkpoint.resume_from_checkpoint "$init/checkpoint-000004" "${evaluates[@]}"
  succeeds 'are the same' same_evaluation 1e-5 "$init-joined" "$init-beside"
  succeeds 'a checkpoint becomes that adapter' "$sft_convert" "$init/checkpoint-000004" "$init-converted"
  succeeds 'number for number' near 1e-30 "$init/adapter/adapter_model.safetensors" "$init-converted/adapter_model.safetensors"
  succeeds 'the adapter beside its model' "$sft_generate" base/model --adapter "$init/adapter" --tokenizer byte --prompt hi \
    --max_new_tokens 12
  cp out text
  succeeds 'the checkpoint' "$sft_generate" "$init" --prompt hi --max_new_tokens 12
  check 'give the same text' cmp out text
done
succeeds 'sft-inspect lists what adapters began with' "$sft_inspect" pissa --optimizer
check 'in an entry of its own' grep -q 'adapter_start/base_model.*self_attn\.q_proj\.lora_A\.weight' out
refuses 2 'rank 33 of model.layers.0.self_attn.q_proj .that weight has 32' "$sft" lora.ini --lora.init_lora_weights pissa --lora.lora_r 33
refuses 2 'lora.init_lora_weights is olora, but .*pissa/checkpoint-000004 was written with pissa' "$mpiexec" -np 2 "$sft" lora.ini \
  --lora.init_lora_weights olora --train.output_dir other --train.gradient_accumulation_steps 2 \
  --checkpoint.resume_from_checkpoint pissa/checkpoint-000004

finish_checks
