#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Modules that are trained whole beside adapters of several ranks, with LoRA+, another loss and noise: from a run to its
# resume, to the last bit, to the PEFT folder, and to the one model that sft-convert makes of it.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_data 80
cp -r data held
{ tiny_model num_hidden_layers=2 intermediate_size=48 && model_run base; } >model.ini
cat >lora.ini <<INI
[model]
model_name_or_path = base/model
[lora]
use_peft = true
lora_r = 4
rank_pattern = {"q_proj": 2, "layers.1.mlp.(up|down)_proj": 7}
alpha_pattern = {"o_proj": 3.5}
modules_to_save = embed_tokens lm_head input_layernorm
loraplus_lr_ratio = 2
[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = 4
logging_steps = 1
neftune_noise_alpha = 5
loss_type = dft
precision = bf16
[optimizer]
learning_rate = 0.01
lr_scheduler_type = constant
[checkpoint]
save_steps = 2
save_hub_model = every_save
[device]
backend = cpu
INI

# adapters A B: two PEFT folders hold the same tensors, to the bit; whole modules are among them, and are no longer the
# base's.
adapters() {
  with_tensors "$@" <<'PYTHON'
import sys, tensor_files
first, second = (tensor_files.read(folder + "/adapter_model.safetensors") for folder in sys.argv[1:])
base = tensor_files.read("base/model/model.safetensors")
assert first == second
whole = {name.removeprefix("base_model.model.") for name in first if ".lora_" not in name}
assert whole == {"model.embed_tokens.weight", "lm_head.weight", "model.layers.0.input_layernorm.weight",
                 "model.layers.1.input_layernorm.weight"}, whole
assert all(first["base_model.model." + name][2] != base[name][2] for name in whole)
assert first["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"][1] == [2, 32]
assert first["base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"][1] == [32, 7]
PYTHON
}
mesh=(--parallel.tp_size 2 --parallel.dp_shard_size 2)

succeeds 'a model to begin from' run 1 model.ini
succeeds 'a run trains adapters and whole modules' run 4 lora.ini --train.output_dir whole "${mesh[@]}"
tr -s ' \n' ' ' <out >table
succeeds 'it says so' grep -q 'whole modules embed_tokens lm_head input_layernorm; rate of B x 2' table
succeeds 'two steps' run 4 lora.ini --train.output_dir parts "${mesh[@]}" --train.max_steps 2
succeeds 'and two more' run 4 lora.ini --train.output_dir parts "${mesh[@]}" --checkpoint.resume_from_checkpoint auto
succeeds 'have the same losses' cmp <(losses whole) <(losses parts)
succeeds 'and leave the same tensors, which are new' adapters whole/adapter parts/adapter
succeeds 'a checkpoint becomes the same PEFT folder' "$sft_convert" whole/checkpoint-000004 from-checkpoint
succeeds 'to the bit' adapters whole/adapter from-checkpoint
succeeds 'sft-inspect lists them' bash -c '"$@" | grep -q adapter/base_model.model.lm_head.weight' - "$sft_inspect" whole
for place in device nvme; do
  options=(--train.output_dir "place-$place" "${mesh[@]}" --train.max_steps 2)
  [[ $place == device ]] || options+=(--train.offload_parameters nvme --train.offload_optimizer nvme --train.offload_folder .)
  succeeds "master weights: $place" run 4 lora.ini "${options[@]}"
done
succeeds 'give the same' adapters place-device/adapter place-nvme/adapter

# Nothing is trained yet: the copies are the model's.
succeeds 'step 0' run 2 lora.ini --train.output_dir zero --train.max_steps 0
succeeds 'changes nothing' "$sft_convert" --merge base/model zero/adapter merged-zero
succeeds 'to the bit' same_tensors base/model/model.safetensors merged-zero/model.safetensors

# One model of both
succeeds 'model and adapter become one' "$sft_convert" --merge base/model whole/adapter merged
succeeds 'which a run evaluates' run 2 lora.ini --lora.use_peft false --model.model_name_or_path merged \
  --checkpoint.save_hub_model false --train.output_dir joined --train.precision fp32 --data.eval_files 'held/*.h5' --train.max_steps 0
succeeds 'beside the adapter' run 2 lora.ini --train.output_dir beside --train.precision fp32 --data.eval_files 'held/*.h5' \
  --checkpoint.resume_from_checkpoint whole/checkpoint-000004 --parallel.sp_size 2 --train.gradient_accumulation_steps 2
succeeds 'with the same loss' same_evaluation joined beside 1e-6
prints 0 '^> hi' "$sft_generate" whole --prompt hi --max_new_tokens 2
sed -i 's/"layers_to_transform": null/"layers_to_transform": 0/' whole/adapter/adapter_config.json
refuses 3 'whose block layers_to_transform' "$sft_convert" --merge base/model whole/adapter x
sed -i 's/"layers_to_transform": 0/"layers_to_transform": null/; s/"lm_head"/"other"/' whole/adapter/adapter_config.json
refuses 3 'tensor base_model.model.lm_head.weight is none of LoRA' "$sft_convert" --merge base/model whole/adapter x

# A model with a tied head: a copy of the table that was trained alone parts the two.
succeeds 'a tied model' run 1 model.ini --model.tie_word_embeddings true --train.output_dir tied
make_tied_adapter() {
  python3 - "$@" <<'PYTHON'
import json, os, random, struct, sys
folder, modules, ensures = sys.argv[1], sys.argv[2].split(), sys.argv[3] == "ensures"
random.seed(1)
def numbers(*shape): return shape, [random.gauss(0, 0.1) for _ in range(shape[0] * shape[1])]
stem = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
tensors = {stem + "A.weight": numbers(2, 32), stem + "B.weight": numbers(32, 2)}
for module in modules: tensors[f"base_model.model.{module}.weight"] = numbers(272, 32)
if ensures: tensors["base_model.model.lm_head.weight"] = tensors["base_model.model.model.embed_tokens.weight"]
header, data = {}, b""
for name, (shape, values) in tensors.items():
    part = struct.pack(f"<{len(values)}f", *values)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
    data += part
text = json.dumps(header).encode()
os.mkdir(folder)
with open(f"{folder}/adapter_model.safetensors", "wb") as file: file.write(struct.pack("<Q", len(text)) + text + data)
json.dump({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "ensure_weight_tying": ensures,
           "modules_to_save": [module.split(".")[-1] for module in modules]}, open(f"{folder}/adapter_config.json", "w"))
PYTHON
}
# merged_tables FOLDER EMBEDDINGS HEAD: where the merged tables come from, ADAPTER or base; of a tied model HEAD is "tied".
merged_tables() {
  with_tensors "$@" <<'PYTHON'
import json, sys, tensor_files
def read(path):
    return {name.removeprefix("base_model.model."): data for name, (_, _, data) in tensor_files.read(path).items()}
folder, embeddings, head = sys.argv[1:]
merged, base = read(f"merged-{folder}/model.safetensors"), read("tied/model/model.safetensors")
trained, table = read(f"{folder}/adapter_model.safetensors"), "model.embed_tokens.weight"
assert merged[table] == (trained[table] if embeddings == "adapter" else base[table])
assert json.load(open(f"merged-{folder}/config.json"))["tie_word_embeddings"] is (head == "tied")
if head == "tied": assert "lm_head.weight" not in merged
else: assert merged["lm_head.weight"] == (trained["lm_head.weight"] if head == "adapter" else base[table])
PYTHON
}
while read -r name modules embeddings head; do
  make_tied_adapter "$name" "${modules//,/ }" "$name"
  succeeds "an adapter that trained $modules" "$sft_convert" --merge tied/model "$name" "merged-$name"
  succeeds '  leaves the tables of PEFT' merged_tables "$name" "$embeddings" "$head"
  for text in 'tied/model --adapter '"$name" "merged-$name"; do
    # shellcheck disable=SC2086  # words
    "$sft_generate" $text --tokenizer byte --prompt hi --max_new_tokens 4 >"said-$name-${text:0:4}" 2>err || wrong "$text says nothing"
  done
  check '  and says the same before' cmp "said-$name-tied" "said-$name-merg"
done <<'TABLE'
embeddings model.embed_tokens adapter base
head lm_head base adapter
both model.embed_tokens,lm_head adapter adapter
ensures model.embed_tokens adapter tied
TABLE

# Adapters of PEFT on what is not merged here, on a model that they fit
make_foreign_adapter() {  # FOLDER FIELDS TENSOR...: of 2 x 2 numbers each, by their names in the model
  python3 - "$@" <<'PYTHON'
import json, os, struct, sys
folder, fields, *names = sys.argv[1:]
os.mkdir(folder)
tensors = {"base_model.model." + name: {"dtype": "F32", "shape": [2, 2], "data_offsets": [16 * i, 16 * i + 16]}
           for i, name in enumerate(names)}
text = json.dumps(tensors).encode()
with open(f"{folder}/adapter_model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + bytes(16 * len(names)))
json.dump({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], **json.loads(fields)},
          open(f"{folder}/adapter_config.json", "w"))
PYTHON
}
refuses_kind() {  # BASE PATTERN FIELDS TENSOR...
  rm -rf foreign
  make_foreign_adapter foreign "${@:3}"
  refuses 3 "cannot merge the adapter in foreign.* \\(.*$2.* merged here\\): .*PEFT's merge_and_unload" \
    "$sft_convert" --merge "$1" foreign x
}
layer=model.layers.0
refuses_kind base/model 'embed_tokens\.lora_embedding_A, and adapters on embed_tokens' '{"target_modules": ["embed_tokens"]}' \
  model.embed_tokens.lora_embedding_A model.embed_tokens.lora_embedding_B
refuses_kind base/model 'adapters on lm_head' '{"target_modules": ["lm_head"]}' lm_head.base_layer.weight
refuses_kind tied/model 'it adapts lm_head' '{"target_modules": ["lm_head"]}' lm_head.lora_A.weight lm_head.lora_B.weight
refuses_kind base/model "modules_to_save name $layer\\.mlp," '{"modules_to_save": ["mlp"]}' $layer.mlp.gate_proj.weight
refuses_kind base/model "target_parameters name the weight of $layer\\.mlp\\.down_proj" \
  '{"target_modules": [], "target_parameters": ["mlp.down_proj.weight"]}' $layer.mlp.down_proj.lora_A.weight

finish_checks
