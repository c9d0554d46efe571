#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What sft-inspect, sft-generate and the Python readers say of a checkpoint of two steps on 4 ranks, whole and damaged, and
# how the tools refuse a command line.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
postprocess=$source_folder/postprocess

make_data 40
cat >run.ini <<INI
[model]
hidden_size = 32
num_hidden_layers = 11
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 32
vocab_size = 272
[data]
train_files = data/train-*.h5
[parallel]
dp_shard_size = 2
tp_size = 2
[train]
per_device_train_batch_size = 1
max_steps = 2
output_dir = output
logging_steps = 1
[optimizer]
learning_rate = 0.001
[checkpoint]
save_steps = 1
[device]
backend = cpu
INI
"$mpiexec" -np 4 "$sft" run.ini >/dev/null
checkpoint=output/checkpoint-000002

# Whole
prints 0 '^mesh +1 x 2 x 1 x 2' "$sft_inspect" "$checkpoint"
prints 0 '^ *0 +1 x 2 x 1 x 2 .* 1 +2 +[0-9.]+ +[0-9a-f]{32}$' "$sft_inspect" "$checkpoint"
prints 0 'model/model\.norm\.weight +32 +32 ' "$sft_inspect" "$checkpoint"
prints 0 'exp_avg_sq/lm_head\.weight +272 x 32 +8704 ' "$sft_inspect" "$checkpoint" --optimizer
prints 0 '4 shard files, .*as they were written' "$sft_inspect" "$checkpoint" --verify
check 'it says what it leaves out' grep -q '^tensors\.h5 is not checked, .*--index makes it again' out
prints 0 '"tensors.h5"' "$sft_inspect" "$checkpoint" --verify --json
rm "$checkpoint/tensors.h5"
prints 0 'as they were written' "$sft_inspect" "$checkpoint" --verify
check 'it leaves nothing out' bash -c '! grep tensors out'
prints 0 'whole tensors' "$sft_inspect" "$checkpoint" --index
prints 0 '"step": 2' "$sft_inspect" "$checkpoint" --json
prints 0 'model/model\.norm\.weight +0 +0$' "$sft_inspect" "$checkpoint" --compare "$checkpoint"
prints 0 'model/model\.norm\.weight +[0-9.]*[1-9]' "$sft_inspect" "$checkpoint" --compare output/checkpoint-000001
"$sft_inspect" "$checkpoint" | grep -o 'layers\.[0-9]*\.mlp\.up_proj' >order
prints 0 same bash -c 'cmp order <(sort -V order) && echo same'

# Packed data
prints 0 '^documents +40$' "$sft_inspect" data
prints 0 '"num_documents": 40' "$sft_inspect" data/train-00000.h5 --json
prints 0 '^shard files +1, all as they were written$' "$sft_inspect" 'data/train-*.h5' --verify
prints 2 '[-]-compare with data' "$sft_inspect" data --compare "$checkpoint"
prints 3 'nowhere\.h5' "$sft_inspect" nowhere.h5
mkdir damaged
cp data/train-00000.h5 damaged
size=$(stat -c %s damaged/train-00000.h5)
for at in $((size / 3)) $((size / 2)) $((size - 100)); do
  printf xyz | dd of=damaged/train-00000.h5 bs=1 seek="$at" conv=notrunc status=none
done
prints 3 'damaged/train-00000\.h5' "$sft_inspect" damaged --verify

# The output folder of a run means the checkpoint saved last
prints 0 '^checkpoint +output/checkpoint-000002$' "$sft_inspect" output
prints 0 '^using output/checkpoint-000002, saved last$' "$sft_inspect" output
prints 0 '"step": 2' bash -c '"$@" 2>/dev/null' - "$sft_inspect" output --json
prints 0 'model/model\.norm\.weight +0 +0$' "$sft_inspect" "$checkpoint" --compare output
prints 0 '^using output/checkpoint-000002, saved last$' "$sft_generate" output --prompt ab --max_new_tokens 2

# Too few files may be open for all shards: the soft limit is raised, the hard one is an error and no NaN.
prints 0 'model/model\.norm\.weight +32 +32 .* 0$' bash -c 'ulimit -Sn 5; "$@"' _ "$sft_inspect" "$checkpoint"
prints 3 'shard-[0-9a-f-]*-0000.\.h5 .*Too many open files' bash -c 'ulimit -n 5; "$@"' _ "$sft_inspect" "$checkpoint"

# Checkpoints of different models, either way round
"$mpiexec" -np 1 "$sft" run.ini --model.num_hidden_layers 10 --parallel.dp_shard_size 1 --parallel.tp_size 1 \
  --train.max_steps 0 --train.output_dir shallow >/dev/null
shallow=shallow/checkpoint-000000
prints 0 ': 1 shard file, .*as they were written' "$sft_inspect" "$shallow" --verify
prints 3 "layers\.10\.[a-z_.]+ \($checkpoint has it, $shallow has not\)" \
  "$sft_inspect" "$checkpoint" --compare "$shallow"
