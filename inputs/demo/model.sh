#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo for a pretrained model: a model folder and records -> packed shards -> 16 ranks train, are stopped, go on -> a
# loss curve, answers before and after, and a model folder that other programs load.
#
#   make demo MODEL=FOLDER_OR_NAME [DATA=FILE]       # installs and builds first
#   inputs/demo/model.sh FOLDER_OR_NAME [FILE]
#
# FILE: records in any shape that sft-prepare takes, or with the keys question and answer; without it, WordNet's animals
# as questions and answers. Some questions are kept out of the data; the model is asked them before and after. Writes
# data/demo_model/ and output/demo_model/, which it empties first. DEMO_STEPS, DEMO_MAX_LENGTH and DEMO_LEARNING_RATE
# change the size of the run.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly ranks=16 rows_per_step=8 max_epochs=3
readonly data=data/demo_model
readonly output=output/demo_model
readonly max_length=${DEMO_MAX_LENGTH:-512} rate=${DEMO_LEARNING_RATE:-3e-5}
readonly glosses=/usr/share/wordnet/data.noun

# shellcheck source=inputs/demo/common.sh
source inputs/demo/common.sh

# model_folder FOLDER_OR_NAME: the folder of a model; that of a name is in the hub cache.
model_folder() {
  local cache=${HF_HUB_CACHE:-${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub}
  local kept=$cache/models--${1//\//--}
  if [[ -e $1/config.json ]]; then
    echo "$1"
  elif [[ -r $kept/refs/main ]]; then
    echo "$kept/snapshots/$(<"$kept/refs/main")"
  else
    fail "$1 is no model folder, and no model of that name is in $cache: postprocess/fetch.py model $1"
  fi
}

# animals: records with the keys question and answer, from WordNet.
animals() {
  wordnet_animals "$glosses" |
    sed -E 's/^\{"prompt": "(.*)\\n", "completion": "(.*)"\}$/{"question": "\1", "answer": "\2"}/'
}

[[ $# -ge 1 && $# -le 2 ]] || fail "usage: inputs/demo/model.sh FOLDER_OR_NAME [FILE]"
begin_s=$SECONDS
model=$(model_folder "$1")
records=${2:-$data/animals.jsonl}
python=$(python_with_matplotlib)

say "1. Data: packed into rows of $max_length tokens; some questions, and other records for the loss, are kept out"
rm -rf "$data" "$output"
mkdir -p "$data" "$output"
[[ $# -eq 2 ]] || animals >"$records"
plain=()
if [[ ! -e $model/chat_template.jinja ]] && ! grep -qs '"chat_template"' "$model/tokenizer_config.json"; then
  plain=(--plain)
fi
"$python" inputs/demo/hold_out.py "$records" "$data" "${plain[@]}"
num_records=$(wc -l <"$data/train.jsonl")
show ./sft-prepare --input "$data/train.jsonl" --output "$data" --model_name_or_path "$model" --max_length "$max_length" \
  --eval_split "$((num_records > 2000 ? 100 : num_records / 20 + 1))" --preview 1 | tee "$output/prepare.txt"
num_rows=$(sed -n 's/^  rows  *\([0-9]*\) of .*/\1/p' "$output/prepare.txt")
most=$(((num_rows * max_epochs + rows_per_step - 1) / rows_per_step))
steps=${DEMO_STEPS:-$((most < 200 ? most : 200))}
logging=$((steps >= 40 ? 10 : 1))

say "2. The model as it came"
num_questions=$(wc -l <"$data/questions.jsonl")
echo "asking it $num_questions questions"
"$python" inputs/demo/ask.py "$model" "$data/questions.jsonl" "$output/before.jsonl"

run=(./sft-run -n "$ranks" --model.model_name_or_path "$model" --data.train_files "$data/train-*.h5"
  --data.eval_files "$data/eval-*.h5" --train.max_steps "$steps" --train.logging_steps "$logging"
  --train.eval_steps $(((steps + 4) / 5)) --train.eval_on_start true --train.output_dir "$output"
  --optimizer.learning_rate "$rate" --optimizer.lr_scheduler_type cosine --optimizer.warmup_steps $(((steps + 19) / 20))
  --checkpoint.save_steps 0)
# Both meshes have $rows_per_step rows a step; the second is for models whose heads tp_size = 2 does not divide.
mesh="2 x 2 x 2 x 2"
split=(--parallel.dp_replicate_size 2 --parallel.dp_shard_size 2 --parallel.sp_size 2 --parallel.tp_size 2
  --train.per_device_train_batch_size 2)
if ! ./sft "${run[@]:3}" "${split[@]}" --dry-run --num_ranks "$ranks" >/dev/null 2>&1; then
  mesh="2 x 4 x 2 x 1"
  split=(--parallel.dp_replicate_size 2 --parallel.dp_shard_size 4 --parallel.sp_size 2 --parallel.tp_size 1
    --train.per_device_train_batch_size 1)
fi
run+=("${split[@]}")

say "3. Training on $ranks ranks, dp_replicate x dp_shard x sp x tp = $mesh, stopped halfway"
run_and_stop "$output" $((steps / 2)) "${run[@]}"

say "4. Going on from the checkpoint"
show "${run[@]}" --checkpoint.resume_from_checkpoint auto

say "5. What came of it"
"$python" postprocess/plot_loss.py "$output" --output "$output/loss.png"
"$python" inputs/demo/ask.py "$output/model" "$data/questions.jsonl" "$output/after.jsonl"
"$python" inputs/demo/compare.py "$data/questions.jsonl" "$output/before.jsonl" "$output/after.jsonl" \
  "$output/metrics.jsonl"
cat <<END

  took          $((SECONDS - begin_s)) s
  loss curves   $output/loss.png
  answers       $output/before.jsonl and after.jsonl
  model         $output/model    (hub format: transformers, vLLM and llama.cpp load it)
  try           ./sft-generate $output/model$([[ ${#plain[@]} -gt 0 ]] || echo ' --chat')
END
