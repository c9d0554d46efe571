#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How many collectives of the whole world a step takes, and a save beside it, counted by a library before MPI.
#
#   collectives.sh COUNTING_LIBRARY
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
library=$1

most_of_step=4 most_of_save=4
make_data 200
{
  tiny_model
  short_run 12 'gradient_accumulation_steps = 2' 'logging_steps = 1000'
  printf '[parallel]\ndp_replicate_size = 2\ndp_shard_size = 2\n'
} >run.ini

# world_calls STEPS SAVE_STEPS ARGUMENTS...: of rank 0
world_calls() {
  local steps=$1 save_steps=$2
  shift 2
  rm -rf run
  "$mpiexec" -np 4 -x OMP_NUM_THREADS=1 -x LD_PRELOAD="$library" "$sft" run.ini --train.output_dir run \
    --train.max_steps "$steps" --checkpoint.save_steps "$save_steps" "$@" 2>&1 | sed -n 's/^mpi-calls \([0-9]*\) .*/\1/p'
}

for how in --checkpoint.async=true --checkpoint.async=false; do
  short=$(world_calls 2 1000 "$how")
  long=$(world_calls 12 1000 "$how")
  saving=$(world_calls 12 3 "$how") # three saves more
  saves=(run/checkpoint-*[0-9])
  check "$how: it saved at 3, 6, 9 and 12" test ${#saves[@]} = 4
  check "$how: 10 steps take $((long - short)) collectives, $most_of_step each" test $((long - short)) -le $((10 * most_of_step))
  check "$how: collectives are counted" test $((long - short)) -gt 0
  check "$how: 3 saves take $((saving - long)) collectives, $most_of_save each" test $((saving - long)) -le $((3 * most_of_save))
  check "$how: saves need some" test $((saving - long)) -gt 0
done
finish_checks
