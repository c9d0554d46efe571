#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What --dry-run plans on one rank is what the ranks of a run then have, label by label; and a run that cannot fit in
# memory is refused before it takes any.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

make_data 60
"$sft_prepare" --input pairs.jsonl --output eval --max_length 44 --num_shards 2 >/dev/null
cat >run.ini <<INI
[model]
hidden_size = 96
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 160
vocab_size = 272
[data]
train_files = data/train-*.h5
eval_files = eval/train-*.h5
[train]
per_device_train_batch_size = 2
max_steps = 1
[checkpoint]
save_steps = 0
[device]
backend = cpu
INI

shown=(planned text real out)

# table_of FILE: the memory table in what sft printed, without the process, whose size is measured, and the total.
table_of() {
  sed -n '/memory per rank/,/^ *total/p' "$1" | sed 's/  */ /g; s/^ //; s/ $//' | grep -Ev '^(memory per rank|process|total) '
}

# table_of_json FILE: the same from --json, whose numbers are bytes.
table_of_json() {
  awk '
    function text(bytes,  unit) {
      if (bytes < 1024) return bytes " B"
      for (unit = 0; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024
      return sprintf(unit >= 3 ? "%.2f %s" : "%.1f %s", bytes, substr("KiBMiBGiBTiB", 3 * unit - 2, 3))
    }
    /"memory_per_rank"/ { inside = 1; next }
    !inside { next }
    /\{$/ { split($0, words, "\""); label = words[2] }
    /"least_bytes"/ { least = $2 + 0 }
    /"most_bytes"/ { most = $2 + 0 }
    /"most_rank"/ && label != "process" && label != "total" {
      print label " " text(least) " " text(most) (least == most ? "" : " rank " $2 + 0)
    }' "$1"
}

# 1. A plan and its run, on meshes of four ranks.
num_labels=9
for mesh in '1 4 1 1 bf16' '1 2 2 1 fp32 --zero_stage 1' '1 1 2 2 bf16 --zero_stage 2' '2 1 1 2 fp32' \
  '1 4 1 1 fp32 --reshard_after_forward 2 --fsdp_units parts' '1 2 1 2 bf16 --tp_sequence_parallel false' \
  '1 2 1 2 bf16 --train.offload_optimizer nvme --train.offload_parameters nvme --train.offload_folder offload' \
  '1 2 2 1 bf16 --num_hidden_layers 4 --activation_checkpointing full --activation_offload --offload_folder offload' \
  '2 2 1 1 pure_bf16 --optimizer.moments_dtype bf16' '1 2 1 2 bf16 --optimizer.optim muon' \
  '1 2 1 2 bf16 --optimizer.optim adamw_8bit' '2 1 1 2 fp32 --optimizer.optim adafactor' \
  '1 2 2 1 bf16 --optimizer.optim adafactor --train.offload_parameters nvme --train.offload_folder offload' \
  '2 2 1 1 bf16 --optimizer.optim adamw_8bit --train.offload_optimizer nvme --train.offload_folder offload' \
  '2 1 2 1 bf16 --optimizer.optim muon --train.offload_optimizer nvme --train.offload_folder offload' \
  '1 2 1 2 bf16 --optimizer.optim muon --train.offload_parameters nvme --train.offload_folder offload' \
  '2 2 1 1 bf16 --zero_stage 1 --checkpoint.save_steps 1' \
  '1 2 1 2 bf16 --checkpoint.save_steps 1 --train.offload_optimizer nvme --train.offload_folder offload' \
  '2 1 1 2 pure_bf16 --checkpoint.save_steps 1 --checkpoint.async false'; do
  read -r replicate shard sp tp precision more <<<"$mesh"
  read -ra more <<<"$more"
  words=(run.ini --parallel.dp_replicate_size "$replicate" --parallel.dp_shard_size "$shard" --parallel.sp_size "$sp"
    --parallel.tp_size "$tp" --train.precision "$precision" "${more[@]}")
  "$sft" "${words[@]}" --dry-run --json --num_ranks 4 >json
  "$sft" "${words[@]}" --dry-run --num_ranks 4 >text
  "$mpiexec" -np 4 "$sft" "${words[@]}" --train.output_dir "run-${mesh// /-}" >out 2>&1
  table_of_json json >planned
  table_of out >real
  check "mesh $mesh: the run has a table of all labels" test "$(wc -l <real)" = "$num_labels"
  check "mesh $mesh: the plan in JSON is what the run has" cmp planned real
  check "mesh $mesh: the plan as a table is what the run has" cmp <(table_of text) real
  check "mesh $mesh: the run says what it sends" grep -Eq '^ *sends +[a-z_]+ [0-9.]+ [KM]iB' out
  check "mesh $mesh: the run says what it saves as was planned" cmp <(grep -m 1 '^ *saves' text) <(grep -m 1 '^ *saves' out)
  check "mesh $mesh: as was planned" cmp <(grep '^ *sends' text) <(grep '^ *sends' out)
done
check "the plan knows the rows to evaluate on" grep -Eq '"num_eval_rows": [1-9]' json
check "the plan says when they are" grep -q 'evaluate  *every 10 steps and at the end' text
check "a plan makes no output folder" test ! -e output

# Nodes of some ranks: of each the first holds what they share, and all of a node are told together.
"$sft" run.ini --dry-run --parallel.dp_shard_size 4 --ranks_per_node 2 >nodes
check 'nodes of two ranks: they are told' grep -q 'on 2 nodes' nodes
check 'nodes of two ranks: their memory together' grep -Eq '^  all of a node ' nodes
"$sft" run.ini --dry-run --json --parallel.dp_shard_size 4 --ranks_per_node 2 >nodes.json
check 'nodes of two ranks: in JSON' grep -q '"ranks_per_node": 2' nodes.json

# 2. More ranks than anyone plans for.
refuses 2 'cannot plan for 2147483647 ranks \(--dry-run plans for 65536 at most' "$sft" run.ini --dry-run \
  --num_ranks 2147483647 --parallel.dp_shard_size auto
refuses 2 'cannot plan for 131072 ranks' "$sft" run.ini --dry-run --parallel.dp_shard_size 32768 \
  --parallel.dp_replicate_size 4

# 3. A run that no machine has the memory for: refused with the table and one error, on every number of ranks.
for ranks in 1 2; do
  status=0
  timeout 60 "$mpiexec" -np "$ranks" "$sft" run.ini --model.hidden_size 65536 --model.num_hidden_layers 1000 \
    --model.intermediate_size 262144 --model.num_attention_heads 512 --model.num_key_value_heads 512 \
    --train.output_dir huge >out 2>errors || status=$?
  check "$ranks ranks, too large: status 2" test "$status" = 2
  check "$ranks ranks, too large: the table is there once" test "$(grep -c 'memory per rank' out)" = 1
  check "$ranks ranks, too large: it has every label" test "$(table_of out | wc -l)" = "$num_labels"
  check "$ranks ranks, too large: one error" test "$(grep -c 'error:' errors)" = 1
  check "$ranks ranks, too large: it says why" grep -Eq "error: the run does not fit in memory: $ranks ranks? needs? .* on this node" errors
  check "$ranks ranks, too large: no plan is told that does not fit" test "$(grep -c 'which fits' errors)" = 0
  check "$ranks ranks, too large: nothing is written" test ! -e huge
done

finish_checks
