#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints that are written beside training to a disk that is slow, that refuses, or whose machine is gone in the middle.
#
#   disk.sh FAULTY_DISK
# shellcheck disable=SC2016
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
faulty_disk=$1

make_run run.ini 100 12
printf '[checkpoint]\nsave_steps = 4\n[parallel]\ndp_shard_size = 2\nsp_size = 2\n' >>run.ini

# run_in FOLDER WORD...: four ranks that write there.
run_in() { run 4 run.ini --train.output_dir "$@"; }
# run_on_disk SETTINGS FOLDER WORD...: the same on the disk of these settings, `NAME=value ...`.
run_on_disk() {
  local settings
  read -ra settings <<<"$1"
  "$mpiexec" -np 4 env "LD_PRELOAD=$faulty_disk" "${settings[@]}" "$sft" run.ini --train.output_dir "${@:2}"
}
# same_weights A B WORD...: two checkpoints have them.
same_weights() {
  "$sft_inspect" "$1" --compare "${@:2}" >tensors &&
    awk 'NR > 2 && NF > 2 { ++count; wrong += $2 != 0 || $3 != 0 } END { exit count > 10 && !wrong ? 0 : 1 }' tensors
}
# same_state A B: the same weights and moments.
same_state() { same_weights "$@" --optimizer; }
# same_as_whole FOLDER: the numbers and the weights of the run that nothing disturbed.
same_as_whole() {
  [[ $(numbers_of "$1") == "$(numbers_of whole)" ]] && same_state "$1/checkpoint-000012" whole/checkpoint-000012
}

succeeds 'training waits for saves' run_in whole --checkpoint.async false
check 'says so' grep -q '^ *saves .*; training waits for them;' out
check 'has no copy' grep -Eq '^ *snapshot +0 B +0 B' out

# 1. A disk that takes as long as some steps: they come between the begin of a save and its end, to the same numbers.
large=(--model.hidden_size 256 --model.intermediate_size 1024 --model.num_hidden_layers 4 --train.max_steps 24
  --checkpoint.save_steps 12)
succeeds 'a larger model, whose training waits' run_in large "${large[@]}" --checkpoint.async false
succeeds 'a slow disk, beside training' run_on_disk 'DISK_CALL=sync DISK_SLEEP_MS=300' slow "${large[@]}"
check 'says so' grep -q '^ *saves .*, beside training;' out
check 'steps come meanwhile' awk '/saving checkpoint-000012 beside/ { inside = 1 } / [0-9]+\/24 / { steps += inside }
  /saved .*checkpoint-000012/ { exit steps > 0 ? 0 : 1 }' out
check 'training goes on while the disk works' awk '/saved .*checkpoint-000012 in/ {
  match($0, /in [0-9.]+/); all = substr($0, RSTART + 3, RLENGTH - 3)
  match($0, /\([0-9.]+/); waited = substr($0, RSTART + 1, RLENGTH - 1); exit all >= 0.3 && all - waited >= 0.15 ? 0 : 1 }' out
check 'the metrics have it' grep -q '"save_stall_s":' slow/metrics.jsonl
check 'the same numbers' test "$(numbers_of slow)" = "$(numbers_of large)"
check 'the same weights and moments' same_state slow/checkpoint-000024 large/checkpoint-000024
succeeds 'the checkpoint before is whole' "$sft_inspect" slow/checkpoint-000012 --verify
check 'and was not touched by later steps' same_state slow/checkpoint-000012 large/checkpoint-000012

# A save that comes while one is under way waits for it.
succeeds 'a slower one than the saves' run_on_disk 'DISK_CALL=sync DISK_SLEEP_MS=400' slower --checkpoint.save_steps 1 \
  --train.max_steps 3
check 'all are there' test "$(find slower -maxdepth 1 -name 'checkpoint-*' | wc -l)" = 3

# 2. A disk that refuses, at each rank and each call: one error, status 3, what was there stays, nothing else.
for settings in 'DISK_CALL=write DISK_RANK=0' 'DISK_CALL=sync DISK_RANK=3' 'DISK_CALL=sync'; do
  folder=${settings//[ =]/-}
  status=0
  run_on_disk "$settings DISK_FAILS_FROM=2" "$folder" >out 2>err || status=$?
  check "$settings: status 3" test "$status" = 3
  check "$settings: one error" test "$(grep -c 'error: ' err)" = 1
  check "$settings: it names the file" grep -q 'error: .*checkpoint-0000[0-9][0-9]\.tmp.*No space left on device' err
  check "$settings: nothing is half there" test -z "$(find "$folder" -name '*.tmp')"
  for left in "$folder"/checkpoint-*; do
    if [[ -e $left ]]; then succeeds "$settings: $left is whole" "$sft_inspect" "$left" --verify; fi
  done
  succeeds "$settings: goes on" run_in "$folder" --checkpoint.resume_from_checkpoint auto
  check "$settings: to the same numbers" same_as_whole "$folder"
done

# 3. All ranks killed while the second checkpoint is written, and right after it is complete.
# kill_when FOLDER CONDITION...: runs there and kills all ranks once the condition holds.
kill_when() {
  local folder=$1 launcher
  shift
  rm -f told
  run_on_disk "DISK_CALL=sync DISK_SLEEP_MS=${sleep_ms:-0} DISK_TELLS=$work/told" "$folder" --checkpoint.save_steps 5 \
    --checkpoint.save_hub_model every_save >out 2>err &
  launcher=$!
  until "$@" || ! kill -0 "$launcher" 2>/dev/null; do sleep 0.01; done
  cat "/proc/$launcher/task/"*/children 2>/dev/null | xargs --no-run-if-empty kill -KILL
  wait "$launcher" || true
}
is_being_written() { [[ -e middle/checkpoint-000005 && -e middle/checkpoint-000010.tmp ]]; }
is_complete() { [[ -e after/checkpoint-000005 ]]; }
sleep_ms=2000 kill_when middle is_being_written
check 'killed in the middle: the one before is the newest' test -e middle/checkpoint-000005 -a ! -e middle/checkpoint-000010
succeeds 'save_hub_model = every_save left a whole model' "$sft_convert" middle/model from_hub
check 'which is that of the checkpoint' same_weights middle/checkpoint-000005 from_hub
succeeds 'goes on' run_in middle --checkpoint.resume_from_checkpoint auto
check 'from it' grep -q '^ *weights .*middle/checkpoint-000005, step 5$' out
check 'to the same numbers' same_as_whole middle
check 'and nothing is half there' test -z "$(find middle -name '*.tmp')"
kill_when after is_complete
succeeds 'killed right after a save: goes on' run_in after --checkpoint.resume_from_checkpoint auto
check 'from it' grep -q '^ *weights .*after/checkpoint-00' out
check 'to the same numbers' same_as_whole after

finish_checks
