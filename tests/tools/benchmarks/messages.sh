#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Counts what a rank asks of MPI before the first step, in a step and for a save: collectives of the whole world, of
# smaller groups, and messages, with memory that the ranks of a node share and without; and opens of the data's shards.
#
# usage: tests/tools/benchmarks/messages.sh [BUILD_FOLDER [RANKS...]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../../build/release}" && pwd)
shift || true
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none

mpicc -O2 -shared -fPIC -o count.so "$here/count_mpi.c"
for i in $(seq 200); do
  printf '{"prompt": "What is number %d of so many?\\n", "completion": "the one after %d"}\n' "$i" $((i - 1))
done >pairs.jsonl
"$build/bin/sft-prepare" --input pairs.jsonl --output data --max_length 128 >/dev/null
cat >run.ini <<'INI'
[model]
hidden_size = 64
num_hidden_layers = 4
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 128
vocab_size = 272
[data]
train_files = data/train-*.h5
[train]
logging_steps = 1000
gradient_accumulation_steps = 2
[device]
backend = cpu
INI

# calls RANKS STEPS SAVE_STEPS BACKING: "world small messages" of rank 0
calls() {
  rm -rf out
  OMPI_MCA_osc_sm_backing_directory=$4 mpirun -np "$1" -x LD_PRELOAD="$scratch/count.so" "$build/bin/sft" run.ini \
    --parallel.dp_shard_size "$1" --train.max_steps "$2" --checkpoint.save_steps "$3" --train.output_dir out 2>&1 |
    sed -n 's/^mpi-calls //p'
}

echo '| ranks | memory | world, start and end | small groups, start and end | world a step | small groups a step | messages a step | world a save |'
echo '|--:|---|--:|--:|--:|--:|--:|--:|'
for ranks in "${@:-4}"; do
  for backing in /dev/shm "$scratch"; do
    read -r world small messages <<<"$(calls "$ranks" 2 1000 "$backing")"
    read -r world2 small2 messages2 <<<"$(calls "$ranks" 12 1000 "$backing")"
    read -r world3 _ _ <<<"$(calls "$ranks" 12 3 "$backing")"
    awk -v r="$ranks" -v b="$([ "$backing" = /dev/shm ] && echo shared || echo messages)" -v w="$world" -v s="$small" -v m="$messages" \
      -v w2="$world2" -v s2="$small2" -v m2="$messages2" -v w3="$world3" 'BEGIN {
        printf "| %d | %s | %d | %d | %.1f | %.1f | %.1f | %.1f |\n", r, b, w - (w2 - w) / 5, s - (s2 - s) / 5,
          (w2 - w) / 10, (s2 - s) / 10, (m2 - m) / 10, (w3 - w2) / 3 }'
  done
done
