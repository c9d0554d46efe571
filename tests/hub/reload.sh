#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run leaves is what it had at its end: `output_dir/model`, its checkpoint, and what sft-convert makes of it have the
# run's last evaluation loss to the last bit, in a new run on the same mesh.
#
#   reload.sh MPIEXEC SFT SFT_PREPARE SFT_CONVERT NUM_RANKS MESH...     MESH: --parallel.tp_size 2 ...
set -euo pipefail

mpiexec=$1 sft=$2 sft_prepare=$3 sft_convert=$4 num_ranks=$5
mesh=("${@:6}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

for i in $(seq 60); do
  printf '{"prompt": "What is number %d?\\n", "completion": "the one after %d"}\n' "$i" $((i - 1))
done >pairs.jsonl
"$sft_prepare" --input pairs.jsonl --output data --max_length 48 --eval_split 13 >/dev/null 2>&1

# Vectors, biases and an odd vocabulary; the rate is high so that few numbers stay as they were.
cat >run.ini <<INI
[data]
train_files = data/train-*.h5
eval_files = data/eval-*.h5
[train]
per_device_train_batch_size = 2
max_steps = 5
eval_steps = 0
[optimizer]
learning_rate = 1e-2
[device]
backend = cpu
INI
cat >start.ini - run.ini <<INI
[model]
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 48
vocab_size = 273
qk_norm = true
attention_bias = true
attention_output_bias = true
tie_word_embeddings = true
initializer_range = 0.2
INI

# run NAME WORD...: leaves the folder NAME and prints, of each evaluation, step and loss with all bits.
run() {
  local name=$1
  shift
  "$mpiexec" -np "$num_ranks" "$sft" "$@" "${mesh[@]}" --train.output_dir "$name" >"$name.txt" 2>&1 || {
    cat "$name.txt" >&2
    return 1
  }
  python3 - "$name/metrics.jsonl" <<'PYTHON'
import json, sys
for line in map(json.loads, open(sys.argv[1])):
    if "eval_loss" in line:
        print(line["step"], line["eval_loss"].hex())
PYTHON
}
failures=0
# compare NAME same|other A B
compare() {
  local found=other
  [[ $3 == "$4" ]] && found=same
  if [[ $found == "$2" ]]; then
    printf 'ok    %s: %s %s\n' "$1" "$3" "$4"
  else
    failures=$((failures + 1))
    printf 'WRONG %s: %s and %s should be %s\n' "$1" "$3" "$4" "$2"
  fi
}
# loss_of STEP LINES
loss_of() { awk -v step="$1" '$1 == step { print $2 }' <<<"$2"; }

for precision in fp32 bf16; do
  options=(--train.precision "$precision")
  run "first-$precision" start.ini "${options[@]}" --checkpoint.save_hub_model true >/dev/null
  # A run from a model folder, as users have it: what it leaves is compared with its own last evaluation.
  from_model=(run.ini "${options[@]}" --model.model_name_or_path)
  trained=$(run "trained-$precision" "${from_model[@]}" "first-$precision/model" --train.eval_on_start true)
  last=$(loss_of 5 "$trained")
  compare "$precision: it has learned something" other "$(loss_of 0 "$trained")" "$last"

  reloaded=$(run "reloaded-$precision" "${from_model[@]}" "trained-$precision/model" --train.max_steps 0)
  compare "$precision: the folder that it left" same "$(loss_of 0 "$reloaded")" "$last"
  reloaded=$(run "again-$precision" "${from_model[@]}" "trained-$precision/model" --train.max_steps 1 \
    --optimizer.learning_rate 0 --train.eval_on_start true)
  compare "$precision: before a step" same "$(loss_of 0 "$reloaded")" "$last"
  compare "$precision: after a step that changes nothing" same "$(loss_of 1 "$reloaded")" "$last"
  reloaded=$(run "checkpoint-$precision" "${from_model[@]}" "trained-$precision" --train.max_steps 0)
  compare "$precision: its checkpoint" same "$(loss_of 0 "$reloaded")" "$last"

  "$sft_convert" "trained-$precision" "float32-$precision" --dtype float32 --max_shard_size 8KB >/dev/null 2>&1
  reloaded=$(run "from-float32-$precision" "${from_model[@]}" "float32-$precision" --train.max_steps 0)
  compare "$precision: converted to float32, in several files" same "$(loss_of 0 "$reloaded")" "$last"

  # A bf16 run computes with its weights rounded to bf16, and those are what a bfloat16 folder holds.
  "$sft_convert" "trained-$precision" "bfloat16-$precision" --dtype bfloat16 >/dev/null 2>&1
  reloaded=$(run "from-bfloat16-$precision" "${from_model[@]}" "bfloat16-$precision" --train.max_steps 0)
  if [[ $precision == bf16 ]]; then
    compare "$precision: converted to bfloat16" same "$(loss_of 0 "$reloaded")" "$last"
  else
    compare "$precision: rounded to bfloat16" other "$(loss_of 0 "$reloaded")" "$last"
  fi
done
exit "$((failures > 0))"