prints 3 "layers\.10\.[a-z_.]+ \($checkpoint has it, $shallow has not\)" \
  "$sft_inspect" "$shallow" --compare "$checkpoint"

# Text
prints 0 '^warning: .* 50 tokens \(rows had 48' "$sft_generate" "$checkpoint" --prompt ab --max_new_tokens 48
prints 2 'sft-generate has no option --prom ' "$sft_generate" "$checkpoint" --prom ab
# shellcheck disable=SC2016  # for the inner shell
prints 2 '^1$' bash -c '"$@" 2>&1 | grep -c error: ; exit "${PIPESTATUS[0]}"' - \
  "$mpiexec" -np 3 "$sft_generate" "$checkpoint" --prompt ab
prints 2 'seed = -1' "$sft_prepare" --input pairs.jsonl --output other --seed -1

# What cannot be printed is an error, not a success
prints 1 'standard output was cut' bash -c '"$@" >/dev/full' - "$sft_inspect" "$checkpoint"
prints 1 'standard output was cut' bash -c '"$@" >/dev/full' - "$sft_generate" "$checkpoint" --prompt ab
prints 1 'standard output was cut' bash -c '"$@" >/dev/full' - "$sft_prepare" --input pairs.jsonl --output again

# In Python
python=$(python_with h5py,matplotlib)
cat >read.py <<'PYTHON'
import sys
import numpy
sys.path.append(sys.argv[1])
from sft_run import Run
run = Run("output")
assert len(run.metric("loss")) == 2
with run.checkpoint() as checkpoint:
    names = checkpoint.names()
    assert checkpoint.step == 2 and len(names) == 11 * 9 + 3
    assert run.config["model"] == checkpoint.config["model"]
    for group in ("model", "exp_avg", "exp_avg_sq"):
        assert all(numpy.isfinite(checkpoint.tensor(name, group)).all() for name in names)
        assert any(checkpoint.tensor(name, group).any() for name in names)
    print("read", checkpoint.dataset("model.embed_tokens.weight").shape)
PYTHON
prints 0 'read \(272, 32\)' "$python" read.py "$postprocess"
# Whole tensors are made again where they are not there; without them the readers say how.
rm "$checkpoint/tensors.h5"
# shellcheck disable=SC2016  # no command is meant
prints 1 'tensors\.h5 is not there: make it with `sft-inspect .*checkpoint-000002 --index`' "$python" read.py "$postprocess"
prints 0 '^whole tensors: output/checkpoint-000002/tensors\.h5$' "$sft_inspect" "$checkpoint" --index
prints 0 'read \(272, 32\)' "$python" read.py "$postprocess"
prints 2 '^sft-inspect: error: --index with another option' "$sft_inspect" "$checkpoint" --index --verify
prints 2 '[-]-index with data' "$sft_inspect" data --index

# State in bf16 stays bf16 in the files, half as large; HDF5 and h5py read it as numbers.
"$mpiexec" -np 4 "$sft" run.ini --optimizer.moments_dtype bf16 --train.output_dir half >/dev/null
half=half/checkpoint-000002
cat >read_half.py <<'PYTHON'
import glob
import json
import sys
import h5py
import numpy
norms = {t["name"]: t["norm"] for t in json.load(open("half.json"))["tensors"]}
with h5py.File(f"{sys.argv[1]}/tensors.h5") as whole, h5py.File(glob.glob(f"{sys.argv[1]}/shard-*-00000.h5")[0]) as shard:
    assert whole["model/model.norm.weight"].dtype == numpy.float32
    for file, name in ((whole, "exp_avg/lm_head.weight"), (shard, "exp_avg")):
        stored = file[name].id.get_type()
        assert stored.get_size() == 2 and stored.get_fields() == (15, 7, 8, 0, 7), (name, stored.get_fields())
        assert file[name][()].dtype == numpy.float32
    for name, norm in norms.items():
        values = whole[name][()]
        assert numpy.isfinite(values).all()
        found = numpy.linalg.norm(values.astype(numpy.float64))
        assert abs(found - norm) <= 1e-6 * norm + 1e-30, (name, found, norm)
        if name.startswith("exp_avg"):
            assert not (values.astype(numpy.float32).view(numpy.uint32) & 0xFFFF).any(), name
print("bf16 as numbers:", len(norms))
PYTHON
"$sft_inspect" "$half" --optimizer --json >half.json
prints 0 '^bf16 as numbers: 306$' "$python" read_half.py "$half"
prints 0 'as they were written' "$sft_inspect" "$half" --verify
prints 0 'half/checkpoint-000002, step 2|resumed|nothing left' "$mpiexec" -np 2 "$sft" run.ini \
  --optimizer.moments_dtype bf16 --train.output_dir half --parallel.tp_size 1 --train.max_steps 3 \
  --checkpoint.resume_from_checkpoint auto
