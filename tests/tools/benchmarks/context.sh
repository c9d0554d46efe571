#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Finds the longest row that a memory per rank has room for, on growing numbers of ranks that share every row (sp_size) and
# with each way of attending over it (sp_method), and how many tokens a second it trains at.
#
# usage: tests/tools/benchmarks/context.sh [BUILD_FOLDER [MEMORY_MIB [RANKS [STEP_TOKENS]]]] [-- --section.key VALUE ...]
#   e.g. tests/tools/benchmarks/context.sh build/release 64 "1 2 4 8" 256 -- --train.activation_checkpointing none
#
# A row is one document. Lengths are tried by plan (`sft --dry-run`): doubled from 1024 tokens until the plan is above
# MEMORY_MIB, then bisected down to STEP_TOKENS. The longest row is then trained on for four steps, and so is the longest one
# of the doubled lengths that has room everywhere; rates are those of the fastest step after the first. What follows `--`
# goes to every plan and every run.
#
# Writes BUILD_FOLDER/benchmark_context/context.csv, for postprocess/plot_context.py, and prints it as a table.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
places=()
while [[ $# -gt 0 && $1 != -- ]]; do
  places+=("$1")
  shift
done
keys=("${@:2}") # after the --
build=$(cd "${places[0]:-$here/../../../build/release}" && pwd)
limit_bytes=$((${places[1]:-64} * 1024 * 1024))
ranks_list=${places[2]:-1 2 4 8}
step_tokens=${places[3]:-256}
methods=(ring all_gather ulysses hybrid)
first_tokens=1024
if ((first_tokens % step_tokens != 0)); then
  echo "context.sh: error: STEP_TOKENS = $step_tokens is impossible ($first_tokens is no multiple of it): give a power of two" >&2
  exit 2
fi
scratch=$build/benchmark_context # kept, so that every run can be repeated
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none

cat >run.ini <<END
[model]
hidden_size = 128
num_hidden_layers = 2
num_attention_heads = 8
num_key_value_heads = 4
intermediate_size = 384
vocab_size = 272
tie_word_embeddings = true
[train]
per_device_train_batch_size = 1
activation_checkpointing = full
mlp_tile_tokens = 1024
max_steps = 4
logging_steps = 1
[checkpoint]
save_steps = 0
END

# prepare TOKENS: one row of one document; one byte is one token, and the document ends with one more
prepare() {
  [[ -d rows-$1 ]] || awk -v rest="$(($1 - 1))" 'BEGIN {
    line = "A line of text that says nothing, once more and again, so that a document has the length it needs. "
    printf "{\"text\": \""
    for (; rest >= length(line); rest -= length(line)) printf "%s", line
    printf "%s\"}\n", substr(line, 1, rest)
  }' | "$build/bin/sft-prepare" --input - --output "rows-$1" --max_length "$1" --packing false >/dev/null
}

# set_command RANKS METHOD TOKENS: what plan and run have in common, in `command`
set_command() {
  command=("$build/bin/sft" run.ini --data.train_files "rows-$3/*.h5" --parallel.sp_size "$1")
  if [[ $2 != - ]]; then command+=(--parallel.sp_method "$2"); fi
  if [[ $2 == hybrid ]]; then command+=(--parallel.ulysses_size "$(($1 / 2))"); fi
  command+=("${keys[@]}")
}

# planned RANKS METHOD TOKENS: bytes of the rank that needs the most
planned() {
  prepare "$3"
  set_command "$@"
  "${command[@]}" --dry-run --json --num_ranks "$1" |
    awk '/"total"/ { in_total = 1 } in_total && /"most_bytes"/ { gsub(/[^0-9]/, ""); print; in_total = 0 }'
}

# note RANKS METHOD TOKENS PLANNED_BYTES [PEAK_BYTES TOKENS_PER_SECOND]: a line of the table
note() {
  echo "$1,$2,$3,$limit_bytes,$4,$(($4 <= limit_bytes)),${5:-},${6:-}" >>probes.csv
}

# find_longest RANKS METHOD: notes the doubled lengths, the longest row and the one that is a step too long; nothing of a
# mesh that is refused
find_longest() {
  local low=0 high=$first_tokens middle bytes low_bytes=0 high_bytes
  if ! high_bytes=$(planned "$1" "$2" "$high"); then
    echo "$1 rank(s), $2: left out" >&2
    return
  fi
  while ((high_bytes <= limit_bytes)); do
    note "$1" "$2" "$high" "$high_bytes"
    low=$high low_bytes=$high_bytes high=$((2 * high))
    high_bytes=$(planned "$1" "$2" "$high")
  done
  note "$1" "$2" "$high" "$high_bytes"
  while ((high - low > step_tokens)); do
    middle=$(((low + high) / 2 / step_tokens * step_tokens))
    bytes=$(planned "$1" "$2" "$middle")
    if ((bytes <= limit_bytes)); then low=$middle low_bytes=$bytes; else high=$middle high_bytes=$bytes; fi
  done
  note "$1" "$2" "$high" "$high_bytes"
  if ((low > 0)); then note "$1" "$2" "$low" "$low_bytes"; fi
  echo "$1 rank(s), $2: longest $low tokens, $low_bytes bytes planned; $high need $high_bytes" >&2
}

# train RANKS METHOD TOKENS PLANNED_BYTES: notes the peak, and the rate of the fastest step after the first, in which the ops
# prepare themselves
train() {
  local name="run-$1-$2-$3" peak rate
  set_command "$1" "$2" "$3"
  mpirun -np "$1" "${command[@]}" --train.output_dir "$name" >"$name.log"
  read -r peak rate <<<"$(sed \
    's/^{"step":\([0-9]*\),.*"tokens_per_second":\([0-9.e+]*\),.*"peak_memory_bytes_max":\([0-9]*\).*$/\1 \2 \3/' \
    "$name/metrics.jsonl" | awk '$1 > 1 && $2 > rate { rate = $2 } { peak = $3 } END { print peak, rate }')"
  note "$@" "$peak" "$rate"
  echo "$1 rank(s), $2: $3 tokens trained, $rate tokens/s, $peak bytes at the most" >&2
}

: >probes.csv
for ranks in $ranks_list; do
  for method in "${methods[@]}"; do
    # One rank has nothing to exchange, and of two ranks a hybrid would be a ring or ulysses.
    if ((ranks == 1)); then method=-; fi
    if ((ranks < 4)) && [[ $method == hybrid ]]; then continue; fi
    find_longest "$ranks" "$method"
    if ((ranks == 1)); then break; fi
  done
done

# The longest row of each, and the longest of the doubled lengths that has room everywhere.
awk -F, -v first="$first_tokens" '
  $6 == 1 { id = $1 " " $2; if ($3 > longest[id]) longest[id] = $3; bytes[id, $3] = $5 }
  $6 == 0 { longest[$1 " " $2] += 0 }
  END {
    least = -1
    for (id in longest) if (least < 0 || longest[id] < least) least = longest[id]
    for (common = first; 2 * common <= least; common *= 2) {}
    for (id in longest) {
      if (longest[id] > 0) print id, longest[id], bytes[id, longest[id]]
      if (common < longest[id] && (id, common) in bytes) print id, common, bytes[id, common]
    }
  }' probes.csv | sort -k3n -k1n -k2 >to_train
while read -r ranks method tokens bytes <&3; do
  train "$ranks" "$method" "$tokens" "$bytes"
done 3<to_train

# Of several lines of one row the last one knows the most: it was trained on.
{
  echo "ranks,sp_method,row_tokens,limit_bytes,planned_bytes,fits,peak_bytes,tokens_per_second"
  awk -F, '{ line[$1 "," $2 "," $3] = $0 } END { for (id in line) print line[id] }' probes.csv | sort -t, -k1n -k2,2 -k3n
} >context.csv

awk -F, -v first="$first_tokens" '
  NR == 1 { next }
  { id = sprintf("%5d  %-10s", $1, $2) }
  !(id in longest) { order[++num] = id; longest[id] = 0 }
  $6 == 0 { if (!(id in too_long) || $3 < too_long[id]) too_long[id] = $3; next }
  {
    limit = $4
    rate[id, $3] = $8
    if ($3 > longest[id]) { longest[id] = $3; plan[id] = $5; peak[id] = $7 }
    if ($3 > most) most = $3
  }
  END {
    printf "%d MiB a rank. By length: tokens/s, fits (by plan, not trained) or OOM (the plan is above the memory).\n\n", limit / 1048576
    printf "%5s  %-10s  %10s  %9s  %11s  %8s", "ranks", "sp_method", "longest", "tokens/s", "planned MiB", "peak MiB"
    for (tokens = first; tokens <= 2 * most; tokens *= 2) printf "  %7d", tokens
    printf "\n"
    for (i = 1; i <= num; ++i) {
      id = order[i]
      printf "%s  %10d  %9.0f  %11.1f  %8.1f", id, longest[id], rate[id, longest[id]], plan[id] / 1048576, peak[id] / 1048576
      for (tokens = first; tokens <= 2 * most; tokens *= 2) {
        cell = tokens >= too_long[id] ? "OOM" : rate[id, tokens] == "" ? "fits" : sprintf("%.0f", rate[id, tokens])
        printf "  %7s", cell
      }
      printf "\n"
    }
  }' context.csv | tee context.txt
echo "wrote $scratch/context.csv"
