#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints how fast a training step is, as a share of oneDNN's own matmul, beside PyTorch where one is at hand, and how
# soon the first forward pass begins. Every figure comes with the command that repeats it.
#
# usage: [PYTHON=python-with-torch-and-transformers] tests/tools/benchmarks/run.sh [BUILD_FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../../build/release}" && pwd)
scratch=$build/benchmark_run  # kept, so that every command can be repeated
rm -rf "$scratch"
mkdir -p "$scratch"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none

# measure NAME COMMAND...: runs the command, shows its figures, and keeps them for `figure`
measure() {
  local name=$1
  shift
  echo "== $name"
  echo "   $*"
  "$@" >"$scratch/$name" 2>"$scratch/$name.errors" || { cat "$scratch/$name.errors" >&2; return 1; }
  sed 's/^/   /' "$scratch/$name"
}

# figure NAME KEY: the number that `measure NAME` printed for KEY
figure() { awk -v key="$2" '$1 == key { print $2 }' "$scratch/$1"; }

# compare TEXT KEY OURS THEIRS: the ratio of two figures
compare() {
  awk -v text="$1" -v a="$(figure "$3" "$2")" -v b="$(figure "$4" "$2")" \
    'BEGIN { printf "-> %s: %s / %s = %.2f\n", text, a, b, a / b }'
}

# startup RANKS MESH_OPTION...: seconds from mpirun to the line that announces the first forward pass, best of three
startup() {
  local ranks=$1 begin line
  shift
  local command=(mpirun -np "$ranks" "$build/bin/sft" "$scratch/startup.ini" "$@")
  echo "== start-up, $ranks rank(s)"
  echo "   ${command[*]}"
  for _ in 1 2 3; do
    begin=$EPOCHREALTIME
    "${command[@]}" 2>"$scratch/startup.errors" | while IFS= read -r line; do
      if [[ $line == *"first forward pass"* ]]; then echo "$begin $EPOCHREALTIME"; fi
    done || { cat "$scratch/startup.errors" >&2; return 1; }
  done | awk -v ranks="$ranks" '
    { seconds = $2 - $1; if (best == "" || seconds < best) best = seconds }
    END { printf "-> mpirun to the first forward pass on %d rank(s): %.2f s\n", ranks, best }'
}

write_startup_run() {
  for number in $(seq 200); do
    echo "{\"text\": \"Line $number of a short text; what it says does not matter for the time to start.\"}"
  done >"$scratch/startup.jsonl"
  "$build/bin/sft-prepare" --input "$scratch/startup.jsonl" --output "$scratch/data" --tokenizer byte \
    --max_length 512 --packing true >/dev/null
  cat >"$scratch/startup.ini" <<END
[model]
hidden_size = 512
num_hidden_layers = 8
num_attention_heads = 8
num_key_value_heads = 4
head_dim = 64
intermediate_size = 1408
vocab_size = 32000
tie_word_embeddings = true
[data]
train_files = $scratch/data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = 1
output_dir = $scratch/output
[checkpoint]
save_steps = 0
END
}

fsdp=(--dp_shard_size 4 --rows 1)
for precision in fp32 bf16; do
  measure "sft_$precision" "$build/bin/bench_step" --precision "$precision"
done
measure sft_fsdp mpirun -np 4 "$build/bin/bench_step" --precision fp32 "${fsdp[@]}"

write_startup_run
startup 1
startup 16 --parallel.dp_replicate_size 2 --parallel.dp_shard_size 2 --parallel.sp_size 2 --parallel.tp_size 2

if [[ -n ${PYTHON:-} ]]; then
  peer=$here/peer_torch.py
  for precision in fp32 bf16; do
    measure "eager_$precision" "$PYTHON" "$peer" --precision "$precision"
    measure "compiled_$precision" "$PYTHON" "$peer" --precision "$precision" --compile
    # Ours again, so that both sides have seen the same machine.
    measure "sft_$precision" "$build/bin/bench_step" --precision "$precision"
    compare "$precision tokens/s, sft over PyTorch eager" tokens_per_second "sft_$precision" "eager_$precision"
    compare "$precision tokens/s, sft over PyTorch compiled" tokens_per_second "sft_$precision" "compiled_$precision"
  done
  measure peer_fsdp env OMP_NUM_THREADS=1 "$PYTHON" -m torch.distributed.run --nproc-per-node 4 "$peer" --fsdp --rows 1 \
    --threads 1
  measure sft_fsdp mpirun -np 4 "$build/bin/bench_step" --precision fp32 "${fsdp[@]}"
  compare "4 ranks, tokens/s, sft over PyTorch FSDP2" tokens_per_second sft_fsdp peer_fsdp
else
  echo "PyTorch's figures are left out (PYTHON is not set): PYTHON=python3 $0, with torch and transformers"
fi
