#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints what saving costs a run: a step while a checkpoint is written over one without, how long training
# stands still with checkpoint.async and without, and how fast the disk takes the bytes beside dd.
#
# usage: tests/tools/benchmarks/saves.sh [BUILD_FOLDER [HIDDEN_SIZE [STEPS [RANKS]]]]
#   e.g. tests/tools/benchmarks/saves.sh build/release 512 48 4
#
# Ranks share the machine's cores with the threads that write: where no core is left beside the ranks, a step during a save
# also pays for their hashing and copying. On a machine with GPUs cores are left: fewer ranks than cores stand for that.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../../build/release}" && pwd)
hidden=${2:-512}
steps=${3:-48}
ranks=${4:-4}
scratch=$build/benchmark_saves # kept, so that every run can be repeated
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none

for i in $(seq 400); do
  printf '{"prompt": "What is number %d of so many?\\n", "completion": "the one after %d"}\n' "$i" $((i - 1))
done >pairs.jsonl
"$build/bin/sft-prepare" --input pairs.jsonl --output data --max_length 256 >/dev/null
cat >run.ini <<INI
[model]
hidden_size = $hidden
num_hidden_layers = 6
num_attention_heads = 8
num_key_value_heads = 4
intermediate_size = $((3 * hidden))
vocab_size = 272
[data]
train_files = data/train-*.h5
[parallel]
dp_shard_size = $ranks
[train]
per_device_train_batch_size = 1
max_steps = $steps
logging_steps = 1
[checkpoint]
save_steps = 12
save_total_limit = 1
[device]
backend = cpu
INI

median() { sort -n | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "nan" }'; }

# run ASYNC: trains; its steps go to the files ASYNC.during and ASYNC.apart, a time a line, the first four left out.
run() {
  mpirun -np "$ranks" "$build/bin/sft" run.ini --train.output_dir "$1" --checkpoint.async "$1" >"$1.log"
  awk '/saving checkpoint-.* beside/ { inside = 1; print "begin", done } /saved .*checkpoint-/ { if (inside) print "end", done; inside = 0 }
    match($0, /[0-9]+\/[0-9]+/) && /^20/ { split(substr($0, RSTART, RLENGTH), n, "/"); done = n[1] }' "$1.log" >"$1.saves"
  sed 's/.*"step":\([0-9]*\),.*"step_time_s":\([0-9.e-]*\).*/\1 \2/' "$1/metrics.jsonl" >"$1.steps"
  awk 'FILENAME == ARGV[1] { if ($1 == "begin") from = $2; else { for (i = from + 1; i <= $2; ++i) during[i] = 1 } next }
    $1 > 4 { print $2 > ((($1 in during) ? "during" : "apart")) }' "$1.saves" "$1.steps"
  touch during apart
  mv during "$1.during"
  mv apart "$1.apart"
}

run true
run false
bytes=$("$build/bin/sft" run.ini --dry-run --json --num_ranks "$ranks" | awk '/"checkpoint_bytes"/ { gsub(/[^0-9]/, ""); print; exit }')

printf 'a checkpoint has %.1f MiB; %d ranks on %d cores\n' "$(awk -v b="$bytes" 'BEGIN { print b / 1048576 }')" "$ranks" "$(env -u OMP_NUM_THREADS nproc)"
printf 'step apart from saves    %.4f s (async), %.4f s (training waits)\n' "$(median <true.apart)" "$(median <false.apart)"
printf 'step during a save       %.4f s, of %d steps\n' "$(median <true.during)" "$(wc -l <true.during)"
awk -v a="$(median <true.during)" -v b="$(median <true.apart)" 'BEGIN { printf "-> during / apart = %.2f\n", a / b }'
grep -ho 'in [0-9.]* s ([0-9.]* s waited)' true.log | awk '{ gsub(/[(]/, ""); print "beside training: written in " $2 " s, of which training waited " $4 " s" }'
grep -ho 'saved .*checkpoint.* in [0-9.]* s$' false.log | awk '{ print "training waits:  " $(NF - 1) " s" }'
dd_seconds() { LC_ALL=C dd if=/dev/zero of=dd.bytes bs=4M count=$((bytes / 4194304 + 1)) conv=fsync 2>&1 | sed -n 's/.* copied, \([0-9.e-]*\) s.*/\1/p'; }
for _ in 1 2 3; do dd_seconds; done | median >dd.seconds
rm -f dd.bytes
saved=$(grep -ho 'saved .*checkpoint.* in [0-9.]* s$' false.log | awk '{ print $(NF - 1) }' | median)
awk -v dd="$(cat dd.seconds)" -v s="$saved" 'BEGIN { printf "dd with fsync of as many bytes: %.2f s\n-> dd / a save that training waits for = %.2f\n", dd, dd / s }'
