#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo for a pretrained model: a model folder and records -> packed shards -> 16 ranks train, are stopped, go on -> a
# loss curve, answers before and after, and a model folder that other programs load.
#
#   make demo MODEL=FOLDER_OR_NAME [DATA=FILE]       # installs and builds first
#   inputs/demo/model.sh FOLDER_OR_NAME [FILE]
#
# FILE: records in any shape that sft-prepare takes; without it, WordNet's animals as questions and answers. Writes
# data/demo_model/ and output/demo_model/, which it empties first. DEMO_STEPS, DEMO_MAX_LENGTH and DEMO_LEARNING_RATE
# change the size of the run.
set -euo pipefail
cd "$(dirname "$0")/../.."

model=$1 records=${2:-}
readonly ranks=16
readonly data=data/demo_model
readonly output=output/demo_model
readonly steps=${DEMO_STEPS:-60} max_length=${DEMO_MAX_LENGTH:-256} rate=${DEMO_LEARNING_RATE:-2e-5}

say() { printf '\n== %s\n' "$*"; }
show() {
  printf '$ %s\n' "$*"
  "$@"
}
fail() {
  printf 'demo: %s\n' "$*" >&2
  exit 1
}
last_step() {
  tail -n 1 "$output/metrics.jsonl" 2>/dev/null | sed -n 's/^{"step":\([0-9]*\),.*/\1/p'
}
python=python3
for candidate in /usr/bin/python3 python3; do
  if "$candidate" -c 'import matplotlib, h5py' 2>/dev/null; then python=$candidate && break; fi
done

say "1. Data: packed into rows of $max_length tokens, one document in twenty held back"
rm -rf "$data" "$output"
mkdir -p "$data" "$output"
if [[ -z $records ]]; then
  glosses=/usr/share/wordnet/data.noun
  [[ -r $glosses ]] || fail "$glosses is missing: sudo apt-get install wordnet-base"
  records=$data/animals.jsonl
  awk '$2 == "05" && $5 !~ /[A-Z]/' "$glosses" | awk -f inputs/demo/wordnet_to_jsonl.awk |
    sed -E 's/^\{"prompt": "(.*)\\n", "completion": "(.*)"\}$/{"prompt": [{"role": "user", "content": "\1"}], "completion": [{"role": "assistant", "content": "\2"}]}/' >"$records"
fi
show ./sft-prepare --input "$records" --output "$data" --model_name_or_path "$model" --max_length "$max_length" \
  --eval_split 0.05 --sp_size 2 --preview 1

run=(./sft-run -n "$ranks" --model.model_name_or_path "$model" --data.train_files "$data/train-*.h5"
  --data.eval_files "$data/eval-*.h5" --parallel.dp_replicate_size 2 --parallel.dp_shard_size 2 --parallel.sp_size 2
  --parallel.tp_size 2 --train.per_device_train_batch_size 2 --train.max_steps "$steps" --train.logging_steps 1
  --train.eval_steps $((steps / 4 > 0 ? steps / 4 : 1)) --train.eval_on_start true --train.output_dir "$output"
  --optimizer.learning_rate "$rate" --optimizer.lr_scheduler_type cosine --optimizer.warmup_steps $((steps / 10))
  --checkpoint.save_steps 0)

say "2. Training on $ranks ranks, dp_replicate x dp_shard x sp x tp = 2 x 2 x 2 x 2, stopped halfway"
printf '$ %s\n' "${run[*]}"
"${run[@]}" &
job=$!
trap 'kill $job 2>/dev/null || true' EXIT
while kill -0 $job 2>/dev/null && [[ $(last_step || true) -lt $((steps / 2)) ]]; do sleep 0.2; done
printf '$ kill %s   # of sft-run\n' $job
kill $job || true
status=0
wait $job || status=$?
trap - EXIT
[[ $status -eq 75 ]] || fail "the interrupted run ended with status $status, not 75"
echo "status 75: stopped, saved, run again to go on"

say "3. Going on from the checkpoint"
show "${run[@]}" --checkpoint.resume_from_checkpoint auto

say "4. What came of it"
"$python" postprocess/plot_loss.py "$output" --output "$output/loss.png"
mapfile -t prompts < <("$python" postprocess/first_questions.py "$records")
for prompt in "${prompts[@]}"; do
  printf '\n> %s\n' "$prompt"
  printf -- '--- before\n%s\n' "$(./sft-generate "$model" --chat --prompt "$prompt" --max_new_tokens 96 | sed 1d)"
  printf -- '--- after\n%s\n' "$(./sft-generate "$output/model" --chat --prompt "$prompt" --max_new_tokens 96 | sed 1d)"
done
cat <<END

  loss curves   $output/loss.png
  metrics       $output/metrics.jsonl
  model         $output/model    (hub format: transformers, vLLM and llama.cpp load it)
  try           ./sft-generate $output/model --chat --prompt 'Hello'
END
