#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints how fast unpacked rows of mixed lengths are trained on beside packed rows of the same documents, at equal tokens
# per step but for less than half a row: their padding is not computed, so both should be as fast.
#
# usage: tests/tools/benchmarks/unpacked.sh [BUILD_FOLDER [ROUNDS [PRECISION]]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../../build/release}" && pwd)
rounds=${2:-3}
precision=${3:-fp32}
scratch=$build/benchmark_unpacked  # kept, so that every run can be repeated
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none

# Texts of about 10 to 500 bytes, most of them short, as those of conversations are.
awk 'BEGIN {
  srand(7)
  for (i = 0; i < 4000; ++i) {
    words = int(2 + exp(1.2 + 2.6 * rand()))
    text = ""
    for (w = 0; w < words; ++w) text = text sprintf("%c%c%c%c ", 97 + rand() * 26, 97 + rand() * 26, 97 + rand() * 26, 97 + rand() * 26)
    printf "{\"text\": \"%s\"}\n", substr(text, 1, 500)
  }
}' >texts.jsonl
"$build/bin/sft-prepare" --input texts.jsonl --output packed --max_length 512 --packing true --json >packed.json
"$build/bin/sft-prepare" --input texts.jsonl --output unpacked --max_length 512 --packing false --json >unpacked.json

num_rows() { awk '/"num_rows"/ { gsub(/[^0-9]/, ""); print; exit }' "$1"; }
packed_rows=4
# As many unpacked rows as have the tokens of the packed ones: both files hold the same documents.
unpacked_rows=$(((packed_rows * $(num_rows unpacked.json) + $(num_rows packed.json) / 2) / $(num_rows packed.json)))

cat >run.ini <<INI
[model]
hidden_size = 256
num_hidden_layers = 4
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 768
vocab_size = 272
[train]
precision = $precision
max_steps = 16
logging_steps = 1
[checkpoint]
save_steps = 0
[device]
backend = cpu
INI

# speed KIND ROWS RANKS OPTION...: tokens a second of all steps after the first four, in which the ops prepare themselves
speed() {
  local kind=$1 rows=$2 ranks=$3 out="$1-$3"
  shift 3
  rm -rf "$out"
  mpirun -np "$ranks" "$build/bin/sft" run.ini --data.train_files "$kind/*.h5" --train.output_dir "$out" \
    --train.per_device_train_batch_size "$rows" --checkpoint.resume_from_checkpoint none "$@" >"$out.log"
  sed 's/.*"step":\([0-9]*\),.*"step_num_tokens":\([0-9]*\),.*"step_time_s":\([0-9.e-]*\).*/\1 \2 \3/' "$out/metrics.jsonl" |
    awk '$1 > 4 { tokens += $2; seconds += $3 } END { printf "%.0f %.0f", tokens / seconds, tokens / (NR - 4) }'
}

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# compare NAME RANKS OPTION...
compare() {
  local name=$1 ranks=$2
  shift 2
  : >ratios
  for _ in $(seq "$rounds"); do
    read -r packed packed_tokens <<<"$(speed packed "$packed_rows" "$ranks" "$@")"
    read -r unpacked unpacked_tokens <<<"$(speed unpacked "$unpacked_rows" "$ranks" "$@")"
    printf '%-14s packed %6s tokens/s, %5s a step; unpacked %6s tokens/s, %5s a step\n' \
      "$name" "$packed" "$packed_tokens" "$unpacked" "$unpacked_tokens"
    awk -v a="$unpacked" -v b="$packed" 'BEGIN { print a / b }' >>ratios
  done
  printf -- '-> %s: unpacked / packed = %.2f (median of %d)\n' "$name" "$(median <ratios)" "$rounds"
}

compare "1 rank" 1
compare "dp_shard 4" 4 --parallel.dp_shard_size 4
compare "sp 2" 2 --parallel.sp_size 2
