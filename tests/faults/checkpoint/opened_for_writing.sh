#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints that h5py opened for writing and left as they were: every program reads them, with one warning, also while they
# are open, and makes them whole again. And missing shard files: HDF5 finds none of another checkpoint in their place.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

python=$(python_with h5py)
make_run run.ini 60 2
printf '[checkpoint]\nsave_steps = 1\n[parallel]\ndp_shard_size = 2\n' >>run.ini
run=("$mpiexec" -np 2 "$sft" run.ini --train.output_dir)
"${run[@]}" output >/dev/null
checkpoint=output/checkpoint-000002
cp -r "$checkpoint" before
was_opened='warning: .*checkpoint\.h5 was opened for writing by another program'
is_open='warning: .*checkpoint\.h5 is open for writing in another program'

cat >open.py <<'PYTHON'
import glob
import subprocess
import sys

import h5py

files = [h5py.File(name, "a") for name in sorted(glob.glob(sys.argv[1] + "/*.h5"))]
status = subprocess.run(sys.argv[2:]).returncode if len(sys.argv) > 2 else 0
for file in files:
    file.close()
sys.exit(status)
PYTHON
opened=("$python" open.py "$checkpoint")
# says COUNT PATTERN: so many lines of what was printed last have it.
says() { test "$(cat out err | grep -cE -- "$2")" -eq "$1"; }

# While it is open
succeeds 'sft-inspect reads it' "${opened[@]}" "$sft_inspect" "$checkpoint" --verify
check 'it warns once of the map' says 1 "$is_open"
check 'and of each shard file' says 2 'warning: .*shard-000002-[0-9a-f]{16}-0000[01]\.h5 is open for writing'
succeeds 'auto takes it' "${opened[@]}" "${run[@]}" output --checkpoint.resume_from_checkpoint auto --train.max_steps 3
check 'the run goes on from step 2' says 1 ' tokens since step 2,'
check 'one rank warns' says 1 "$is_open"
rm -r output/checkpoint-000003

# After it was closed, the programs in turn
check 'HDF5 cut it' test "$(stat -c %s "$checkpoint/checkpoint.h5")" -lt "$(stat -c %s before/checkpoint.h5)"
for program in "$sft_inspect $checkpoint" "$sft_convert $checkpoint hub" "$sft_generate $checkpoint --prompt a" \
  "${run[*]} output --checkpoint.resume_from_checkpoint auto --train.max_steps 3" \
  "${run[*]} other --checkpoint.resume_from_checkpoint $checkpoint --train.max_steps 3"; do
  "${opened[@]}"
  read -ra words <<<"$program"
  prints 0 "$was_opened.*has its hashes again" "${words[@]}"
  check 'it warns once' says 1 "$was_opened"
  check 'the checkpoint is as it was' diff -r before "$checkpoint"
  rm -rf output/checkpoint-000003
done
"${opened[@]}"
"$python" -c 'import h5py, sys
h5py.File(sys.argv[1], "a").attrs["step"] = 1' "$checkpoint/checkpoint.h5"
was_changed='was changed after it was written, as h5repack or a program that opens it for writing does'
refuses 3 "checkpoint\.h5 $was_changed" "$sft_inspect" "$checkpoint"
rm -r "$checkpoint"
cp -r before "$checkpoint"
shard=$(echo "$checkpoint"/shard-*-00001.h5)
"$python" -c 'import h5py, sys
h5py.File(sys.argv[1], "a").attrs["note"] = "x" * 3000' "$shard"
refuses 3 "-00001\.h5 $was_changed" "$sft_inspect" "$checkpoint" --verify
cp "before/${shard##*/}" "$shard"
printf more >>"$shard"
refuses 3 '-00001\.h5 is damaged' "$sft_inspect" "$checkpoint" --verify

# HDF5 also looks for files of virtual datasets in the current folder and in HDF5_VDS_PREFIX.
cp -r before missing
rm missing/shard-*-00001.h5
cat >read.py <<'PYTHON'
import sys

import h5py
import numpy

with h5py.File(sys.argv[1] + "/tensors.h5", "r") as file:
    values = numpy.concatenate([tensor[()].ravel() for tensor in file["model"].values()])
print("missing" if numpy.isnan(values).any() else "whole", float(numpy.nansum(numpy.abs(values))))
PYTHON
first=$PWD/output/checkpoint-000001
prints 0 '^missing ' bash -c "cd '$first' && '$python' '$work/read.py' '$work/missing'"
prints 0 '^missing ' env "HDF5_VDS_PREFIX=$first" "$python" read.py missing
"$python" read.py before >whole
HDF5_VDS_PREFIX=$first "$python" read.py before >prefixed
check 'a whole checkpoint is read as itself' cmp whole prefixed
finish_checks
