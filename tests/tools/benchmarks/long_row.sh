#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a tiny model on rows of a million tokens: 16 ranks share every row (sp_size = 16), activations are computed again,
# the MLP works in tiles. Prints the plan of the memory and of the step, then the step itself and the highest memory of a rank.
#
# usage: tests/tools/benchmarks/long_row.sh [BUILD_FOLDER [TOKENS [DOCUMENT_TOKENS [RANKS]]]]
#
# The row is filled by documents of DOCUMENT_TOKENS, which is TOKENS over a number up to 1000 (sft-prepare packs as many
# records together). Attention costs as much as TOKENS x DOCUMENT_TOKENS.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../../build/release}" && pwd)
tokens=${2:-1048576} document_tokens=${3:-65536} ranks=${4:-16}
scratch=$build/long_row
rm -rf "$scratch"
mkdir -p "$scratch"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMP_NUM_THREADS=1

# One byte is one token, and every document ends with one more.
awk -v num="$((tokens / document_tokens))" -v length_="$((document_tokens - 1))" 'BEGIN {
  line = "A line of text that says nothing, once more and again, so that a document has the length it needs. "
  text = line
  while (length(text) < length_) text = text text
  text = substr(text, 1, length_)
  for (i = 0; i < num; ++i) printf "{\"text\": \"%s\"}\n", text
}' >"$scratch/text.jsonl"
"$build/bin/sft-prepare" --input "$scratch/text.jsonl" --output "$scratch/data" --tokenizer byte \
  --max_length "$tokens" --packing true
cat >"$scratch/run.ini" <<END
[model]
hidden_size = 64
num_hidden_layers = 4
num_attention_heads = 2
num_key_value_heads = 1
intermediate_size = 192
vocab_size = 272
[data]
train_files = $scratch/data/*.h5
[parallel]
sp_size = $ranks
[train]
per_device_train_batch_size = 1
max_steps = 1
logging_steps = 1
activation_checkpointing = full
mlp_tile_tokens = 4096
output_dir = $scratch/output
[checkpoint]
save_steps = 0
END
"$build/bin/sft" "$scratch/run.ini" --dry-run
mpirun -np "$ranks" "$build/bin/sft" "$scratch/run.ini"
tail -n 1 "$scratch/output/metrics.jsonl"