prints 0 'wrote loss.png' "$python" "$postprocess/plot_loss.py" output -o loss.png
mkdir -p twin/output broken
cp output/metrics.jsonl twin/output
prints 0 '^twin/output ' "$python" "$postprocess/plot_loss.py" output twin/output -o twin.png
{ head -n 1 output/metrics.jsonl; echo '[1]'; } >broken/metrics.jsonl
prints 1 '^plot_loss.py: error: broken/metrics\.jsonl:2 is no JSON object' "$python" "$postprocess/plot_loss.py" broken
echo '{"step": 1}' >broken/metrics.jsonl
prints 1 '^plot_loss.py: error: broken/metrics\.jsonl has no line with loss' "$python" "$postprocess/plot_loss.py" broken
prints 1 'python3-matplotlib' "$python" -c 'import runpy, sys
sys.modules["matplotlib"] = None
runpy.run_path(sys.argv[1])' "$postprocess/plot_loss.py"
prints 1 'Debian: python3-h5py' "$python" -c 'import runpy, sys
sys.modules["h5py"] = None
runpy.run_path(sys.argv[1])' "$postprocess/sft_run.py"

# Damaged
rm output/checkpoint-000002/shard-*-00001.h5
prints 3 'cannot find .*/shard-000002-[0-9a-f]{16}-00001\.h5' "$sft_inspect" "$checkpoint"
prints 3 'cannot find .*/shard-000002-[0-9a-f]{16}-00001\.h5' "$sft_inspect" "$checkpoint" --verify
prints 1 '-00001\.h5 is missing' "$python" read.py "$postprocess"

# A run goes on from the newest checkpoint that is whole, and says so.
again=("$mpiexec" -np 4 "$sft" run.ini --train.output_dir fallback --checkpoint.resume_from_checkpoint auto)
cp -r output fallback
printf x | dd of="$(echo fallback/checkpoint-000002/shard-*-00002.h5)" bs=1 seek=9000 conv=notrunc status=none
prints 0 'warning: fallback/checkpoint-000002 is left out .*-00001.*: the run goes on from fallback/checkpoint-000001' \
  "${again[@]}"
check 'no checkpoint is said to be of another run' bash -c '! grep "not of this run" out err'
check 'the step is counted as repeated' grep -q '1 restart, 1 step repeated' out
check 'it is the same run' cmp <(head -n 1 output/resolved.ini) <(head -n 1 fallback/resolved.ini)
check 'its metrics stay where they are' test ! -e fallback/metrics.jsonl.old
prints 0 '^{"step":2,.*"resumed_step":1' tail -n 1 fallback/metrics.jsonl
check "step 2 is as it was before" cmp <(tail -n 1 output/metrics.jsonl | grep -o '"loss":[^,]*') \
  <(tail -n 1 fallback/metrics.jsonl | grep -o '"loss":[^,]*')
rm fallback/checkpoint-00000[12]/shard-*-00003.h5
prints 3 'shard-[0-9a-f-]*-00003' "${again[@]}" --train.max_steps 3
check "nothing was trained anew" test ! -e fallback/checkpoint-000003

printf x | dd of="$(echo output/checkpoint-000001/shard-*-00002.h5)" bs=1 seek=3000 conv=notrunc status=none
prints 3 '-00002\.h5 is damaged .*checksum' "$sft_inspect" output/checkpoint-000001 --verify
mkdir empty
prints 3 'no complete checkpoint' "$sft_inspect" empty
prints 3 'cannot use data as a model \(it is a folder of packed shards\)' "$sft_generate" data --prompt x
prints 3 'cannot use run.ini as a checkpoint \(it is an .ini file\)' "$sft_inspect" run.ini
prints 2 'no checkpoint' "$sft_inspect"
prints 2 'sft-inspect has no option --unknown' "$sft_inspect" "$checkpoint" --unknown
prints 2 'sft-inspect has no option --verfy .*did you mean --verify' "$sft_inspect" "$checkpoint" --verfy
prints 0 '^  rows .* of 64 tokens$' "$sft_prepare" --input pairs.jsonl --output renamed --max_seq_length 64
prints 2 'sft-prepare has no option --learning_rate .*give it to sft' \
  "$sft_prepare" --input pairs.jsonl --output other --learning_rate 8
prints 3 'cannot use data/train-00000.h5 as JSON lines \(it is an HDF5 file\)' \
  "$sft_prepare" --input data/train-00000.h5 --output other
prints 2 '^sft-inspect: error: --verify with --compare' "$sft_inspect" "$checkpoint" --verify --compare "$checkpoint"
prints 2 '^sft-inspect: error: --verify with --optimizer' "$sft_inspect" "$checkpoint" --verify --optimizer

finish_checks
