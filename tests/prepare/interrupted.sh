#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-prepare that is killed at any moment goes on from the shards that it had finished, and several ranks make the files of
# one: byte for byte.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

awk 'BEGIN {
  srand(3)
  for (i = 0; i < 6000; ++i) {
    text = ""
    for (n = int(rand() * 40) + 1; n > 0; --n) text = text " " int(rand() * 100000)
    printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%d%s\"}, ", i, text
    printf "{\"role\": \"assistant\", \"content\": \"%s\", \"weight\": %s}]}\n", text, i % 3 ? "1" : "0.3"
  }
}' >a.jsonl
head -n 3000 a.jsonl | sed 's/"user", "content": "/&b /' >b.jsonl
options=(--input a.jsonl --input b.jsonl --max_length 256 --num_shards 24 --eval_split 0.1 --shuffle_dataset --num_threads 1)
# same_files NAME: the folder o holds the files of the folder whole.
same_files() {
  if diff -rq whole o >out 2>&1; then right "$1: the same files"; else wrong "$1: other files"; fi
}
succeeds 'uninterrupted' "$sft_prepare" "${options[@]}" --output whole

# Killed whenever another file is finished, or at a random moment.
RANDOM=7
rm -rf o
num_kept=0
for round in $(seq 11); do
  "$sft_prepare" "${options[@]}" --output o >out 2>err &
  run=$!
  if ((round % 3)); then
    until [[ $(find o -name '*.tmp' 2>/dev/null | wc -l) -ge $((round < 10 ? 2 * round : 20)) ]] || ! kill -0 $run 2>/dev/null; do sleep 0.002; done
  else
    sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
  fi
  kill -KILL $run 2>/dev/null || true
  wait $run 2>/dev/null || true
  if [[ -e o/train-00000.h5 ]]; then
    same_files "round $round, which was not killed in time"
    rm -rf o
  fi
done
find o -name '*.tmp' | wc -l | sed 's/^/      files in the making after the last kill: /'
succeeds 'after eleven kills' "$sft_prepare" "${options[@]}" --output o --json
num_kept=$(sed -n 's/^  "num_kept_shards": \([0-9]*\),$/\1/p' out)
check "keeps $num_kept shards" test "${num_kept:-0}" -ge 1
same_files 'after eleven kills'

# Killed while the files get their names: some have theirs.
tag=$(/usr/bin/python3 -c 'import h5py; print(h5py.File("whole/train-00003.h5").attrs["shard_set"].decode().split(":")[1])')
rm -rf o
cp -r whole o
for name in train-00000 train-00001 train-00005; do mv "o/$name.h5" "o/$name.h5.$tag.tmp"; done
rm "o/train-00001.h5.$tag.tmp"
prints 0 '"num_kept_shards": 24' "$sft_prepare" "${options[@]}" --output o --json
same_files 'after a kill between two names'

# Damaged, of other rows, and of another call: made anew.
rm -rf o
mkdir o
cp whole/train-00003.h5 "o/train-00003.h5.$tag.tmp"
printf 'x' | dd of="o/train-00003.h5.$tag.tmp" bs=1 seek=3000 conv=notrunc status=none
cp whole/train-00004.h5 "o/train-00005.h5.$tag.tmp"
cp whole/train-00006.h5 "o/train-00006.h5.$tag.tmp"
cp whole/train-00007.h5 "o/train-00007.h5.0123456789abcdef.tmp"
prints 0 '"num_kept_shards": 1,' "$sft_prepare" "${options[@]}" --output o --json
same_files 'after files that are not its own'
rm -rf o
mkdir o
cp whole/train-00006.h5 o
refuses 3 "'o' holds a part of other packed data .*go on with its own command" \
  "$sft_prepare" --input a.jsonl --output o --max_length 128 --num_shards 24
check 'what was there stays' cmp -s whole/train-00006.h5 o/train-00006.h5
sed '5s/ [0-9]/ 9/' a.jsonl >other.jsonl # as long as it was
# killed_midway COMMAND...: runs it, which writes to `o`, and kills it and its processes when it has begun with shards; again
# where it was done before it was killed.
killed_midway() {
  local run process
  for _ in $(seq 20); do
    rm -rf o
    "$@" >out 2>err &
    run=$!
    until [[ $(find o -name 'train*.tmp' 2>/dev/null | wc -l) -ge 4 ]] || ! kill -0 $run 2>/dev/null; do sleep 0.002; done
    for process in $(pgrep -P $run) $run; do kill -KILL "$process" 2>/dev/null || true; done
    wait $run 2>/dev/null || true
    if [[ ! -e o/train-00000.h5 ]]; then return; fi
  done
}
killed_midway "$sft_prepare" "${options[@]}" --output o
mv a.jsonl kept.jsonl
mv other.jsonl a.jsonl
prints 0 '"num_kept_shards": 0,' "$sft_prepare" "${options[@]}" --output o --json
mv kept.jsonl a.jsonl

# Several ranks
for ranks in 2 3; do
  rm -rf o
  prints 0 '^  records +9000$' "$mpiexec" -np $ranks "$sft_prepare" "${options[@]}" --output o
  same_files "$ranks ranks"
done
killed_midway "$mpiexec" -np 2 "$sft_prepare" "${options[@]}" --output o
succeeds 'one rank after two that were killed' "$sft_prepare" "${options[@]}" --output o
same_files 'one rank after two that were killed'
{ cat a.jsonl; echo '{"text": 7}'; cat b.jsonl; echo '{"text"'; } >bad.jsonl
rm -rf o
refuses 3 'bad\.jsonl:6001: bad record' "$mpiexec" -np 3 "$sft_prepare" --input bad.jsonl --output o
check 'nothing is left' test ! -e o
prints 0 '^warning: skipped bad\.jsonl:6001: .text' "$mpiexec" -np 2 "$sft_prepare" --input bad.jsonl --output o --on_error skip
refuses 3 "already holds packed data" "$mpiexec" -np 2 "$sft_prepare" --input a.jsonl --output o
refuses 2 "cannot read '-' on several ranks" "$mpiexec" -np 2 "$sft_prepare" --input - --output p
refuses 2 'no option --max_lenght' "$mpiexec" -np 2 "$sft_prepare" --input a.jsonl --output p --max_lenght 3

finish_checks
