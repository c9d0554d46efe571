#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a person sees of a run: in the log of a batch job, where lines stay, and on a terminal, where one line is redrawn; and
# that what the summary says to try next can be typed as it stands.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_run run.ini 60 25 --eval_split 0.2
cat >>run.ini <<'INI'
[checkpoint]
save_steps = 20
INI
run=(run.ini --train.logging_steps 10 --data.eval_files 'data/eval-*.h5' --train.eval_on_start true --train.eval_steps 10)
time='20[0-9]{2}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9]'
rows=$("$sft" "${run[@]}" --dry-run --json | sed -n 's/^  "num_eval_rows": \([0-9]*\),*$/\1/p')

# lines FILE PATTERN: how many lines have it.
lines() { grep -cE -- "$2" "$1" || true; }

# A log.
succeeds 'a run of two ranks whose output goes to a file' "$mpiexec" -np 2 "$sft" "${run[@]}" --train.output_dir log
mv out log.txt
check 'the first step has a line' test "$(lines log.txt "^$time +1/25 .* [0-9]+:[0-9]{2}$")" -eq 1
check 'logged steps say of how many, and what is left' test "$(lines log.txt "^$time +(10|20|25)/25 .* [0-9]+:[0-9]{2}$")" -eq 3
check 'nothing is left at the end' test "$(lines log.txt "^$time +25/25 .* 0:00$")" -eq 1
check 'no other step has a line' test "$(lines log.txt "^$time +[0-9]+/25 .* [0-9]+:[0-9]{2}$")" -eq 4
check 'an evaluation says that it begins' test "$(lines log.txt "^$time evaluating $rows rows$")" -eq 4
check 'and what came of it' test "$(lines log.txt "^$time +[0-9]+/25 .*evaluation")" -eq 4
check 'what is saved has a time' test "$(lines log.txt "^$time saved log/checkpoint-0000(20|25) in ")" -eq 2
check 'no line is redrawn' test "$(lines log.txt $'[\r\033]')" -eq 0
sed "s|$(dirname "$sft")/||g" log.txt >named.txt # the programs' folder may have any name
check 'no line is longer than 100 characters' test "$(lines named.txt '^.{101}')" -eq 0
check 'the console leaves metrics.jsonl as it is' test "$(sed -n 's/^{"step":\([0-9]*\),.*"loss".*/\1/p' log/metrics.jsonl | tr '\n' ' ')" = '10 20 25 '
check 'the summary says how long it took' test "$(lines log.txt "^$time done in [0-9]+:[0-9]{2}$")" -eq 1
check 'how much it trained' test "$(lines log.txt '^  steps  .* 25 of 25 steps, [0-9.]+ epochs; .* tokens, .* tokens/s$')" -eq 1
check 'the loss' test "$(lines log.txt '^  loss  .* at step 10, .* at step 25$')" -eq 1
check 'the loss on other data' test "$(lines log.txt '^  eval loss  .* at step 0, .* at step 25')" -eq 1
check 'the memory' test "$(lines log.txt '^  plan vs run  planned .* MiB, peak .* MiB on rank [01]$')" -eq 1
if [[ -x ${sft}-generate && -x ${sft}-convert ]]; then
  sed -n '/^  next  /,$s/^\( *next\)\? *//p' log.txt | grep -v plot_loss >next.txt
  check 'two commands to try next' test "$(wc -l <next.txt)" -eq 2
  while read -r command; do succeeds "$command" bash -c "$command --help && $command"; done <next.txt
  check 'which leave a model folder' test -e log/model/config.json
fi

# A run that goes on counts from where it stood.
status_of "$mpiexec" -np 2 "$sft" "${run[@]}" --train.output_dir log --train.max_steps 30 --checkpoint.resume_from_checkpoint auto
check 'the first step after a restart has a line' test "$(lines out "^$time +26/30 ")" -eq 1
check 'tokens are those of this part' test "$(lines out 'tokens since step 25, ')" -eq 1
check 'the loss is that of the whole run' test "$(lines out '^  loss  .* at step 10, .* at step 30$')" -eq 1
status_of "$mpiexec" -np 2 "$sft" "${run[@]}" --train.output_dir log --train.max_steps 30 --checkpoint.resume_from_checkpoint auto
check 'nothing left to train: no summary' test "$(lines out ' done in ')" -eq 0

# A terminal, whose owner has one too.
status=0
script -qec "$sft run.ini --train.logging_steps 10 --train.output_dir terminal" terminal.txt >/dev/null || status=$?
check 'a run at a terminal' test "$status" -eq 0
check 'the line in place says how far it is' test "$(lines terminal.txt '/25  loss [0-9.]+  rate .* left')" -gt 0
check 'lines have no time' test "$(lines terminal.txt "^$time")" -eq 0
check 'the table has logged steps alone' test "$(lines terminal.txt ' (1|10|20|25) +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+e[-+][0-9]+ +[0-9.]+ ')" -eq 3
check 'the summary is there too' test "$(lines terminal.txt 'done in [0-9]+:[0-9]{2}')" -eq 1

finish_checks
