#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every row of the table below starts sft on bad input and demands: the exit status, exactly one error line, and words
# that the line must hold (an extended regular expression).
#
#   bad_input.sh RANKS
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
ranks=$1

sft_on_ranks=("$mpiexec" -np "$ranks" "$sft")
if [[ $ranks -eq 1 ]]; then sft_on_ranks=("$sft"); fi # as users start it

make_run good.ini 60 2
"$sft_prepare" --input pairs.jsonl --output odd --max_length 50 >/dev/null
"$sft_prepare" --input pairs.jsonl --output long --max_length 4096 >/dev/null
"$sft_prepare" --input pairs.jsonl --output eval --max_length 32 >/dev/null

cat >>good.ini <<INI
[optimizer]
learning_rate = 0.001
lr_scheduler_type = constant
INI

# run WORD...: sft on all ranks.
run() { "${sft_on_ranks[@]}" "$@"; }

# refuse STATUS PATTERN WORD...: what all ranks agree on is one line and names no rank, whatever their number.
refuse() { refuses "$1" "$2" "${sft_on_ranks[@]}" "${@:3}"; }

# A good run, whose checkpoint the resumed ones below start from.
succeeds 'a good run' run good.ini
[[ $failures -eq 0 ]] || exit 1

# Configuration
refuse 2 'nowhere\.ini' nowhere.ini
printf 'compute_environment: LOCAL_MACHINE\n' >fsdp.yaml
refuse 2 '2 settings cannot be used' fsdp.yaml # Accelerate's, which says nothing of a model and of data
check 'it names the model' grep -q '^  no model is given' err
check 'and the data' grep -q '^  .data.train_files. is empty' err
printf 'a: [1, 2\n' >broken.yaml
refuse 2 'broken\.yaml' broken.yaml
refuse 2 'sft does not take .packing = true..*sft-prepare' good.ini --packing true
refuse 2 'variable NOWHERE_SET to be set' good.ini --train.output_dir "\$NOWHERE_SET/out"
refuse 2 'hidden_sizes.*hidden_size' good.ini --model.hidden_sizes 32
refuse 2 'hidden_size' good.ini --model.hidden_size many
refuse 2 'tp_size|mesh' good.ini --parallel.tp_size 7
refuse 2 'max_steps' good.ini --train.max_steps -5
refuse 2 'head_dim|num_attention_heads' good.ini --model.num_attention_heads 5 --model.num_key_value_heads 5
refuse 2 'train_files' good.ini --data.train_files ''
refuse 2 'vocab' good.ini --model.vocab_size 64
# shellcheck disable=SC2016  # as it is printed
refuse 2 'unknown key `x`' good.ini -x
refuse 2 'x max_length / sp_size = 1000000 x' good.ini --train.per_device_train_batch_size 1000000 \
  --data.train_files long/train-00000.h5
CUDA_VISIBLE_DEVICES='' refuse 2 'no CUDA (device|kernels)' good.ini --device.backend cuda
if [[ $ranks -eq 4 ]]; then
  succeeds 'rows that the mesh does not divide are padded as they are read' run good.ini --parallel.sp_size 4 \
    --data.train_files odd/train-00000.h5 --train.output_dir odd_output
fi

# Data
refuse 3 'cannot use pairs\.jsonl as packed data \(it is a JSON-lines file\): .*sft-prepare --input pairs\.jsonl' \
  good.ini --data.train_files pairs.jsonl
refuse 3 'data.train_files = data/train-' good.ini --data.train_files data
refuse 3 'missing' good.ini --data.train_files 'missing/train-*.h5'
name=$(printf 'n%.0s' $(seq 300))
refuse 3 'cannot use n+ \(File name too long\)' good.ini --data.train_files "$name"
refuse 3 'cannot use n+ \(File name too long\)' good.ini --checkpoint.resume_from_checkpoint "$name"
mkdir damaged
head -c 700 data/train-00000.h5 >damaged/train-00000.h5
refuse 3 'damaged/train-00000\.h5' good.ini --data.train_files damaged/train-00000.h5
echo 'no HDF5' >damaged/text.h5
refuse 3 'damaged/text\.h5' good.ini --data.train_files damaged/text.h5
touch a_file
refuse 3 'a_file' good.ini --train.output_dir a_file

