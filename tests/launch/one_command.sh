#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a model folder and a file of JSON lines to a trained, evaluated and exported model on 16 ranks with one command.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
# shellcheck source=tests/shell/tiny_hub.sh
source "$frame_folder/tiny_hub.sh"
export SFT_CACHE=$work/cache HF_HUB_OFFLINE=1

make_tiny_model
mkdir set
head -n 32 pairs.jsonl >set/train.jsonl
tail -n 8 pairs.jsonl >set/test.jsonl

launch=("$sft_launch" sft --model_name_or_path tiny/model --dataset_name set --accelerate_config zero3
  --num_processes 16 --max_length 64 --per_device_train_batch_size 1 --num_train_epochs 2 --learning_rate 1e-2
  --logging_steps 1 --use_cpu)

succeeds '--print' "${launch[@]}" --output_dir never --print
check 'it shows the .ini file' grep -qx 'zero_stage = 3' out
check 'and the data that it will evaluate on' grep -q '^eval_files = ' out
check 'and the commands' grep -q 'sft-run -n 16 never/launch.ini' out
check 'of two calls of sft-prepare' test "$(grep -c '/sft-prepare --input' out)" -eq 2
check 'and says which files it reads' grep -qx '# trains on 1 file: set/train.jsonl; left out 1 file: set/test.jsonl (split test)' out
check 'for evaluation, too' grep -q '^# evaluates on 1 file: set/test.jsonl; left out' out
check 'and does nothing' test ! -e never -a ! -e cache

succeeds 'one command' "${launch[@]}" --output_dir first
check 'has trained for two epochs of two steps' grep -q '"step":4,' first/metrics.jsonl
check 'evaluated' grep -q '"eval_loss"' first/metrics.jsonl
check 'and exported' test -s first/model/model.safetensors -a -s first/model/tokenizer.json
check 'a model that is better' python3 - <<'PY'
import json
lines = [json.loads(line) for line in open("first/metrics.jsonl")]
losses = [line["loss"] for line in lines if "loss" in line]
assert len(losses) == 4 and losses[-1] < losses[0], losses
PY

succeeds 'again' "${launch[@]}" --output_dir second
check 'with the same rows' test "$(grep -c 'Rows of the same files, tokenizer and options are there' out)" -eq 2
check 'and the same losses' \
  cmp <(grep -o '"loss":[^,]*' first/metrics.jsonl) <(grep -o '"loss":[^,]*' second/metrics.jsonl)
succeeds 'other options' "${launch[@]}" --output_dir third --packing --max_steps 1
check 'take other rows' test "$(grep -c 'are there' out)" -eq 0

succeeds 'shares of all steps' "${launch[@]}" --output_dir shares --save_steps 0.5
check 'are steps of the run' test -d shares/checkpoint-000002 -a -d shares/checkpoint-000004

# Before there is any data
dry=("$sft" --model_name_or_path tiny/model --dry-run --max_length 64 --num_rows 100 --num_ranks 16
  --per_device_train_batch_size 1)
succeeds 'a dry run without data' "${dry[@]}" --memory 80GB
check 'looks at the weights' grep -q 'tensors of the model are there' out
check 'counts steps' grep -q 'steps  *21 = 3 epochs' out
check 'says that it fits' grep -qE 'fits +yes: 16 ranks of a node take .*\(--memory\)' out
succeeds 'less memory' "${dry[@]}" --memory 1MB
check 'is too little' grep -qE 'fits +NO: ' out
succeeds 'a machine' "${dry[@]}" --machine h100x8x2
check 'gives hours' grep -qE 'run +21 steps of .* s on h100x8x2: .* hours' out
succeeds 'as JSON' "${dry[@]}" --machine h100x8x2 --json
check 'the same' python3 -c 'import json; plan = json.load(open("out")); assert plan["fits"]["fits"] and plan["run_s"] > 0'

# MLPs work on some tokens at a time where the memory suffices only so.
long=("$sft" --model_name_or_path tiny/model --dry-run --max_length 128k --num_rows 4 --num_ranks 1
  --per_device_train_batch_size 1 --train.activation_checkpointing full)
for tile in 0 8192; do
  succeeds "a long row, mlp_tile_tokens = $tile" "${long[@]}" --train.mlp_tile_tokens "$tile" --json
  python3 -c 'import json; print(json.load(open("out"))["memory_per_rank"]["total"]["most_bytes"])' >"needed-$tile"
