#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft --check tries every group of the mesh and leaves nothing behind.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

cat >run.ini <<INI
[model]
hidden_size = 96
num_hidden_layers = 2
intermediate_size = 160
vocab_size = 272
num_attention_heads = 4
num_key_value_heads = 1
[data]
train_files = there/is/none-*.h5
[parallel]
dp_replicate_size = 2
dp_shard_size = 1
sp_size = 2
tp_size = 2
[device]
backend = cpu
INI

# calls_of GROUP: those that the table has a line for.
calls_of() { awk -v group="$1" '$1 == group { printf "%s ", $6 }' out; }

all='all_gather reduce_scatter_add all_reduce '
succeeds 'a mesh of 8 ranks' "$mpiexec" -np 8 "$sft" --check run.ini
check 'it says what is right' grep -qx 'every collective is right in dp_replicate, fsdp, sp, tp, kv_replicas' out
for group in dp_replicate fsdp tp kv_replicas; do
  check "the speed of $group" test "$(calls_of "$group")" = "$all"
done
check 'the speed of sp' test "$(calls_of sp)" = "${all}exchange "
check 'products and copies' grep -qE '^ *(bf16|float32) product +[0-9.]+ GFLOP/s  slowest: rank [0-7] with ' out
check 'nothing is left behind' test ! -e output

succeeds 'neighbours keep units together' "$mpiexec" -np 4 "$sft" --check run.ini --parallel.dp_replicate_size 1 \
  --parallel.dp_shard_size 4 --parallel.sp_size 1 --parallel.tp_size 1 --parallel.reshard_after_forward 2
check 'units are gathered there, and nothing is summed' test "$(calls_of reshard)" = 'all_gather '
check 'the speed of fsdp beside it' test "$(calls_of fsdp)" = "$all"

succeeds 'a single rank' "$sft" run.ini --check --parallel.dp_replicate_size 1 --parallel.sp_size 1 --parallel.tp_size 1
check 'it has nothing to send' grep -qx 'one rank: there are no collectives to check' out
refuses 2 'the mesh does not fit the world' "$mpiexec" -np 2 "$sft" run.ini --check
finish_checks
