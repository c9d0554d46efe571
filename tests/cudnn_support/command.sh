#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft --compile-attention with the real cuDNN, without a GPU: it compiles just those graphs that a run asks for. The run
# is the whole program on emulated GPUs, which names what it looks for like any other.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

real=$sft sft=$bin/sft_emulated
# shellcheck source=tests/shell/gpu_training.sh
source "$frame_folder/gpu_training.sh"
export SFT_EMULATED_COMPUTE_CAPABILITY=90
machines=$bin/../share/sft/machines.ini

make_tiny_run 4
keys=(--device.backend cuda --train.precision bf16 --device.attention cudnn --model.head_dim 64)

# compiles FOLDER OPTION...: the command, into the cache FOLDER.
compiles() {
  local cache=$1
  shift
  XDG_CACHE_HOME=$work/$cache succeeds "compiles into $cache" \
    "$real" tiny.ini --compile-attention --machine ours.ini --num_ranks 2 "${keys[@]}" "$@"
}
# asks FOLDER OPTION...: a run that compiles by itself what it asks for.
asks() {
  local cache=$1
  shift
  XDG_CACHE_HOME=$work/$cache SFT_EMULATED_CUDNN=$version succeeds "a run of $cache" "${train[@]}" "${keys[@]}" "$@" \
    --train.output_dir "output_$cache"
}
named() { find "$1/sft/attention" -type f -printf '%f\n' | sort; }

# The GPU as the emulation has it, and the version as the library says it.
SFT_EMULATED_CUDNN=92801 version=92801 asks first
multiprocessors=$(named first | sed -n '1s/.*-sm90-\([0-9]*\)-.*/\1/p')
# machine NAME: the section of machines.ini.
machine() { sed -n "/^\[$1\]/,/^\$/p" "$machines"; }
machine h200 | sed "s/^multiprocessors = .*/multiprocessors = $multiprocessors/" >ours.ini

compiles plain
version=$(named plain | sed -n '1s/^cudnn\([0-9]*\)-.*/\1/p')
check "a line says what was done" grep -qE '[0-9]+ graphs? of attention for h200' out
check "the table has both passes" test "$(grep -cE '^(forward|backward) .* compiled$' out)" -ge 2
check "each graph is stored" test "$(grep -cE ' compiled$' out)" -eq "$(named plain | wc -l)"
stored=$(named plain | wc -l)
compiles plain
check "the next time all are there" test "$(grep -cE ' was there$' out)" -eq "$stored"
check "and nothing is compiled" grep -q ': 0 compiled by' out

# Just what the run asks for; where a ring is cut, on every rank.
cut=(--parallel.dp_shard_size 1 --parallel.sp_size 2 --data.row_order endless)
same_graphs() { diff <(named "$1") <(named "$2"); }
asks of_plain
check "as a run asks" same_graphs plain of_plain
windows=(--model.num_hidden_layers 2 --model.sliding_window 5 --model.layer_types 'full_attention,sliding_attention')
compiles windows "${windows[@]}"
asks of_windows "${windows[@]}"
check "of layers with windows" same_graphs windows of_windows
compiles ring "${cut[@]}" --parallel.sp_method ring
asks of_ring "${cut[@]}" --parallel.sp_method ring
check "of a ring" same_graphs ring of_ring
compiles gathered "${cut[@]}" --parallel.sp_method all_gather
asks of_gathered "${cut[@]}" --parallel.sp_method all_gather
check "of gathered keys" same_graphs gathered of_gathered
compiles ulysses "${cut[@]}" --parallel.sp_method ulysses
asks of_ulysses "${cut[@]}" --parallel.sp_method ulysses
check "of ranks that exchange heads" same_graphs ulysses of_ulysses

# Errors.
alone=("$real" tiny.ini --compile-attention "${keys[@]}")
refuses 2 'none is named' "${alone[@]}"
refuses 2 'one of processors' "${alone[@]}" --machine cpu
refuses 2 'no graphs of attention to compile' "$real" tiny.ini --compile-attention --machine h200 --device.backend cuda
sed 's/^compute_capability = .*/compute_capability = 12.0/' ours.ini >new.ini
refuses 2 'its compute capability is 12\.0' "${alone[@]}" --machine new.ini
sed '/^multiprocessors/d' ours.ini >unknown.ini
refuses 2 'number of multiprocessors is not given' "${alone[@]}" --machine unknown.ini
: >no_folder
XDG_CACHE_HOME=$work/no_folder refuses 2 'cannot be kept' "${alone[@]}" --machine h200
finish_checks