done
between=$((($(cat needed-0) + $(cat needed-8192)) / 2))
check 'tiles take less memory' test "$(cat needed-8192)" -lt "$between"
succeeds 'between the two' "${long[@]}" --memory "$between"
check 'tiles are taken' grep -qE 'activations .*; MLP in tiles of 8192 tokens' out
check 'and why' grep -q 'mlp_tile_tokens = auto: MLPs work on 8192 tokens at a time' out
check 'and the run fits' grep -qE 'fits +yes' out
succeeds 'with more memory' "${long[@]}" --memory 80GB
check 'there are none' test "$(grep -c 'in tiles' out)" -eq 0
succeeds 'with less' "${long[@]}" --memory 1MB
check 'there are none either' test "$(grep -c 'in tiles' out)" -eq 0
succeeds 'none are wanted' "${long[@]}" --memory "$between" --train.mlp_tile_tokens 0
check 'so it does not fit' grep -qE 'fits +NO: ' out
cp -r tiny/model damaged
rm damaged/model.safetensors
refuses 3 'damaged' "$sft" --model_name_or_path damaged --dry-run --max_length 64
refuses 2 '--max_length and data.train_files are given' "$sft" first/launch.ini --dry-run --max_length 64

# Sizes that are auto
succeeds 'sizes that are auto' "${launch[@]}" --output_dir planned --tp_size auto --max_steps 1
check 'it says what was chosen' grep -q '^sizes: .*16 ranks\|^sizes: .*of .* legal ones' out
check 'the rows of a step stay' python3 - <<'PY'
import re
keys = dict(re.findall(r"^(\w+) = (.*)$", open("planned/resolved.ini").read(), re.M))
data_ranks = int(keys["dp_replicate_size"]) * int(keys["dp_shard_size"])
rows = int(keys["per_device_train_batch_size"]) * int(keys["gradient_accumulation_steps"]) * data_ranks
assert rows == 16, keys
PY
succeeds 'a profile that leaves all to the plan' "$sft_launch" sft --model_name_or_path tiny/model \
  --dataset_name set --accelerate_config auto --machine h100x8x2 --print
check 'for another machine' grep -q 'by the rates of h100x8x2' out
refuses 2 'sizes are auto and .max_length = none' "${launch[@]}" --output_dir never --tp_size auto --max_length none

# Tokens and a template that a run was trained with
printf '{%% for m in messages %%}{{ m.role }}: {{ m.content }}<|im_end|>{%% endfor %%}' >own.jinja
head -n 4 pairs.jsonl | sed -E 's/"prompt": ("[^"]*"), "completion": ("[^"]*")/"messages": [{"role": "user", "content": \1}, {"role": "assistant", "content": \2}]/' >chats.jsonl
marked=("$sft_launch" sft --model_name_or_path tiny/model --dataset_name chats.jsonl --num_processes 1 --max_length 64
  --use_cpu --max_steps 1 --eos_token '<|im_end|>' --chat_template_path own.jinja)
# has_markup FOLDER [config]: its tokenizer, and its settings where it has some, say what the run was trained with.
has_markup() {
  cmp own.jinja "$1/chat_template.jinja" || return
  python3 - "$@" <<'PY'
import json, sys
def read(name): return json.load(open(f"{sys.argv[1]}/{name}"))
tokenizer = read("tokenizer_config.json")
assert tokenizer["eos_token"] == "<|im_end|>" and tokenizer["pad_token"] == "<|im_end|>", tokenizer
if len(sys.argv) > 2:
    config, generation = read("config.json"), read("generation_config.json")
    assert config["eos_token_id"] == config["pad_token_id"] == 257, config
    assert generation["eos_token_id"] == [257, 7] and generation["top_p"] == 0.5, generation
PY
}
echo '{"eos_token_id": 7, "top_p": 0.5}' >tiny/model/generation_config.json
succeeds 'another eos and template' "${marked[@]}" --output_dir marked
succeeds 'are left in the model' has_markup marked/model config
succeeds 'and in the folder of a checkpoint' "$(dirname "$sft_launch")/sft-convert" marked from-marked
succeeds 'too' has_markup from-marked config
succeeds 'a run of adapters' "${marked[@]}" --output_dir low --use_peft
succeeds 'leaves them there' has_markup low/adapter
succeeds 'a merged model' "$(dirname "$sft_launch")/sft-convert" --merge tiny/model low/adapter merged
succeeds 'has them' has_markup merged config
rm tiny/model/generation_config.json

