#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Adapters of experts beside those of attention: from a run on a mesh to its resume, to the PEFT folder, and to the one
# model that sft-convert makes of it, which has the loss and the text of model and adapter.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_data 60
cp -r data held
{ tiny_model hidden_size=64 num_hidden_layers=2 intermediate_size=64 num_experts=4 num_experts_per_tok=2 moe_intermediate_size=24 \
  norm_topk_prob=true qk_norm=true && model_run base; } >model.ini
cat >lora.ini <<INI
[model]
model_name_or_path = base/model
[lora]
use_peft = true
lora_r = 4
lora_dropout = 0
lora_target_modules = q_proj v_proj
lora_target_parameters = mlp.experts.gate_up_proj layers.1.mlp.experts.down_proj
rank_pattern = {"experts.down_proj": 3}
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

# adapters A B: two PEFT folders hold the same tensors, to the bit, in PEFT's shapes.
adapters() {
  with_tensors "$@" <<'PYTHON'
import json, sys, tensor_files
first, second = (tensor_files.read(folder + "/adapter_model.safetensors") for folder in sys.argv[1:])
assert first == second
config = json.load(open(sys.argv[1] + "/adapter_config.json"))
assert config["target_parameters"] == ["mlp.experts.gate_up_proj", "layers.1.mlp.experts.down_proj"], config
layers = "base_model.model.model.layers."
shapes = {name: shape for name, (_, shape, _) in first.items() if "experts" in name}
assert shapes == {layers + "0.mlp.experts.lora_A.weight": [16, 64], layers + "0.mlp.experts.lora_B.weight": [48, 16],
                  layers + "1.mlp.experts.base_layer.lora_A.weight": [16, 64],
                  layers + "1.mlp.experts.base_layer.lora_B.weight": [48, 16],
                  layers + "1.mlp.experts.lora_A.weight": [12, 24], layers + "1.mlp.experts.lora_B.weight": [64, 12]}, shapes
PYTHON
}
mesh=(--parallel.ep_size 2 --parallel.tp_size 2)

succeeds 'a model to begin from' run 1 model.ini
succeeds 'a run trains adapters of experts' run 4 lora.ini --train.output_dir whole "${mesh[@]}"
tr -s ' \n' ' ' <out >table
succeeds 'it says so' grep -q "on q_proj v_proj and experts' mlp.experts.gate_up_proj layers.1.mlp.experts.down_proj" table
succeeds 'two steps' run 4 lora.ini --train.output_dir parts "${mesh[@]}" --train.max_steps 2
succeeds 'and two more' run 4 lora.ini --train.output_dir parts "${mesh[@]}" --checkpoint.resume_from_checkpoint auto
succeeds 'have the same losses' cmp <(losses whole) <(losses parts)
succeeds 'and leave the same tensors' adapters whole/adapter parts/adapter
succeeds 'a checkpoint becomes the same PEFT folder' "$sft_convert" whole/checkpoint-000004 from-checkpoint
succeeds 'to the bit' adapters whole/adapter from-checkpoint

# One model of both
succeeds 'model and adapter become one' "$sft_convert" --merge base/model whole/adapter merged
succeeds 'which a run evaluates' run 1 lora.ini --lora.use_peft false --model.model_name_or_path merged \
  --checkpoint.save_hub_model false --train.output_dir joined --data.eval_files 'held/*.h5' --train.max_steps 0
succeeds 'beside the adapter' run 2 lora.ini --train.output_dir beside --data.eval_files 'held/*.h5' --parallel.ep_size 2 \
  --checkpoint.resume_from_checkpoint whole/checkpoint-000004 --train.gradient_accumulation_steps 2
succeeds 'with the same loss' same_evaluation joined beside 1e-6
text() { "$sft_generate" "$@" --tokenizer byte --prompt hi --max_new_tokens 8 --json | grep -o '"new_tokens":[^]]*'; }
text merged >text-merged
succeeds 'the text of the merged model' test -s text-merged
succeeds 'is that of the checkpoint' cmp text-merged <(text whole)
succeeds 'and of the adapter' cmp text-merged <(text base/model --adapter whole/adapter)
succeeds 'a base in 4 bits leaves experts as they are' run 2 lora.ini --train.output_dir bits --lora.load_in_4bit true \
  --parallel.ep_size 2 --train.max_steps 1
sed -i 's/"mlp.experts.gate_up_proj",/"q_proj",/' whole/adapter/adapter_config.json
refuses 3 'more than target_parameters of its adapter_config.json names' "$sft_convert" --merge base/model whole/adapter x

finish_checks
