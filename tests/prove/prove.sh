#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-prove as a user meets it: layouts of one run are the same, other runs and a layout whose numbers are wrong are not,
# each with its exit status, and nothing is left behind.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_run run.ini 40 3
printf '[optimizer]\nlearning_rate = 1e-3\n' >>run.ini
mkdir scratch

# layout FILE KEY=VALUE...: run.ini with these keys in [parallel], and the same rows in a step as on two data ranks.
layout() {
  local file=$1
  shift
  cp run.ini "$file"
  printf '[parallel]\n' >>"$file"
  printf '%s\n' "$@" >>"$file"
}
layout shard.ini dp_shard_size=2 tp_size=2
layout sequence.ini dp_shard_size=1 sp_size=2 sp_method=ulysses
sed -i 's/^per_device_train_batch_size = 1$/&\ngradient_accumulation_steps = 2/' sequence.ini
layout other_rows.ini dp_shard_size=1 sp_size=2
same='^the same: rounding explains every difference$'
other='^NOT the same: [0-9]+ of [0-9]+ numbers differ by more than rounding explains, first at '
proves() { # STATUS PATTERN WORD...
  local expected=$1 pattern=$2
  shift 2
  prints "$expected" "$pattern" "$sft_prove" "$@" --steps 3 --scratch "$work/scratch"
  check 'nothing is left behind' test -z "$(ls scratch)"
}

# Layouts of one run
proves 0 "$same" shard.ini --against one_rank
proves 0 "$same" shard.ini sequence.ini
# shellcheck disable=SC2016  # for awk
check 'the loss agrees to six digits and more' awk '$1 == "loss" && $6 >= 6 { found = 1 } END { exit !found }' out
check 'every entry of the optimizer is compared' grep -qE '^exp_avg_sq +model\.' out
proves 0 "$same" shard.ini sequence.ini --precision bf16
proves 0 "$same" shard.ini --against one_rank --optimizer.optim muon
proves 0 "$same" shard.ini sequence.ini --use_peft --lora_dropout 0
proves 0 '"same": true' shard.ini --against one_rank --json

# Other runs: they are found, and the first sign is named
sed 's/^learning_rate.*/learning_rate = 1.1e-3/' sequence.ini >rate.ini
proves 1 "${other}the loss of step 2: the step before it changed other weights" shard.ini rate.ini
check 'and the key that differs is named' grep -q 'warning: .*optimizer.learning_rate: 0.001, 0.0011' out
sed 's/^vocab_size.*/&\ninit_seed = 7/' sequence.ini >seed.ini
proves 1 "${other}the loss of step 1: they begin with other weights or other rows" shard.ini seed.ini
proves 1 "${other}the tokens of step 1: they did not train on the same rows" shard.ini other_rows.ini
check 'and the rows of a step' grep -q 'warning: .*rows of a step: 2, 1' out
proves 1 '"same": false' shard.ini rate.ini --json

# A layout whose numbers are wrong though its keys are right: its launcher turns off weight decay, as a fault would.
cat >faulty <<'SH'
#!/usr/bin/env bash
number=$1
shift
case $2 in
  */second.ini) set -- "$@" --optimizer.weight_decay 0 ;;
esac
exec mpirun -np "$number" "$@"
SH
chmod +x faulty
sed -i 's/^learning_rate.*/&\nweight_decay = 0.5/' shard.ini sequence.ini
proves 0 "$same" shard.ini sequence.ini --launcher 'mpirun -np {n}'
proves 1 "$other" shard.ini sequence.ini --launcher './faulty {n}'
check 'no key differs' test "$(grep -c warning out)" -eq 0

# What cannot be compared
refuses 2 'there is one layout' "$sft_prove" shard.ini
refuses 2 '.--against two_ranks. is not known' "$sft_prove" shard.ini --against two_ranks
refuses 2 'there are three layouts' "$sft_prove" shard.ini sequence.ini --against one_rank
refuses 2 'learning_rat' "$sft_prove" shard.ini sequence.ini --learning_rat 1
refuses 3 'first|nowhere' "$sft_prove" shard.ini --against one_rank --data.train_files nowhere.h5 --scratch "$work/scratch"
refuses 2 'tp_size' "$sft_prove" shard.ini sequence.ini --parallel.tp_size 3 --scratch "$work/scratch"
check 'nothing is left behind' test -z "$(ls scratch)"
"$sft_prove" shard.ini --against one_rank --steps 100000 --scratch "$work/scratch" >out 2>err &
run=$!
for _ in $(seq 300); do
  if ls scratch/*/first/metrics.jsonl >/dev/null 2>&1; then break; fi
  sleep 0.1
done
kill -TERM "$run"
status=0
wait "$run" || status=$?
check 'a signal ends it with the status of a stopped run' test "$status" -eq 75
check 'nothing is left behind' test -z "$(ls scratch)"
[[ -x $sft ]]

finish_checks
