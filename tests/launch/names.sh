#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names that folders and files have: whatever a person's home, scratch or data are called, each program finds what lies there
# and leaves what it makes there, and what one program writes for another is read as it was meant.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
# shellcheck source=tests/shell/tiny_hub.sh
source "$frame_folder/tiny_hub.sh"
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
make_tiny_model
is_open_mpi=$("$mpiexec" --version | grep -c 'Open MPI' || true)
mkdir -p run2 && touch run2/train-00000.h5 # what `run[2]` would mean as a pattern

while IFS= read -r name; do
  mkdir -p "$name"
  cp -r tiny/model "$name/model"
  cp pairs.jsonl "$name/my pairs.jsonl"
  # All of a run below it: cache, model, records, output
  SFT_CACHE=$work/$name succeeds "sft-launch: $name" timeout 60 "$sft_launch" sft --model_name_or_path "$name/model" \
    --data_files "$name/my pairs.jsonl" --num_processes 1 --max_length 64 --per_device_train_batch_size 1 --max_steps 2 \
    --use_cpu --output_dir "$name/out"
  check 'leaves its model there' test -s "$name/out/model/model.safetensors"
  rows=$(find "$name/prepared" -name train-00000.h5)
  # Its launch.ini again, with restarts, for which sft-run has to know output_dir
  succeeds "sft-run --restarts: $name" timeout 60 "$bin/sft-run" -n 1 --restarts 1 "$name/out/launch.ini" \
    --train.output_dir "$name/again"
  check 'goes on there' test -s "$name/again/metrics.jsonl"
  succeeds "sft-inspect of rows: $name" "$bin/sft-inspect" "$rows"
  succeeds "sft-inspect of a run: $name" "$bin/sft-inspect" "$name/out"
  succeeds "sft-plan: $name" timeout 60 "$bin/sft-plan" "$name/model" --max_length 64 --machine cpux2
  succeeds "sft-prepare: $name" "$sft_prepare" --model_name_or_path "$name/model" --input "$name/*.jsonl" \
    --output "$name/rows" --max_length 64
  # A questionnaire, whose script starts the run
  {
    printf '%s\n' "model = $name/model" "train_files = $(dirname "$rows")/train-00000.h5" "output_dir = $name/asked" \
      'ranks_per_machine = 1' 'use_gpus = no' 'use_slurm = no' 'mixed_precision = fp32' 'per_device_train_batch_size = 1'
  } >answers.txt
  succeeds "sft-config: $name" timeout 60 "$bin/sft-config" "$name/run.ini" --answers answers.txt
  succeeds 'writes a script that runs' timeout 60 "$name/run.sh" --max_steps 1
  check 'and leaves its model there' test -s "$name/asked/model/model.safetensors"
  # A hostfile
  if [[ $is_open_mpi -gt 0 ]]; then
    echo "$(hostname) slots=2" >"$name/hosts"
    SFT_CACHE=$work/$name succeeds "a hostfile: $name" timeout 60 "$sft_launch" sft --model_name_or_path "$name/model" \
      --data_files "$name/my pairs.jsonl" --hostfile "$name/hosts" --max_length 64 --per_device_train_batch_size 1 \
      --max_steps 1 --use_cpu --output_dir "$name/two"
    check 'has as many ranks as slots' grep -q 'dp_shard_size = 2' "$name/two/resolved.ini"
  fi
done <<'NAMES'
Jane Doe
a,b #c; d
run[2]
a "b" {c,d}*?
Bücher・本 100% = all
back\slash
NAMES
# shellcheck disable=SC2016  # names
# A variable of the shell, which is none where a name has it
cp pairs.jsonl 'at $HOME.jsonl'
# shellcheck disable=SC2016  # the same
SFT_CACHE=$work/'cache of $USER' succeeds "sft-launch: \$" timeout 60 "$sft_launch" sft --model_name_or_path tiny/model \
  --data_files 'at $HOME.jsonl' --num_processes 1 --max_length 64 --per_device_train_batch_size 1 --max_steps 1 --use_cpu \
  --output_dir dollar
finish_checks
