#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-inspect status and sft-inspect --diff, the same in Python, and the documented recipes with HDF5's tools: of a run
# that is alive, stopped, killed and finished, and of checkpoints of two formats, model folders and adapters.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

python=
for candidate in python3 /usr/bin/python3; do
  "$candidate" -c 'import h5py' 2>/dev/null && { python=$candidate; break; }
done
[[ -n $python ]] || { echo "no python3 with h5py: run \`make deps\`"; exit 1; }
command -v h5dump >/dev/null || { echo "no h5dump: run \`make test-deps\`"; exit 1; }
in_python=("$python" "$source_folder/postprocess/sft_inspect.py")

make_data 40
cat >run.ini <<INI
[model]
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 32
vocab_size = 272
[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = 4
output_dir = output
logging_steps = 1
[optimizer]
learning_rate = 0.001
[checkpoint]
save_steps = 2
[device]
backend = cpu
INI

# says FOLDER STATE...: both programs say that its run is in one of these states.
says() {
  local folder=$1 state found
  shift
  for command in "$sft_inspect status $folder --json" "${in_python[*]} status $folder"; do
    $command >out 2>err || true
    found=$(sed -n 's/^ *"state": "\(.*\)",\{0,1\}$/\1/p' out)
    for state; do [[ $found == "$state" ]] && break; done
    if [[ $found == "$state" ]]; then right "$folder is $found"; else wrong "$command: '$found', not one of: $*"; fi
  done
}

# A run that ends
"$mpiexec" -np 2 "$sft" run.ini >/dev/null
says output finished
prints 0 '^state +ended: done after step 4 of 4$' "$sft_inspect" status output
prints 0 '^step +4 of 4, 100\.0 %; epoch 0\.2$' "$sft_inspect" status output
prints 0 '^last save +output/checkpoint-000004, step 4, ' "$sft_inspect" status output
prints 0 '"num_steps": 4' "$sft_inspect" status output --json
mkdir empty
says empty never_started
prints 2 'status without a folder' "$sft_inspect" status
prints 3 'there is no such folder' "$sft_inspect" status nowhere
prints 3 'there is no folder nowhere' "${in_python[@]}" status nowhere
prints 2 'status with an option of checkpoints' "$sft_inspect" status output --verify

# One that is alive: it trains, is suspended, is killed; nothing of its folder changes when it is looked at.
"$sft" run.ini --parallel.dp_shard_size 1 --train.max_steps 1000000 --train.output_dir alive \
  --checkpoint.save_steps 1000000 >/dev/null 2>&1 &
run=$!
await grep -sq '"step":3,' alive/metrics.jsonl
says alive training
prints 0 "^held by +process $run on host $(hostname) since 20" "$sft_inspect" status alive
prints 0 '^time left +[0-9]' "$sft_inspect" status alive
prints 0 '^last save +none$' "$sft_inspect" status alive
kill -STOP "$run"
sleep 0.2
find alive -type f -exec md5sum {} + | sort >before
says alive suspended
check 'nothing has changed' cmp before <(find alive -type f -exec md5sum {} + | sort)
kill -CONT "$run"
kill -KILL "$run"
wait "$run" 2>/dev/null || true
says alive lost
prints 0 '^state +ended without a word' "$sft_inspect" status alive
mkdir silent # the lock is held, and the last line is old
sed 's/"time":[0-9.]*/"time":1000000000/' alive/metrics.jsonl >silent/metrics.jsonl
sed 's/"time":[0-9.]*/"time":999999999/' alive/starts.jsonl >silent/starts.jsonl
cp alive/run.lock silent
"$python" -c 'import fcntl, struct, sys, time
file = open("silent/run.lock", "r+b")
fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
print("held", flush=True)
time.sleep(60)' >holder &
holder=$!
await grep -sq held holder
says silent silent
mkdir silent/checkpoint-000009.tmp
says silent saving
kill "$holder"

# One that a signal stops, and one that ends with an error
"$sft" run.ini --parallel.dp_shard_size 1 --train.max_steps 1000000 --train.output_dir stopped \
  --checkpoint.save_steps 1000000 >/dev/null 2>&1 &
run=$!
await grep -sq '"step":2,' stopped/metrics.jsonl
kill -TERM "$run"
wait "$run" || true
says stopped stopped
status_of "$sft" run.ini --parallel.dp_shard_size 1 --optimizer.learning_rate 1e30 --optimizer.max_grad_norm 0 \
  --train.output_dir broken --train.max_steps 100
check 'it ended with NaN or Inf' test "$status" -eq 4
says broken failed
prints 0 '^state +ended: failed after step [0-9]+: ' "$sft_inspect" status broken
status_of "$sft" run.ini --parallel.dp_shard_size 1 --data.seed 9 --train.output_dir stopped \
  --checkpoint.resume_from_checkpoint auto
check 'a start that is refused' test "$status" -eq 2
says stopped failed
prints 0 '^state +ended: failed before its first step: data.seed is 9, but ' "$sft_inspect" status stopped

# Checkpoints of one run, and what is made of them
first=output/checkpoint-000002 last=output/checkpoint-000004
# differ STATUS PATTERN A B [--optimizer]: both programs end so, sft-inspect with such a line.
differ() {
  local expected=$1 pattern=$2
  shift 2
  prints "$expected" "$pattern" "$sft_inspect" --diff "$@"
  prints "$expected" 'tensors differ' "${in_python[@]}" diff "$@"
}
differ 1 '^lineage: one run, the second 2 steps later$' "$first" "$last"
differ 1 '^21 of 21 tensors differ: [0-9]+ elements, by [0-9.e-]+ at most, relative norm [0-9.e-]+$' "$first" "$last"
differ 0 '^0 of 21 tensors differ$' "$last" output
differ 0 '^0 of 63 tensors differ$' "$last" "$last" --optimizer
"$sft_inspect" --diff "$first" "$last" --json >native.json || true
cat >same_numbers.py <<'PYTHON'
import json
import sys
sys.path.append(sys.argv[1])
from sft_inspect import diff
native = {tensor["name"]: tensor for tensor in json.load(open("native.json"))["tensors"]}
found = diff("output/checkpoint-000002", "output/checkpoint-000004")
assert len(found.tensors) == len(native) == 21 and not found.same
for tensor in found.tensors:
    other = native[tensor.name]
    assert tensor.num_different == other["num_different"] > 0, tensor
    assert abs(tensor.max_abs - other["max_abs"]) <= 1e-12, tensor
    assert abs(tensor.relative - other["relative"]) <= 1e-9, tensor
print("same numbers")
PYTHON
prints 0 '^same numbers$' "$python" same_numbers.py "$source_folder/postprocess"

"$sft_convert" "$last" hub >/dev/null
"$sft_convert" "$last" half --dtype bfloat16 >/dev/null
differ 0 '^0 of 21 tensors differ$' "$last" hub
differ 1 ' 32 float32 -> 32 bf16 ' hub half
"$mpiexec" -np 1 "$sft" run.ini --parallel.dp_shard_size 1 --train.max_steps 0 --train.output_dir deeper \
  --model.num_hidden_layers 3 --model.tie_word_embeddings true --model.intermediate_size 64 >/dev/null
differ 1 '^lineage: no run in common$' "$last" deeper
prints 1 '^model\.num_hidden_layers +2 +3$' "$sft_inspect" --diff "$last" deeper
prints 1 '^lm_head\.weight \(first alone\) +272 x 32 float32' "$sft_inspect" --diff "$last" deeper
prints 1 '^model\.layers\.2\.mlp\.up_proj\.weight \(second alone\) +64 x 32 float32' \
  "$sft_inspect" --diff "$last" deeper
prints 1 '^model\.layers\.1\.mlp\.up_proj\.weight +32 x 32 float32 -> 64 x 32 float32$' \
  "$sft_inspect" --diff "$last" deeper
prints 1 '; 1 in the first alone; 9 in the second alone$' "$sft_inspect" --diff "$last" deeper

# A branch, another batch and mesh
"$mpiexec" -np 1 "$sft" run.ini --parallel.dp_shard_size 1 --train.output_dir branch --train.max_steps 3 \
  --checkpoint.resume_from_checkpoint "$first" >out 2>&1
check 'the batch is told' grep -q 'the effective batch is 1 row from here on; it was 2 when' out
differ 1 '^lineage: branches of the run [0-9a-f]{32}, the same up to step 2$' "$last" branch
prints 1 '^lineage: the second is of a run that goes on from the first, 1 step later$' \
  "$sft_inspect" --diff "$first" branch
prints 0 '"batch_rows": 1' "$sft_inspect" branch --json

# Adapters, format version 1, and what cannot be compared
"$mpiexec" -np 2 "$sft" run.ini --lora.use_peft true --lora.lora_r 2 --train.output_dir lora --train.max_steps 2 \
  >/dev/null
differ 0 '^0 of 28 tensors differ$' lora lora/adapter
prints 3 'no tensor in common: checkpoint and adapter' "$sft_inspect" --diff "$last" lora/adapter
prints 3 'no tensor in common' "${in_python[@]}" diff "$last" lora/adapter
prints 2 '[-]-diff with one folder' "$sft_inspect" --diff "$last"
prints 2 '[-]-diff with another option' "$sft_inspect" --diff "$last" hub --verify
prints 2 'is one word too many' "$sft_inspect" "$last" hub
for version in 1 2; do
  mkdir "format-$version"
  tar -C "format-$version" -xJf "$source_folder/tests/trainer/fixtures/format_$version.tar.xz"
done
"$sft_convert" format-1/adamw/checkpoint-000002 old >/dev/null
differ 0 '^0 of [0-9]+ tensors differ$' format-1/adamw/checkpoint-000002 old
prints 1 '^format version +1 +2$' "$sft_inspect" --diff format-1/adamw/checkpoint-000002 "$last"

# The recipes of the documentation, as they stand there
mkdir -p output/demo
cp -r "$last" output/demo/checkpoint-001400
sed -n '/^### With HDF5/,/^Python/p' "$source_folder/docs/checkpoints.md" | grep -E '^h5(ls|dump) ' >recipes
check 'there are recipes' test "$(wc -l <recipes)" -ge 9
while read -r recipe; do
  status_of bash -c "$recipe"
  if [[ $status -eq 0 && -s out ]] && ! grep -qiE 'unable|error' out err; then
    right "$recipe"
  else
    wrong "$recipe: status $status"
  fi
done <recipes
check 'raw bytes' test "$(stat -c %s norm.bin)" -eq 128
prints 0 '\(0\): [0-9.]+, [0-9.]+, [0-9.]+, [0-9.]+$' \
  h5dump -d /model/model.norm.weight -s 0 -c 4 output/demo/checkpoint-001400/tensors.h5

finish_checks
