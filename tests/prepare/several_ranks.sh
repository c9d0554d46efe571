#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several ranks of sft-prepare make the files and the summary of one, and name the same records as it; each reads a share of
# the inputs.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

# Lines of every length with blank ones between them, a line longer than many parts, one array, compressed files.
/usr/bin/python3 - <<'EOF'
import gzip, json, random
random.seed(5)
def record(i):
    return json.dumps({"prompt": f"q{i}\n", "completion": "x y z " * random.choice([1, 3, 20, 200])})
with open("a.jsonl", "wb") as file:
    file.write(b"\xef\xbb\xbf\n  \n")
    for i in range(6000):
        file.write(record(i).encode() + random.choice([b"\n", b"\n\n", b"\r\n", b"\n   \n"]))
with open("b.jsonl", "w") as file:
    file.write(json.dumps({"text": "w " * 200000}) + "\n")
    for i in range(1500):
        file.write("   " + record(i) + "\n")
    file.write(record(1500))
with open("c.json", "w") as file:
    json.dump([json.loads(record(i)) for i in range(300)], file, indent=1)
for k in range(5):
    with gzip.open(f"d{k}.jsonl.gz", "wt") as file:
        file.write("".join(record(i) + "\n" for i in range(200)))
with gzip.open("large.jsonl.gz", "wt") as file:
    file.write("".join(json.dumps({"text": random.randbytes(400).hex()}) + "\n" for i in range(3000)))
with open("bad.jsonl", "w") as file:
    for i in range(4000):
        file.write('{"text": 7}\n' if i % 90 == 50 else record(i) + "\n" * random.choice([1, 2]))
open("empty.jsonl", "w").close()
EOF
options=(--max_length 256 --eval_split 0.1 --shuffle_dataset --num_threads 1)
all=(--input a.jsonl --input b.jsonl --input c.json --input 'd*.gz' --input empty.jsonl)

# same NAME WORD...: two to four ranks print what one prints and write what it writes.
same() {
  local name=$1 ranks
  shift
  rm -rf o whole
  succeeds "$name, one rank" "$sft_prepare" "${options[@]}" "$@" --output o
  mv o whole
  cat out err >said
  for ranks in 2 3 4; do
    rm -rf o
    succeeds "$name, $ranks ranks" "$mpiexec" -np $ranks "$sft_prepare" "${options[@]}" "$@" --output o
    check "$name, $ranks ranks: the same files" diff -r whole o
    cat out err >said_by_ranks
    check "$name, $ranks ranks: the same words" diff said said_by_ranks
  done
}
same 'files of every kind' "${all[@]}" --num_shards 6
same 'a compressed file that all read' --input large.jsonl.gz --input a.jsonl
same 'shares of the inputs' --input a.jsonl --input b.jsonl --input_weight 1 --input_weight 3
same 'records that are skipped' --input a.jsonl --input bad.jsonl --on_error skip

# The first bad record by file and line, whoever meets another one before.
rm -rf o
status_of "$sft_prepare" --input a.jsonl --input bad.jsonl --output o
error=$(grep 'error: ' err)
rm -rf o
refuses 3 'bad\.jsonl:[0-9]+: bad record' "$mpiexec" -np 4 "$sft_prepare" --input a.jsonl --input bad.jsonl --output o
check 'the record that one rank names' test "$(grep 'error: ' err)" = "$error"
check 'nothing is left' test ! -e o
head -c 300000 large.jsonl.gz >cut.jsonl.gz
refuses 3 "cannot unpack 'cut.jsonl.gz'" "$mpiexec" -np 3 "$sft_prepare" --input a.jsonl --input cut.jsonl.gz --output o
echo ' {"text"' >>c.json
refuses 3 'c.json:[0-9]+: bad record \(something stands behind the array' \
  "$mpiexec" -np 3 "$sft_prepare" --input a.jsonl --input c.json --output o

# How much all ranks read of lines together.
if strace -o trace true 2>err; then
  size=$(cat a.jsonl b.jsonl | wc -c)
  for ranks in 2 4; do
    rm -rf o
    mkdir -p trace.$ranks
    strace -ff -y -e trace=read -o trace.$ranks/of "$mpiexec" -np $ranks "$sft_prepare" --input a.jsonl --input b.jsonl --output o >out 2>err
    bytes=$(cat trace.$ranks/of.* | sed -n 's/^read([0-9]*<[^>]*[ab]\.jsonl>.* = \([0-9]*\)$/\1/p' | awk '{ sum += $1 } END { print sum + 0 }')
    check "$ranks ranks read $bytes bytes of $size: all, and little twice" test $((bytes >= size && bytes < size * 3 / 2)) = 1
  done
else
  echo 'NOT DONE: strace traces nothing here, so nobody counted what ranks read'
fi

finish_checks
