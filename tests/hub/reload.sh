#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run leaves is what it had at its end: `output_dir/model`, its checkpoint, and what sft-convert makes of it have the
# run's last evaluation loss to the last bit, in a new run on the same mesh.
#
#   reload.sh NUM_RANKS MESH...     MESH: --parallel.tp_size 2 ...
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
num_ranks=$1 mesh=("${@:2}")

make_data 60 --eval_split 13 2>/dev/null

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
{
  tiny_model num_hidden_layers=2 intermediate_size=48 vocab_size=273 qk_norm=true attention_bias=true attention_output_bias=true \
    tie_word_embeddings=true initializer_range=0.2
  cat run.ini
} >start.ini

# evaluations NAME WORD...: leaves the folder NAME and prints, of each evaluation, step and loss with all bits.
evaluations() {
  local name=$1
  shift
  run "$num_ranks" "$@" "${mesh[@]}" --train.output_dir "$name" >"$name.txt" 2>&1 || {
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
# loss_of STEP LINES
loss_of() { awk -v step="$1" '$1 == step { print $2 }' <<<"$2"; }

for precision in fp32 bf16; do
  options=(--train.precision "$precision")
  evaluations "first-$precision" start.ini "${options[@]}" --checkpoint.save_hub_model true >/dev/null
  # A run from a model folder, as users have it: what it leaves is compared with its own last evaluation.
  from_model=(run.ini "${options[@]}" --model.model_name_or_path)
  trained=$(evaluations "trained-$precision" "${from_model[@]}" "first-$precision/model" --train.eval_on_start true)
  last=$(loss_of 5 "$trained")
  other_text "$precision: it has learned something" "$(loss_of 0 "$trained")" "$last"

  reloaded=$(evaluations "reloaded-$precision" "${from_model[@]}" "trained-$precision/model" --train.max_steps 0)
  same_text "$precision: the folder that it left" "$(loss_of 0 "$reloaded")" "$last"
  reloaded=$(evaluations "again-$precision" "${from_model[@]}" "trained-$precision/model" --train.max_steps 1 \
    --optimizer.learning_rate 0 --train.eval_on_start true)
  same_text "$precision: before a step" "$(loss_of 0 "$reloaded")" "$last"
  same_text "$precision: after a step that changes nothing" "$(loss_of 1 "$reloaded")" "$last"
  reloaded=$(evaluations "checkpoint-$precision" "${from_model[@]}" "trained-$precision" --train.max_steps 0)
  same_text "$precision: its checkpoint" "$(loss_of 0 "$reloaded")" "$last"

  "$sft_convert" "trained-$precision" "float32-$precision" --dtype float32 --max_shard_size 8KB >/dev/null 2>&1
  reloaded=$(evaluations "from-float32-$precision" "${from_model[@]}" "float32-$precision" --train.max_steps 0)
  same_text "$precision: converted to float32, in several files" "$(loss_of 0 "$reloaded")" "$last"

  # A bf16 run computes with its weights rounded to bf16, and those are what a bfloat16 folder holds.
  "$sft_convert" "trained-$precision" "bfloat16-$precision" --dtype bfloat16 >/dev/null 2>&1
  reloaded=$(evaluations "from-bfloat16-$precision" "${from_model[@]}" "bfloat16-$precision" --train.max_steps 0)
  if [[ $precision == bf16 ]]; then
    same_text "$precision: converted to bfloat16" "$(loss_of 0 "$reloaded")" "$last"
  else
    other_text "$precision: rounded to bfloat16" "$(loss_of 0 "$reloaded")" "$last"
  fi
done
finish_checks