# Files of other programs
cat >recipe.yaml <<'YAML'
model_name_or_path: tiny/model
datasets:
- path: json
  data_files: {train: pairs.jsonl}
accelerate_config: zero2
max_length: 64
packing: true
use_peft: true
lora_r: 4
max_steps: 1
per_device_train_batch_size: 1
use_cpu: true
output_dir: adapters
YAML
succeeds 'a recipe of TRL' "$sft_launch" sft --config recipe.yaml --num_processes 2 --eval_split 0.2
check 'leaves adapters' test -s adapters/adapter/adapter_model.safetensors
check 'on the modules of PEFT' grep -q '^lora_target_modules = q_proj v_proj' adapters/launch.ini
check 'with the profile that it names' grep -qx 'zero_stage = 2' adapters/launch.ini

# The same files for sft itself
printf 'distributed_type: FSDP\nmixed_precision: "no"\nnum_processes: 2\nfsdp_config:\n  fsdp_version: 2\n' >own.yaml
rows=$(sed -n 's/^train_files = //p' first/launch.ini)
of_run=(--model_name_or_path tiny/model --data.train_files "$rows" --max_steps 1 --use_cpu
  --per_device_train_batch_size 1 --output_dir own)
succeeds 'sft --config FILE.yaml' "$mpiexec" -np 2 "$sft" --config own.yaml "${of_run[@]}"
check 'obeys it' grep -qx 'precision = fp32' own/resolved.ini
refuses 2 '1 rank was started, and 2 are asked for.*own.yaml:3' "$sft" --config own.yaml "${of_run[@]}"

# Fields under other names
mkdir gsm8k
printf '{"question": "What is %d + 1?", "answer": "It is %d."}\n' 1 2 2 3 3 4 4 5 >gsm8k/train.jsonl
questions=("$sft_launch" sft --model_name_or_path tiny/model --dataset_name gsm8k --num_processes 1 --max_length 64 --use_cpu
  --max_steps 1 --output_dir questions)
refuses 3 "'question' and 'answer', .*: give --rename question=prompt,answer=completion\\)" "${questions[@]}"
read -r -a flag <<<"$(grep -o -- '--rename [^)]*' err)"
succeeds 'the flag that the error gives' "${questions[@]}" "${flag[@]}"

# What cannot be done
refuses 2 'no model is given.*--model_name_or_path' "$sft_launch" sft --dataset_name set
refuses 2 'no data is given' "$sft_launch" sft --model_name_or_path tiny/model
refuses 3 'cannot find the data set org/none.*hf download --repo-type dataset org/none' \
  "$sft_launch" sft --model_name_or_path tiny/model --dataset_name org/none
refuses 3 'cannot find the model org/none.*fetch' "$sft_launch" sft --model_name_or_path org/none --dataset_name set
refuses 2 'no command .dpo' "$sft_launch" dpo --model_name_or_path tiny/model
refuses 2 'did you mean zero3' "$sft_launch" sft --accelerate_config zero33
refuses 2 '3 settings cannot be used' "$sft_launch" sft --model_name_or_path tiny/model --dataset_name set \
  --fp16 true --mixed_precision int8 --lerning_rate 3
refuses 2 '2 settings cannot be used' "${launch[@]}" --max_length -4 --eval_split 3 --lerning_rate 3 --output_dir never
refuses 2 '4 settings cannot be used' "${launch[@]}" --use_peft --lora_r 0 --adam_beta1 2 --output_dir never \
  --gradient_accumulation_steps 0 --early_stopping_patience -1
refuses 2 'cannot fill 16' "${launch[@]}" --output_dir never --sp_size 3
refuses 3 'it is the config.json of a model' \
  "$sft_launch" sft --model_name_or_path tiny/model --data_files tiny/model/config.json

# Signals
"$sft_launch" sft --model_name_or_path tiny/model --dataset_name set --num_processes 2 --max_length 64 --use_cpu \
  --max_steps 100000 --logging_steps 1 --output_dir stopped >out 2>err &
running=$!
await_steps stopped 3
kill -TERM "$running"
status=0
wait "$running" || status=$?
check 'a signal saves and stops' test "$status" -eq 75
check 'with a checkpoint' compgen -G 'stopped/checkpoint-*'
finish_checks
