#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints what planning runs of Llama 3's sizes on many ranks takes: processor time and memory of `sft --dry-run`, and what
# the plan says of a save.
#
# usage: tests/tools/benchmarks/plans.sh [BUILD_FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../../build/release}" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

for i in $(seq 400); do
  printf '{"prompt": "What is number %d of so many?\\n", "completion": "the one after %d"}\n' "$i" $((i - 1))
done >pairs.jsonl
"$build/bin/sft-prepare" --input pairs.jsonl --output data --max_length 4096 >/dev/null

# plan NAME HIDDEN LAYERS HEADS INTERMEDIATE REPLICAS SHARDS TP
plan() {
  local ranks=$(($6 * $7 * $8))
  cat >run.ini <<INI
[model]
hidden_size = $2
num_hidden_layers = $3
num_attention_heads = $4
num_key_value_heads = 8
intermediate_size = $5
vocab_size = 128256
[data]
train_files = data/train-*.h5
[parallel]
dp_replicate_size = $6
dp_shard_size = $7
tp_size = $8
[train]
max_steps = 100
activation_checkpointing = full
[device]
backend = cuda
INI
  LC_ALL=C /usr/bin/time -f '%U %S %M' -o time.txt "$build/bin/sft" run.ini --dry-run --json --num_ranks $ranks >plan.json 2>error.txt ||
    { cat error.txt; exit 1; }
  awk -v name="$1" -v mesh="$6 x $7 x tp $8" -v ranks=$ranks '
    FILENAME == "time.txt" { if (NF == 3) { cpu = $1 + $2; rss = $3 / 1024 } next }
    /"checkpoint_bytes"/ { gsub(/[^0-9]/, ""); bytes = $0 }
    END { printf "| %s | %s | %d | %.2f | %.0f | %.2f |\n", name, mesh, ranks, cpu, rss, bytes / 1e12 }' time.txt plan.json
}

echo '| model | replicas x shards x tp | ranks | CPU s | RSS MiB | checkpoint TB |'
echo '|---|---|--:|--:|--:|--:|'
plan 8B 4096 32 32 14336 1 512 1
plan 8B 4096 32 32 14336 1 4096 1
plan 8B 4096 32 32 14336 1 16384 1
plan 70B 8192 80 64 28672 8 64 1
plan 70B 8192 80 64 28672 1 512 1
plan 405B 16384 126 128 53248 1 512 8
plan 405B 16384 126 128 53248 1 16384 1
plan 405B 16384 126 128 53248 32 64 8
