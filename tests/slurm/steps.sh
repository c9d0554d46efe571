#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The shell of an interactive step of SLURM, and steps without a PMI, in a SLURM on this machine (cluster.sh): what needs no
# MPI and what is one rank runs, as often as it is called; ranks start beside the shell; ranks that do not find each other
# are refused.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
# shellcheck source=tests/slurm/cluster.sh
source "$test_folder/cluster.sh"
begin_in_cluster 1
export SFT_RESTART_PAUSE_S=1 OMP_NUM_THREADS=1 SFT_CACHE=$work/cache
make_run run.ini 60 4
shown=(said)

# Commands that a person types in the shell of such a step; each line ends with its exit status in `said`.
cat >typed <<TYPED
if [[ \$SLURM_PROCID -gt 0 ]]; then exit; fi # the terminal is that of the first task
run() { "\$@" >printed 2>&1; echo "\$(basename "\$1") \${*: -1}: \$?" >>said; cat printed >>all; }
for _ in 1 2; do
  run $bin/sft --version
  run $bin/sft --help
  run $bin/sft run.ini --print-config
  run $bin/sft run.ini --dry-run
  run $bin/sft run.ini --train.output_dir=alone
  run $bin/sft-generate --help
done
run $bin/sft-generate alone/checkpoint-000004 --prompt=What --max_new_tokens=2
run $bin/sft-run --restarts 1 --launcher "srun --mpi=pmix --ntasks=2" run.ini --train.output_dir=beside
run $bin/sft-run -n 2 run.ini --train.output_dir=mpirun
run $sft_launch sft --model.hidden_size 32 --num_processes 2 --data.train_files data/train-00000.h5 --print
TYPED
# in_shell SRUN_WORDS: types it there.
in_shell() {
  rm -rf said all alone beside mpirun
  timeout 120 script -qec "srun $1 bash ./typed" /dev/null </dev/null >shell.log 2>&1 || true
}
for words in '-n 1 --mpi=pmi2 --pty' '-n 1 --mpi=pmix --pty' '-n 4 --mpi=none --pty'; do
  in_shell "$words"
  check "srun $words: all of it runs" test "$(grep -c ': 0$' said) $(grep -cv ': 0$' said)" = '16 0'
  check 'on as many ranks as were asked for' grep -q '2 ranks on 1 node' all
done

limit_s=60
status_of srun -n 4 --mpi=none "$bin/sft" run.ini --train.output_dir apart
check 'ranks without a PMI are refused' test "$status" = 2
check 'in one line' test "$(grep -c 'error: 4 ranks were started, but each is alone' err)" = 1
status_of srun -n 4 --mpi=none "$bin/sft" --version
check 'and print their version once' test "$status $(wc -l <out)" = '0 1'
status_of srun -n 4 --mpi=pmix "$bin/sft" run.ini --train.output_dir together
check 'with PMIx they train together' test "$status" = 0
finish_checks
