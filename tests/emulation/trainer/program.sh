#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole program on emulated GPUs: it trains as on CPUs and resumes with the same bits; a timeline changes none; it refuses too few GPUs, and
# ends when a rank never comes to a collective.
#
#   program.sh MPIEXEC SFT_EMULATED SFT_PREPARE
set -euo pipefail

mpiexec=$1 sft=$2 sft_prepare=$3
# shellcheck source=tests/support/checks.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../support/checks.sh"

make_pairs 12
"$sft_prepare" --input pairs.jsonl --output data --max_length 48 >/dev/null
tiny_model >tiny.ini
cat >>tiny.ini <<INI
[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = 4
precision = fp32
logging_steps = 1
[optimizer]
adam_epsilon = 1e-6
lr_scheduler_type = constant
[checkpoint]
save_steps = 2
[parallel]
dp_shard_size = 2
INI

train=("$mpiexec" -np 2 "$sft" tiny.ini)

# losses FOLDER: of its steps, a line each.
# shellcheck disable=SC2317
losses() { sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }

# alike FOLDER FOLDER: the losses of both are there, and the same to 1e-5.
# shellcheck disable=SC2317  # check calls it
alike() {
  paste <(losses "$1") <(losses "$2") | awk '
    NF != 2 { exit 1 }
    { n += 1; d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5 * $1) bad = 1 }
    END { exit bad || n != 4 }'
}

# same FOLDER FOLDER: the losses of both are the same, bit for bit.
# shellcheck disable=SC2317
same() { [[ -s $1/metrics.jsonl ]] && diff <(losses "$1") <(losses "$2"); }

succeeds "2 ranks on CPUs" "${train[@]}" --train.output_dir cpu --device.backend cpu
succeeds "2 ranks on GPUs" "${train[@]}" --train.output_dir gpu --device.backend cuda
check "GPUs train like CPUs" alike cpu gpu

# traced FOLDER: its timeline has both ranks, on all tracks that such a mesh uses, and the steps that were asked for.
# shellcheck disable=SC2317  # check calls it
traced() {
  local rank
  for rank in 0 1; do
    grep -q '"name":"block 0 backward",.*"pid":'"$rank,\"tid\":2," "$1/trace.json" || return 1          # compute
    grep -q '"name":"fsdp reduce_scatter_add",.*"pid":'"$rank,\"tid\":3," "$1/trace.json" || return 1  # communication
    [[ $(grep -c '"name":"step [23]",.*"pid":'"$rank," "$1/trace.json") -eq 2 ]] || return 1
  done
  [[ $(grep -c '"name":"step ' "$1/trace.json") -eq 4 ]]
}
succeeds "2 ranks on GPUs, with a timeline" "${train[@]}" --train.output_dir traced --device.backend cuda --train.profile_steps 2-3
check "the timeline has both ranks" traced traced
check "it changes no bit" same gpu traced
check "there is none where none was asked for" test ! -e gpu/trace.json
succeeds "2 ranks on GPUs, half of the steps" "${train[@]}" --train.output_dir halves --device.backend cuda --train.max_steps 2
succeeds "the other half" "${train[@]}" --train.output_dir halves --device.backend cuda --checkpoint.resume_from_checkpoint auto
check "a resumed run has the same bits" same gpu halves

export SFT_EMULATED_GPUS=1
refuses 2 'GPU' "${train[@]}" --train.output_dir few --device.backend cuda
succeeds "2 ranks on one GPU, with copies through the host" "${train[@]}" --train.output_dir shared --device.backend cuda --device.comm host
check "they train like CPUs too" alike cpu shared
unset SFT_EMULATED_GPUS

export SFT_EMULATED_NCCL_HANG=:1:8
prints 1 'error: rank [0-9]: the collectives stand still .*group fsdp waits in call' \
  "${train[@]}" --train.output_dir hang --device.backend cuda --device.comm_timeout_s 5
finish_checks
