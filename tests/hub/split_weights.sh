#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Adapters that begin with a part of the weights (init_lora_weights = pissa, olora) as users meet them: a run resumes to
# the last bit, also on another mesh, and what it leaves is a plain adapter of twice the rank beside the model as it was.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_data 40
cp -r data held

{ tiny_model num_hidden_layers=2 head_dim=16 intermediate_size=48 initializer_range=0.2 && model_run base; } >model.ini
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

succeeds 'a model to begin from' run 1 model.ini
succeeds 'its loss' run 1 lora.ini --lora.use_peft false --train.output_dir plain --train.max_steps 0 "${evaluates[@]}"
mesh=(--parallel.tp_size 2 --parallel.dp_shard_size 2)
for init in pissa olora; do
  options=(lora.ini --lora.init_lora_weights "$init")
  # The model is the same at first
  succeeds "$init at step 0" run 2 "${options[@]}" --train.output_dir "$init-zero" --train.max_steps 0 --parallel.dp_shard_size 2 \
    "${evaluates[@]}"
  succeeds 'has the loss of the model' same_evaluation plain "$init-zero" 1e-5
  succeeds 'and is joined with it' "$sft_convert" --merge base/model "$init-zero/adapter" "$init-merged-zero"
  succeeds 'without a change' same_tensors base/model/model.safetensors "$init-merged-zero/model.safetensors" 1e-5

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
  succeeds 'it is another one' other_tensors base/model/model.safetensors "$init-merged/model.safetensors" 1e-3
  succeeds 'whose loss' run 1 lora.ini --lora.use_peft false --model.model_name_or_path "$init-merged" \
    --train.output_dir "$init-joined" --train.max_steps 0 "${evaluates[@]}"
  succeeds 'and that of the run, on another mesh,' run 2 "${options[@]}" --train.output_dir "$init-beside" --parallel.sp_size 2 \
    --train.gradient_accumulation_steps 2 --checkpoint.resume_from_checkpoint "$init/checkpoint-000004" "${evaluates[@]}"
  succeeds 'are the same' same_evaluation "$init-joined" "$init-beside" 1e-5
  succeeds 'a checkpoint becomes that adapter' "$sft_convert" "$init/checkpoint-000004" "$init-converted"
  succeeds 'number for number' same_tensors "$init/adapter/adapter_model.safetensors" "$init-converted/adapter_model.safetensors" 1e-30
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
