#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-config: what it writes runs as it is, from a file of answers, from lines, and from a person at a terminal.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_data 30
{ tiny_model && model_run start; } >start.ini
"$sft" start.ini >out 2>err || wrong 'no model folder'

cat >answers.txt <<'TEXT'
model = start/model
ranks_per_machine = 2
use_gpus = no
use_slurm = no
mixed_precision = fp32
per_device_train_batch_size = 1
num_train_epochs = 1
TEXT
succeeds 'a file of answers' "$sft_config" run.ini --answers answers.txt
check 'gives an .ini file' grep -qx 'model_name_or_path = start/model' run.ini
read -r -a without_rows <<<"$(grep -o -- '--train_files= --max_length [0-9]*' run.ini)"
succeeds 'whose memory is planned before there are rows' "$sft" run.ini --dry-run --num_ranks 2 "${without_rows[@]}"
check 'and a script' test -x run.sh
succeeds 'that runs' ./run.sh --max_steps 2 --logging_steps 1
check 'on two ranks' grep -q 'dp_shard_size = 2' output/resolved.ini
check 'and leaves a model' test -s output/model/model.safetensors

succeeds 'lines' "$sft_config" lines.ini <<<$'start/model\nrows.h5\nelsewhere'
check 'are answers in order' grep -q '^output_dir = elsewhere' lines.ini
{
  printf 'start/model\nrows.h5\nhere\nmany\n1\n'
  for _ in $(seq 20); do echo; done
} >typed
succeeds 'a person' script -qec "'$sft_config' person.ini" /dev/null <typed
check 'is asked again' grep -q '.many. is not valid' out
check 'and answered' grep -q '^output_dir = here' person.ini

refuses 2 'run.ini is there' "$sft_config" run.ini --answers answers.txt
succeeds '--force' "$sft_config" run.ini --force --answers answers.txt
refuses 2 'answer .7. to zero_stage' "$sft_config" other.ini --answers <(cat answers.txt; echo 'zero_stage = 7')
refuses 2 'nothing asked for .zero_stge.*did you mean zero_stage' "$sft_config" other.ini \
  --answers <(cat answers.txt; echo 'zero_stge = 3')
finish_checks
