#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a pretrained model in bf16 and with each kind of train.fp8 on the same rows, and prints losses side by side: what
# matters is the last evaluation, on records that are held back.
#
# usage: tests/tools/benchmarks/fp8_losses.sh BUILD_FOLDER MODEL_FOLDER RECORDS.jsonl [STEPS [ROWS_PER_STEP [EVAL_RECORDS [SEED]]]]
#
# RECORDS.jsonl: objects with "question" and "answer", as GSM8K has them. Runs are kept in BUILD_FOLDER/fp8_losses and go on
# where they were when the script is started again with as many steps; one thread each, one after the other. SEED: of the
# order of rows, 1 by default.
set -euo pipefail
build=$(cd "$1" && pwd)
model=$(cd "$2" && pwd)
records=$(realpath "$3")
steps=${4:-200}
rows=${5:-2}
eval_records=${6:-48}
seed=${7:-1}
scratch=$build/fp8_losses
mkdir -p "$scratch"
cd "$scratch"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1

if [ ! -d train ]; then
  python3 - "$records" "$eval_records" <<'PYTHON'
import json
import sys

records = [json.loads(line) for line in open(sys.argv[1])]
num_held_back = int(sys.argv[2])
for name, part in (("train", records[:-num_held_back]), ("eval", records[-num_held_back:])):
    with open(name + ".jsonl", "w") as out:
        for record in part:
            out.write(json.dumps({"prompt": record["question"], "completion": record["answer"]}) + "\n")
PYTHON
  for part in train eval; do
    "$build/bin/sft-prepare" --input $part.jsonl --output $part --model_name_or_path "$model" --max_length 512 --packing true
  done
fi

for fp8 in none tensorwise blockwise; do
  "$build/bin/sft" --model.model_name_or_path "$model" --data.train_files "$scratch/train/*.h5" \
    --data.eval_files "$scratch/eval/*.h5" --data.seed "$seed" --device.backend cpu --train.fp8 $fp8 --train.precision bf16 \
    --train.per_device_train_batch_size "$rows" --train.max_steps "$steps" --train.logging_steps 1 --train.eval_steps 20 \
    --train.eval_on_start true --optimizer.learning_rate 3e-4 --optimizer.lr_scheduler_type cosine --optimizer.warmup_steps 0.05 \
    --checkpoint.save_steps 20 --checkpoint.save_total_limit 1 --checkpoint.save_hub_model false \
    --checkpoint.resume_from_checkpoint auto --train.output_dir "$scratch/$fp8-$steps-$seed"
done

python3 - "$steps" "$seed" <<'PYTHON'
import json
import sys

runs = {kind: [json.loads(line) for line in open(f"{kind}-{sys.argv[1]}-{sys.argv[2]}/metrics.jsonl")]
        for kind in ("none", "tensorwise", "blockwise")}
evals = {kind: {line["step"]: line["eval_loss"] for line in lines if "eval_loss" in line} for kind, lines in runs.items()}
losses = {kind: [line["step_loss"] for line in lines if "step_loss" in line] for kind, lines in runs.items()}
for step in sorted(evals["none"]):
    print(f"eval_loss after {step:5d} steps: " +
          ", ".join(f"{kind} {of[step]:.4f} ({of[step] / evals['none'][step] - 1:+.2%})" for kind, of in evals.items()))
print("mean loss of the last tenth: " +
      ", ".join(f"{kind} {sum(of[-len(of) // 10:]) / len(of[-len(of) // 10:]):.4f}" for kind, of in losses.items()))
PYTHON