# Evaluation
refuse 2 'eval_steps = 10. has no data' good.ini --train.eval_steps 10
refuse 2 'eval_on_start = true. has no data' good.ini --train.eval_on_start
refuse 2 'expected none, or a whole number from 0' good.ini --train.eval_steps -3
refuse 2 'has no folder' good.ini --train.offload_optimizer nvme
refuse 3 'cannot .*good.ini' good.ini --train.offload_optimizer nvme --train.offload_folder good.ini/state
refuse 2 'rows of odd/train-00000.h5 are longer .*--max_length 48' good.ini --data.eval_files 'odd/*.h5'
refuse 3 "no packed data at 'missing/train-\*\.h5'" good.ini --data.eval_files 'missing/train-*.h5'
refuse 3 'cannot use pairs\.jsonl as packed data' good.ini --data.eval_files pairs.jsonl
refuse 3 'damaged/train-00000\.h5' good.ini --data.eval_files damaged/train-00000.h5
cp eval/train-00000.h5 damaged/middle.h5
printf 'damage' | dd of=damaged/middle.h5 bs=1 seek=3000 conv=notrunc status=none
refuse 3 'damaged/middle\.h5' good.ini --data.eval_files damaged/middle.h5 --train.output_dir middle
/usr/bin/python3 - eval/train-00000.h5 <<'PYTHON'
import h5py, sys
with h5py.File(sys.argv[1]) as source:
    for name, attributes in (("other.h5", {"tokenizer": "other", "tokenizer_fingerprint": "other"}), ("wide.h5", {"vocab_size": 300})):
        with h5py.File(name, "w", libver=("v110", "v110")) as copy:
            for key in source:
                source.copy(key, copy)
            for key, value in source.attrs.items():
                if key != "fingerprint":
                    copy.attrs[key] = value
            for key, value in attributes.items():
                copy.attrs[key] = value
PYTHON
refuse 3 "cannot evaluate on other\.h5 \(its tokenizer is 'other'" good.ini --data.eval_files other.h5
refuse 2 'the model cannot read wide\.h5 \(its tokens run to vocab_size = 300' good.ini --data.eval_files wide.h5

mkdir copied
ln data/train-00000.h5 copied/linked.h5
cp data/train-00000.h5 copied/train-00000.h5
for same in data/train-00000.h5 ./data/../data/train-00000.h5 copied/linked.h5; do
  refuse 2 "$same is in data\.train_files and in data\.eval_files .*--eval_split" good.ini --data.eval_files "$same"
done
succeeds 'evaluation on a copy' run good.ini --data.eval_files copied/train-00000.h5 --train.output_dir copied/output
check 'it warns once' test "$(grep -c 'warning: copied/train-00000\.h5 of data\.eval_files holds the rows of data/train-00000\.h5' err)" = 1

# Model folders of strangers
mkdir folder
mkfifo folder/config.json
refuse 3 'cannot read folder/config\.json \(it is a pipe' good.ini --model.model_name_or_path folder
rm folder/config.json
cat >folder/config.json <<'JSON'
{"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32,
 "vocab_size": 272, "rope_scaling": {"rope_type": "\u001b[2Jred"}}
JSON
refuse 3 '"\\x1b\[2Jred" is not supported' good.ini --model.model_name_or_path folder
check 'no command of a file reaches the terminal' bash -c '! LC_ALL=C grep -q "[^[:print:][:space:]]" out err'

# Resuming
refuse 3 'checkpoint-000777' good.ini --checkpoint.resume_from_checkpoint output/checkpoint-000777
refuse 2 'model\.rope_theta' good.ini --checkpoint.resume_from_checkpoint auto --model.rope_theta 500000
refuse 2 'data\.seed' good.ini --checkpoint.resume_from_checkpoint auto --data.seed 7
cp -r output damaged/output
shard=$(find damaged/output/checkpoint-000002 -name 'shard-*.h5' | sort | head -n 1)
head -c 3000 "$shard" >cut.h5
mv cut.h5 "$shard"
refuse 3 'checkpoint-000002' good.ini --checkpoint.resume_from_checkpoint damaged/output/checkpoint-000002 \
  --train.max_steps 4

# Numbers
refuse 4 'step [0-9]+.*rank' good.ini --optimizer.learning_rate 1e38 --train.max_steps 5 --train.output_dir diverged

finish_checks
