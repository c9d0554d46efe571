#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# LoRA as users meet it: a run leaves a PEFT folder, resumes to the last bit, goes on on another mesh, leaves the frozen
# weights alone and out of its memory, and sft-convert joins model and adapter.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_data 80

{ tiny_model num_hidden_layers=3 head_dim=16 intermediate_size=48 qk_norm=true tie_word_embeddings=true && model_run base; } >model.ini
cat >lora.ini <<INI
[model]
model_name_or_path = base/model
[lora]
use_peft = true
lora_r = 4
lora_dropout = 0.1
[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = 4
logging_steps = 1
precision = bf16
[optimizer]
learning_rate = 0.01
lr_scheduler_type = constant
[checkpoint]
save_steps = 2
[device]
backend = cpu
INI

succeeds 'a model to begin from' run 1 model.ini
succeeds 'a run trains adapters' run 4 lora.ini --train.output_dir whole --parallel.tp_size 2 --parallel.dp_shard_size 2
cp out table
succeeds 'it says how many parameters are trained' grep -Eq '^ +lora +.* of .* parameters are trained' table
succeeds 'and leaves a PEFT folder' grep -q '"peft_type": "LORA"' whole/adapter/adapter_config.json
succeeds 'and no model' test ! -e whole/model

# Interrupted and resumed = uninterrupted
succeeds 'two steps' run 4 lora.ini --train.output_dir parts --parallel.tp_size 2 --parallel.dp_shard_size 2 --train.max_steps 2
succeeds 'and two more' run 4 lora.ini --train.output_dir parts --parallel.tp_size 2 --parallel.dp_shard_size 2 \
  --checkpoint.resume_from_checkpoint auto
succeeds 'have the same losses' cmp <(losses whole) <(losses parts)
succeeds 'and the same adapters' cmp whole/adapter/adapter_model.safetensors parts/adapter/adapter_model.safetensors
succeeds 'on another mesh' run 2 lora.ini --train.output_dir other --parallel.sp_size 2 --train.gradient_accumulation_steps 2 \
  --checkpoint.resume_from_checkpoint whole/checkpoint-000002
# On the frozen weights that they were trained beside, wherever these lie now and on any mesh
cp -r base/model moved
succeeds 'from the same weights elsewhere, with another precision' run 2 lora.ini --train.output_dir elsewhere \
  --parallel.dp_shard_size 2 --train.precision fp32 \
  --model.model_name_or_path moved --checkpoint.resume_from_checkpoint whole/checkpoint-000002
check 'without a word about them' bash -c '! grep -q frozen err'
# scaled FROM TO: the folder with every number of one matrix times 1.5.
scaled() {
  cp -r "$1" "$2"
  python3 - "$2/model.safetensors" <<'PYTHON'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
size = 8 + struct.unpack("<Q", data[:8])[0]
begin, end = json.loads(data[8:size])["model.layers.1.mlp.down_proj.weight"]["data_offsets"]
numbers = struct.unpack(f"<{(end - begin) // 4}f", data[size + begin:size + end])
data[size + begin:size + end] = struct.pack(f"<{len(numbers)}f", *(1.5 * number for number in numbers))
open(sys.argv[1], "wb").write(data)
PYTHON
}
scaled base/model scaled
for layout in '1 --train.gradient_accumulation_steps 2' '4 --parallel.tp_size 2 --parallel.dp_shard_size 2'; do
  read -ra words <<<"$layout"
  refuses 3 'frozen weights in .*/scaled are not those that whole/checkpoint-000002 was trained beside .*they were in .*/base/model' \
    "$mpiexec" -np "${words[0]}" "$sft" lora.ini --train.output_dir other-base --model.model_name_or_path scaled \
    "${words[@]:1}" --checkpoint.resume_from_checkpoint whole/checkpoint-000002
done
refuses 3 'frozen weights in random.* are not those' "$sft" model.ini --lora.use_peft true --lora.lora_r 4 --lora.lora_dropout 0.1 \
  --train.output_dir other-base --checkpoint.save_hub_model false --train.per_device_train_batch_size 2 \
  --model.max_position_embeddings 48 \
  --checkpoint.resume_from_checkpoint whole/checkpoint-000002
prints 0 '^> hi' "$sft_generate" whole --prompt hi --max_new_tokens 2
prints 3 'model in scaled is not the one that the adapter was trained beside .*base/model' \
  "$sft_generate" scaled --adapter whole --tokenizer byte --prompt hi --max_new_tokens 2
export HF_HOME=$work/cache # the branch of a model in the hub cache moves
mkdir -p cache/hub/models--org--name/{refs,snapshots}
printf aaaa >cache/hub/models--org--name/refs/main
cp -r base/model cache/hub/models--org--name/snapshots/aaaa
cp -r scaled cache/hub/models--org--name/snapshots/bbbb
succeeds 'a run from the hub cache' run 2 lora.ini --model.model_name_or_path org/name --train.output_dir hub --train.max_steps 2
printf bbbb >cache/hub/models--org--name/refs/main
refuses 3 'snapshots/bbbb are not those .*snapshots/aaaa.*model_revision' "$mpiexec" -np 2 "$sft" lora.ini \
  --model.model_name_or_path org/name --train.output_dir hub --checkpoint.resume_from_checkpoint auto
succeeds 'goes on at its commit' run 2 lora.ini --model.model_name_or_path org/name --model.model_revision aaaa \
  --train.output_dir hub --checkpoint.resume_from_checkpoint auto --optimizer.lr_scheduler_type cosine
check 'and is told what another length makes of the rate' grep -q '^warning: the run has 4 steps now; it had 2 when' err
succeeds 'one step of the base' run 1 model.ini --train.output_dir grown --train.max_steps 1 --checkpoint.save_hub_model false
succeeds 'a run from the newest of that folder' run 2 lora.ini --model.model_name_or_path grown --train.output_dir newest --train.max_steps 2
succeeds 'another step of the base' run 1 model.ini --train.output_dir grown --train.max_steps 2 --checkpoint.save_hub_model false \
  --checkpoint.resume_from_checkpoint auto
refuses 3 'grown/checkpoint-000002 are not those .*grown/checkpoint-000001' "$mpiexec" -np 2 "$sft" lora.ini \
  --model.model_name_or_path grown --train.output_dir newest --checkpoint.resume_from_checkpoint auto
refuses 2 'lora\.lora_r is 8' "$mpiexec" -np 4 "$sft" lora.ini --train.output_dir parts --lora.lora_r 8 --parallel.dp_shard_size 4 \
  --checkpoint.resume_from_checkpoint auto
succeeds 'sft-inspect lists adapters' "$sft_inspect" whole
cp out table
succeeds 'by their names' grep -q 'adapter/base_model\.model\.model\.layers\.0\.self_attn\.q_proj\.lora_A\.weight' table

# Frozen weights have no gradients, no moments and are stored in bf16 alone
succeeds 'the plan of a LoRA run' bash -c '"$@" >lora.json' - "$sft" lora.ini --dry-run --json --num_ranks 1
succeeds 'the plan of a full run' bash -c '"$@" >full.json' - "$sft" lora.ini --lora.use_peft false --dry-run --json --num_ranks 1
num_all=$(python3 -c 'import json; print(json.load(open("lora.json"))["num_parameters"])')
num_trained=$(python3 -c 'import json; print(json.load(open("lora.json"))["num_trainable_parameters"])')
padding=65536
succeeds 'gradients are those of adapters' test "$(most_bytes gradients <lora.json)" -lt $((4 * num_trained + padding))
succeeds 'moments too' test "$(most_bytes optimizer <lora.json)" -lt $((8 * num_trained + padding))
succeeds 'weights take two bytes' test "$(most_bytes parameters <lora.json)" -lt $((2 * (num_all - num_trained) + 6 * num_trained + padding))
succeeds 'less than a full run' test "$(most_bytes parameters <lora.json)" -lt "$(most_bytes parameters <full.json)"

# Step 0, and what joins them
succeeds 'max_steps = 0 leaves the adapters of step 0' run 1 lora.ini --train.output_dir zero --train.max_steps 0
succeeds 'which change nothing' "$sft_convert" --merge base/model zero/adapter merged-zero
succeeds 'bit for bit' same_tensors base/model/model.safetensors merged-zero/model.safetensors
succeeds 'trained ones do' "$sft_convert" --merge base/model whole/adapter merged
succeeds 'change the weights' other_tensors base/model/model.safetensors merged/model.safetensors
cp -r data held
succeeds 'a run evaluates what was joined' run 2 lora.ini --lora.use_peft false --model.model_name_or_path merged \
  --train.output_dir joined --train.precision fp32 --data.eval_files 'held/*.h5' --train.max_steps 0
succeeds 'and the adapters beside their model' run 2 lora.ini --train.output_dir beside --train.precision fp32 \
  --data.eval_files 'held/*.h5' --checkpoint.resume_from_checkpoint whole/checkpoint-000004 --parallel.dp_shard_size 2 \
  --train.gradient_accumulation_steps 1
succeeds 'have the same loss' same_evaluation joined beside 1e-5
succeeds 'a checkpoint becomes a PEFT folder' "$sft_convert" whole/checkpoint-000004 from-checkpoint
succeeds 'the same' same_tensors whole/adapter/adapter_model.safetensors from-checkpoint/adapter_model.safetensors

# PEFT may name modules one by one, or by a regular expression
retarget() { # FOLDER TARGETS: the adapter, as if PEFT had been given these target_modules
  cp -r whole/adapter "$1"
  python3 - "$1/adapter_config.json" "$2" <<'PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
config["target_modules"] = json.loads(sys.argv[2])
json.dump(config, open(sys.argv[1], "w"))
PYTHON
}
paths=$(python3 - <<'PYTHON'
import json, struct
data = open("whole/adapter/adapter_model.safetensors", "rb").read()
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
paths = {name.removeprefix("base_model.model.").rsplit(".lora_", 1)[0] for name in header if name != "__metadata__"}
print(json.dumps(sorted(paths)))
PYTHON
)
retarget paths "$paths"
succeeds 'modules by their paths' "$sft_convert" --merge base/model paths merged-paths
succeeds 'give the same model' same_tensors merged/model.safetensors merged-paths/model.safetensors
retarget pattern '"model\\.layers\\.\\d+\\.(self_attn|mlp)\\.\\w+_proj"'
succeeds 'modules by a regular expression' "$sft_convert" --merge base/model pattern merged-pattern
succeeds 'give it too' same_tensors merged/model.safetensors merged-pattern/model.safetensors
retarget fewer '["layers.0.self_attn.q_proj"]'
refuses 3 'target_modules of its adapter_config\.json does not name' "$sft_convert" --merge base/model fewer x

# Rows with magnitudes (DoRA)
succeeds 'a run trains magnitudes' run 4 lora.ini --lora.use_dora true --train.output_dir dora --parallel.tp_size 2 \
  --parallel.dp_shard_size 2
succeeds 'half of it' run 4 lora.ini --lora.use_dora true --train.output_dir dora-parts --parallel.tp_size 2 \
  --parallel.dp_shard_size 2 --train.max_steps 2
succeeds 'and the rest' run 4 lora.ini --lora.use_dora true --train.output_dir dora-parts --parallel.tp_size 2 \
  --parallel.dp_shard_size 2 --checkpoint.resume_from_checkpoint auto
succeeds 'have the same losses' cmp <(losses dora) <(losses dora-parts)
succeeds 'and the same adapters' cmp dora/adapter/adapter_model.safetensors dora-parts/adapter/adapter_model.safetensors
succeeds 'by the names of PEFT' grep -aq 'base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector"' \
  dora/adapter/adapter_model.safetensors
succeeds 'which says so' grep -q '"use_dora": true' dora/adapter/adapter_config.json
succeeds 'at step 0' run 2 lora.ini --lora.use_dora true --train.output_dir dora-zero --train.max_steps 0 --parallel.tp_size 2 --train.precision fp32 \
  --train.gradient_accumulation_steps 2
succeeds 'they are joined' "$sft_convert" --merge base/model dora-zero/adapter merged-dora-zero
succeeds 'and change nothing' same_tensors base/model/model.safetensors merged-dora-zero/model.safetensors 1e-6
succeeds 'trained ones' "$sft_convert" --merge base/model dora/adapter merged-dora
succeeds 'do' other_tensors base/model/model.safetensors merged-dora/model.safetensors 1e-6
succeeds 'a run evaluates what was joined' run 2 lora.ini --lora.use_peft false --model.model_name_or_path merged-dora \
  --train.output_dir dora-joined --train.precision fp32 --data.eval_files 'held/*.h5' --train.max_steps 0
succeeds 'and the magnitudes beside their model' run 2 lora.ini --lora.use_dora true --train.output_dir dora-beside \
  --train.precision fp32 --data.eval_files 'held/*.h5' --checkpoint.resume_from_checkpoint dora/checkpoint-000004 \
  --parallel.dp_shard_size 2 --train.gradient_accumulation_steps 1
succeeds 'have the same loss' same_evaluation dora-joined dora-beside 1e-5
sed -i 's/"use_dora": true/"use_dora": false/' dora/adapter/adapter_config.json
refuses 3 'lora_magnitude_vector is none of LoRA' "$sft_convert" --merge base/model dora/adapter x

# Refusals
refuses 2 'save_hub_model = true. does not go with lora\.use_peft' "$sft" lora.ini --checkpoint.save_hub_model true
refuses 2 'names x_proj' "$sft" lora.ini --lora.lora_target_modules q_proj,x_proj
refuses 2 'lora\.lora_r = 0' "$sft" lora.ini --lora.lora_r 0
refuses 2 'two or three folders are needed' "$sft_convert" --merge whole
refuses 3 'base/model has no adapter' "$sft_convert" --merge base/model merged-none
succeeds "a run's folder names both" "$sft_convert" --merge whole merged-run
check 'and gives the same model' cmp merged/model.safetensors merged-run/model.safetensors
refuses 3 'adapter_config\.json' "$sft_convert" --merge base/model base/model x
sed -i 's/"use_rslora": false/"use_qalora": true/' whole/adapter/adapter_config.json
refuses 3 'use_qalora = true' "$sft_convert" --merge base/model whole/adapter x
sed -i 's/"use_qalora": true/"r": 5/; s/"r": 4/"old": 4/' whole/adapter/adapter_config.json
refuses 3 'does not fit the model' "$sft_convert" --merge base/model whole/adapter x
[[ ! -e x && ! -e x.tmp ]] || wrong 'a refused conversion left something'

finish_checks
