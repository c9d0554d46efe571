# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Runs of sft in tests: their data and configurations, their losses, and what differs between two. frame.sh sources it.

# make_pairs COUNT: pairs.jsonl, records of a prompt and its completion.
make_pairs() {
  local i
  for i in $(seq "$1"); do
    printf '{"prompt": "What is number %d?\\n", "completion": "the one after %d"}\n' "$i" $((i - 1))
  done >pairs.jsonl
}

# make_data COUNT [WORD...]: pairs.jsonl, and its rows in the folder `data`. The words go to sft-prepare.
make_data() {
  make_pairs "$1"
  "${sft_prepare:?}" --input pairs.jsonl --output data --max_length 48 "${@:2}" >/dev/null
}

# tiny_model [KEY=VALUE...]: an [model] section of a model that trains in milliseconds, for the byte tokenizer, with these
# keys changed or added.
tiny_model() {
  local key
  echo '[model]'
  for key in hidden_size=32 num_hidden_layers=1 num_attention_heads=4 num_key_value_heads=2 intermediate_size=32 \
    vocab_size=272; do
    if [[ " $*" != *" ${key%=*}="* ]]; then echo "${key/=/ = }"; fi
  done
  for key in "$@"; do echo "${key/=/ = }"; done
}

# short_run MAX_STEPS [LINE...]: sections [data], [train] and [device] of a run that trains on `data` on CPUs, one row a rank
# and step. The lines are more of [train].
short_run() {
  cat <<INI
[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = $1
precision = fp32
INI
  if [[ $# -gt 1 ]]; then printf '%s\n' "${@:2}"; fi
  printf '[device]\nbackend = cpu\n'
}

# model_run FOLDER: the sections behind [model] of a run that only leaves the model in FOLDER/model.
model_run() {
  short_run 0 "output_dir = $1"
  printf '[checkpoint]\nsave_hub_model = true\n'
}

# make_run FILE RECORDS MAX_STEPS [WORD...]: the configuration FILE of a tiny model, every step of which is logged, and
# `data` for it by sft-prepare with the words. Sections [checkpoint], [optimizer] and [parallel] may follow.
make_run() {
  make_data "$2" "${@:4}"
  tiny_model >"$1"
  short_run "$3" 'logging_steps = 1' >>"$1"
}

# run RANKS WORD...: sft on so many ranks.
run() { "${mpiexec:?}" -np "$1" "${sft:?}" "${@:2}"; }

# await_steps FOLDER COUNT: returns when the run there has logged that many steps.
await_steps() { await has_steps "$1" "$2"; }
has_steps() { [[ -e $1/metrics.jsonl && $(wc -l <"$1/metrics.jsonl") -ge $2 ]]; }

# losses FOLDER: of every step that the run there has logged, a line each.
losses() { sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }

# losses_by_step FOLDER: step and loss, a line each; a step that was repeated with the same loss is one line.
losses_by_step() { sed -nE 's/^\{"step":([0-9]+),.*"loss":([^,]+),.*/\1 \2/p' "$1/metrics.jsonl" | sort -n -u; }

# numbers_of FOLDER: steps, losses and gradient norms, without what depends on clock and memory.
numbers_of() { grep -o '"step":[0-9]*\|"loss":[^,]*\|"grad_norm":[^,]*' "$1/metrics.jsonl" || true; }

# most_bytes LABEL: a rank's most bytes of the label, in the JSON of a dry run on standard input.
most_bytes() { python3 -c 'import json, sys; print(json.load(sys.stdin)["memory_per_rank"][sys.argv[1]]["most_bytes"])' "$1"; }

# with_tensors WORD...: Python with the modules of this folder, as tensor_files; the program comes on its standard input.
with_tensors() { PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=${frame_folder:?} "${python:-python3}" - "$@"; }

# same_losses RUN RUN TOLERANCE: losses of all steps, relative to the second. other_losses: they differ by more.
same_losses() {
  paste <(losses "$1") <(losses "$2") | awk -v tolerance="$3" '
    NF != 2 { bad = 2; exit }
    { n += 1; d = $1 - $2; if (d < 0) d = -d; of = $2 < 0 ? -$2 : $2; if (!(d <= tolerance * of)) differ = 3 }
    END { exit bad ? bad : n < 2 ? 2 : differ }'
}
other_losses() { differ_by same_losses "$@"; }

# same_evaluation RUN RUN TOLERANCE: the last losses of evaluation.
same_evaluation() { "${frame_folder:?}/compare.py" evaluation "$@"; }

# same_tensors FILE FILE [TOLERANCE]: safetensors files with the same tensors; to the bit without a tolerance.
# other_tensors: they differ.
same_tensors() { "${frame_folder:?}/compare.py" tensors "$@"; }
other_tensors() { differ_by same_tensors "$@"; }

# differ_by COMMAND...: one of these comparisons finds a difference, which is no error of its own.
differ_by() {
  local status=0
  "$@" >/dev/null || status=$?
  [[ $status -eq 3 ]]
}
