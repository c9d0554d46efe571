#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run does with the rest of its output folder: files of the user stay, whatever their names; a folder that is removed
# while the run writes to it is told of and made again; the one of a run that took its place is left alone. And a run that
# had nothing to learn from ends badly.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

make_run run.ini 60 4
printf '[checkpoint]\nsave_steps = 2\nsave_total_limit = 1\n' >>run.ini

# 1. Files of the user
mkdir -p mine/checkpoint-best.tmp mine/checkpoint-000002.tmp mine/checkpoint-000004 mine/model mine/model.tmp
for name in checkpoint-best.tmp checkpoint-000002.tmp checkpoint-000004 model model.tmp; do echo "$name" >"mine/$name/notes"; done
for name in checkpoint-notes.tmp metrics.jsonl.tmp resolved.ini.tmp trace.json.tmp; do echo "$name" >"mine/$name"; done
prints 0 'checkpoint-000004 is now mine/checkpoint-000004\.kept' "$mpiexec" -np 2 "$sft" run.ini --train.output_dir mine \
  --checkpoint.save_hub_model true --train.profile_steps 1
for name in checkpoint-best.tmp/notes checkpoint-notes.tmp metrics.jsonl.tmp resolved.ini.tmp trace.json.tmp; do
  check "$name stays" grep -sqx "${name%/notes}" "mine/$name"
done
for name in checkpoint-000002.tmp checkpoint-000004 model model.tmp; do
  check "$name is set aside" grep -sqx "$name" "mine/$name.kept/notes"
done
check 'the run left its checkpoint' test -e mine/checkpoint-000004/checkpoint.h5
check 'and its model' test -e mine/model/model.safetensors
check 'and nothing unfinished' test -z "$(find mine -maxdepth 1 -newer run.ini -name 'model.tmp' -o -name '.sft-unfinished')"
cp -r mine/model mine/start
refuses 2 'would replace the model that it begins with' "$mpiexec" -np 2 "$sft" run.ini --train.output_dir mine \
  --model.model_name_or_path mine/model
check 'which is still there' cmp mine/model/model.safetensors mine/start/model.safetensors

# 2. The folder is removed
"$sft" run.ini --train.output_dir gone --train.max_steps 4000 --checkpoint.save_steps 0 >out 2>err &
run=$!
await_steps gone 20
mv gone removed # in one moment
status=0
wait "$run" || status=$?
check 'the run goes on' test "$status" = 0
check 'it says so once' test "$(grep -c '^warning: gone was removed while the run was writing to it' err)" = 1
check 'the metrics go on' test "$(tail -n 1 gone/metrics.jsonl | sed 's/^{"step":\([0-9]*\),.*/\1/')" = 4000
check 'the checkpoint is there' test -e gone/checkpoint-004000/checkpoint.h5
check 'and what it was trained with' grep -q '^# run ' gone/resolved.ini
"$sft" run.ini --train.output_dir lines --train.max_steps 4000 --checkpoint.save_steps 0 >out 2>err &
run=$!
await_steps lines 20
rm lines/metrics.jsonl
status=0
wait "$run" || status=$?
check 'a run whose metrics.jsonl is removed goes on' test "$status" = 0
check 'and says so' test "$(grep -c '^warning: lines/metrics.jsonl was removed or replaced' err)" = 1
check 'the file is there again' test "$(tail -n 1 lines/metrics.jsonl | sed 's/^{"step":\([0-9]*\),.*/\1/')" = 4000

# 3. It is removed, and another run begins in it
"$sft" run.ini --train.output_dir taken --train.max_steps 1000000 --checkpoint.save_steps 0 >out 2>err &
first=$!
await_steps taken 20
kill -STOP "$first"
mv taken moved
"$sft" run.ini --train.output_dir taken --train.max_steps 1000000 --checkpoint.save_steps 0 >/dev/null 2>second &
second=$!
await_steps taken 20
kill -CONT "$first"
status=0
wait "$first" || status=$?
check 'the first run ends with status 3' test "$status" = 3
check 'one line says why' test "$(grep -c 'error: another run is writing to taken' err)" = 1
check 'and saves nothing there' test -z "$(find taken -name 'checkpoint-*')"
kill -USR1 "$second"
status=0
wait "$second" || status=$?
check 'the second one goes on in peace' test "$status" = 75

# 4. Rows without a target
python=
for candidate in python3 /usr/bin/python3; do
  "$candidate" -c 'import h5py' 2>/dev/null && { python=$candidate; break; }
done
[[ -n $python ]] || { echo "no python3 with h5py: run \`make deps\`"; exit 1; }
mkdir zero
"$python" - <<'PYTHON'
import h5py
with h5py.File("data/train-00000.h5") as source, h5py.File("zero/train-00000.h5", "w") as target:
    for name in source:
        source.copy(name, target)
    for name, value in source.attrs.items():
        target.attrs[name] = value  # says that there are targets
    target["loss_weight"][...] = 0
PYTHON
refuses 3 'nothing was trained on|loss_weight|target' "$mpiexec" -np 2 "$sft" run.ini --train.output_dir nothing \
  --data.train_files 'zero/train-*.h5'

finish_checks
