#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints of earlier versions go on: tests/trainer/fixtures/format_N.tar.xz holds runs of two steps on 4 ranks (data,
# base.ini, and for each optimizer or adapter a folder with checkpoint-000002, metrics.jsonl and tensors.json, which are
# the tensors as `sft-inspect --optimizer --json` of that version printed them).
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

cat >same_tensors.py <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as expected, open(sys.argv[2], encoding="utf-8") as found:
    before, now = json.load(expected), json.load(found)
assert now["format_version"] == int(sys.argv[3]), now["format_version"]
assert len(before) > 10 and now["tensors"] == before
print("same tensors:", len(before))
PYTHON
cat >same_loss.py <<'PYTHON'
import json
import sys

losses = []
for path in sys.argv[1:3]:
    with open(f"{path}/metrics.jsonl", encoding="utf-8") as file:
        losses += [record["loss"] for record in map(json.loads, file) if record["step"] == 3]
assert len(losses) == 2, losses
assert abs(losses[0] - losses[1]) <= 1e-5 * losses[0], losses
print("same loss:", losses)
PYTHON

for version in 1 2; do
  mkdir "$version"
  tar -C "$version" -xJf "$test_folder/fixtures/format_$version.tar.xz"
  cd "$version"
  for run in adamw adamw_8bit adafactor lora muon; do
    options=(--train.max_steps 3 --checkpoint.resume_from_checkpoint auto --checkpoint.save_steps 3
      --train.precision fp32)
    case $run in
      adamw_8bit) options+=(--optimizer.optim adamw_8bit --model.intermediate_size 288) ;;
      adafactor | muon) options+=(--optimizer.optim "$run") ;;
      lora) options+=(--lora.use_peft true --lora.lora_r 2 --lora.lora_dropout 0) ;;
    esac
    "$sft_inspect" "$run/checkpoint-000002" --optimizer --json >now.json
    prints 0 'same tensors: [0-9]+' python3 ../same_tensors.py "$run/tensors.json" now.json "$version"
    prints 0 'as they were written' "$sft_inspect" "$run/checkpoint-000002" --verify
    # The mesh that wrote it, and one with replicas: the next step has the same loss.
    for mesh in '1 2 2' '2 1 1'; do
      read -r replicas shards slices <<<"$mesh"
      folder="$run-$replicas$shards$slices"
      cp -r "$run" "$folder"
      succeeds "format $version, $run, goes on with $replicas x $shards x $slices" timeout 60 \
        "$mpiexec" -np $((replicas * shards * slices)) "$sft" base.ini "${options[@]}" --train.output_dir "$folder" \
        --parallel.dp_replicate_size "$replicas" --parallel.dp_shard_size "$shards" --parallel.tp_size "$slices" \
        --train.gradient_accumulation_steps $((2 / (replicas * shards)))
      prints 0 '^same loss' python3 ../same_loss.py "$run-122" "$folder"
    done
  done
  cd ..
done

finish_checks
