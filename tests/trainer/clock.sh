#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A clock that is wrong for a while, years ahead or behind, as a node without a battery has it: auto and the tools still take
# the checkpoint that was saved last.
#
#   clock.sh COMPILER
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
compiler=$1

make_run run.ini 60 2
printf '[checkpoint]\nsave_steps = 1\nresume_from_checkpoint = auto\n[optimizer]\nlr_scheduler_type = constant\n' >>run.ini
cat >clock.cpp <<'C'
#include <cstdlib>
#include <ctime>
// The time of day plus so many seconds.
extern "C" int timespec_get(timespec* now, int base) noexcept {
  clock_gettime(CLOCK_REALTIME, now);
  now->tv_sec += std::atol(std::getenv("CLOCK_AHEAD_S"));
  return base;
}
C
"$compiler" -shared -fPIC -o clock.so clock.cpp

# go_on YEARS WORD...: the run, with a clock that is so many years ahead.
go_on() { LD_PRELOAD=$work/clock.so CLOCK_AHEAD_S=$(($1 * 31556952)) "$sft" run.ini --train.output_dir run "${@:2}"; }
# begins_at STEP: the weights that the last run began with.
begins_at() { grep -q "^ *weights .*run/checkpoint-00000$1, step $1\$" out; }

succeeds 'two steps with a clock ahead' go_on 5
check "are dated ahead" test "$("$sft_inspect" run --json 2>/dev/null | grep -o "\"date\": *\"20[0-9]*" | tail -c 5)" -ge 2030
succeeds 'two with the right one' go_on 0 --train.max_steps 4
check 'after the others' begins_at 2
succeeds 'two with one that is behind' go_on -20 --train.max_steps 6
check 'after the others' begins_at 4
succeeds 'two with the right one again' go_on 0 --train.max_steps 8
check 'after the others' begins_at 6
prints 0 '^using run/checkpoint-000008, saved last$' "$sft_inspect" run
succeeds 'a run that begins again at step 3' go_on 0 --checkpoint.resume_from_checkpoint run/checkpoint-000003 --train.max_steps 4
succeeds 'goes on' go_on 0 --train.max_steps 5
check 'after its own last step' begins_at 4
succeeds 'a run that begins anew in that folder' go_on 0 --checkpoint.resume_from_checkpoint none --train.max_steps 1
succeeds 'goes on' go_on 0 --train.max_steps 2
check 'after its own last step' begins_at 1

finish_checks
