#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Model folders as users meet them: a run leaves one, runs begin from it and from checkpoints, sft-convert goes both ways,
# and what does not fit is refused with one line.
#
#   programs.sh MPIEXEC SFT SFT_PREPARE SFT_CONVERT SFT_INSPECT
# shellcheck disable=SC2317  # check() calls functions by name
set -euo pipefail

mpiexec=$1 sft=$2 sft_prepare=$3 sft_convert=$4 sft_inspect=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export HF_HOME=$work/cache

for i in $(seq 60); do
  printf '{"prompt": "What is number %d?\\n", "completion": "the one after %d"}\n' "$i" $((i - 1))
done >pairs.jsonl
"$sft_prepare" --input pairs.jsonl --output data --max_length 48 >/dev/null

cat >run.ini <<INI
[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = 2
precision = fp32
[device]
backend = cpu
INI
# A Qwen3 with every field, whose vocabulary two ranks do not divide.
cat >model.ini <<INI
[model]
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 16
intermediate_size = 48
vocab_size = 273
qk_norm = true
tie_word_embeddings = true
rope_scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
INI
cat model.ini run.ini >first.ini

failures=0
# check NAME WORD...: the command must end well.
check() {
  local name=$1
  shift
  if "$@" >out 2>err; then
    printf 'ok    %s\n' "$name"
  else
    failures=$((failures + 1))
    printf 'WRONG %s: %s\n' "$name" "$*"
    sed 's/^/      /' out err
  fi
}
# refuse STATUS PATTERN WORD...: one error line that holds the pattern (an extended regular expression).
refuse() {
  local expected=$1 pattern=$2 status=0
  shift 2
  timeout 60 "$@" >out 2>err || status=$?
  if [[ $status -eq $expected && $(grep -c 'error: ' err) -eq 1 ]] && grep 'error: ' err | grep -qE -- "$pattern"; then
    printf 'ok    %s\n' "$(grep 'error: ' err | cut -c -150)"
  else
    failures=$((failures + 1))
    printf 'WRONG %s: status %s, not %s, or not one line like /%s/ in\n' "$*" "$status" "$expected" "$pattern"
    sed 's/^/      /' out err
  fi
}
# equal A B: the weights of two checkpoints are the same numbers.
equal() {
  "$sft_inspect" "$1" --compare "$2" --json | python3 -c '
import json, sys
tensors = json.load(sys.stdin)
assert len(tensors) > 20, len(tensors)
assert all(tensor["max_abs"] == 0 for tensor in tensors), tensors'
}
run() { "$mpiexec" -np "$1" "$sft" "${@:2}"; }

# Out of a run, and into one
check 'a run leaves a model folder' run 4 first.ini --train.output_dir first --parallel.tp_size 2 \
  --checkpoint.save_hub_model true
check 'none is left unless asked for' run 1 first.ini --train.output_dir plain --train.max_steps 1
[[ ! -e plain/model ]] || { failures=$((failures + 1)); echo 'WRONG plain/model is there'; }
check 'config.json' grep -q '"Qwen3ForCausalLM"' first/model/config.json
check 'a run begins from it' run 2 run.ini --model.model_name_or_path first/model --train.output_dir second \
  --train.max_steps 0 --parallel.tp_size 2
check 'with its weights' equal first/checkpoint-000002 second/checkpoint-000000
check 'and leaves a model folder' test -e second/model/model.safetensors
check 'byte for byte the same' cmp first/model/model.safetensors second/model/model.safetensors
check 'a run begins from a checkpoint' run 2 run.ini --model.model_name_or_path first --train.output_dir third --train.max_steps 0
check 'with its weights' equal first/checkpoint-000002 third/checkpoint-000000
check 'keys that agree are taken' run 1 first.ini --model.model_name_or_path first/model --train.output_dir fourth
check 'it goes on from its own checkpoint' run 1 first.ini --model.model_name_or_path first/model \
  --train.output_dir fourth --checkpoint.resume_from_checkpoint auto --train.max_steps 3
mkdir -p cache/hub/models--org--name/{refs,snapshots}
printf 0a1b >cache/hub/models--org--name/refs/main
cp -r first/model cache/hub/models--org--name/snapshots/0a1b
printf '{"eos_token_id": 7}' >cache/hub/models--org--name/snapshots/0a1b/generation_config.json
check 'a run begins from a name' run 1 run.ini --model.model_name_or_path org/name --train.output_dir named --train.max_steps 0
check 'with its weights' equal first/checkpoint-000002 named/checkpoint-000000
check 'what lies beside the weights comes along' grep -q 7 named/model/generation_config.json
check 'a dry run' "$sft" run.ini --model.model_name_or_path org/name --dry-run --num_ranks 4

# sft-convert
check 'to hub format, in several files' "$sft_convert" first hub --max_shard_size 8KB
check 'with an index' test -e hub/model.safetensors.index.json
check 'to a checkpoint' "$sft_convert" hub checkpoint
check 'with the same weights' equal first/checkpoint-000002 checkpoint
for dtype in float32 bfloat16 float16; do
  check "to $dtype" "$sft_convert" first "$dtype" --dtype "$dtype"
  check "from $dtype" "$sft_convert" "$dtype" "$dtype-checkpoint"
  check "to $dtype again" "$sft_convert" "$dtype-checkpoint" "$dtype-again" --dtype "$dtype"
  check "bit for bit" cmp "$dtype/model.safetensors" "$dtype-again/model.safetensors"
done
check 'to a folder with what lies beside the weights' "$sft_convert" named named-hub
check 'from the origin' grep -q 7 named-hub/generation_config.json

# Refusals
refuse 2 'model\.hidden_size = 64. does not fit the model in first/model \(it has hidden_size = 32\)' \
  "$sft" run.ini --model.model_name_or_path first/model --model.hidden_size 64
refuse 2 'tie_word_embeddings = false. does not fit' "$sft" run.ini --model.model_name_or_path first --model.tie_word_embeddings false
refuse 3 'cannot find the model org/nothing .*fetch\.py model org/nothing' "$sft" run.ini --model.model_name_or_path org/nothing
refuse 3 'neither config\.json with weights nor a checkpoint' "$sft" run.ini --model.model_name_or_path data
refuse 2 'tp_size' "$mpiexec" -np 3 "$sft" run.ini --model.model_name_or_path first/model --parallel.tp_size 3
cp -r hub damaged
truncate -s -1 damaged/model-00002-of-*.safetensors
refuse 3 'model-00002-of.*the file is cut' "$mpiexec" -np 2 "$sft" run.ini --model.model_name_or_path damaged --train.output_dir x
refuse 3 'model-00002-of.*the file is cut' "$sft_convert" damaged y
rm -rf damaged
cp -r hub damaged
sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 3/' damaged/config.json
refuse 3 'damaged does not fit the model \(it has no model/model\.layers\.2\.' \
  "$mpiexec" -np 2 "$sft" run.ini --model.model_name_or_path damaged --train.output_dir x
sed -i 's/"num_hidden_layers": 3/"num_hidden_layers": 1/' damaged/config.json
refuse 3 'the model has no model\.layers\.1\.' "$sft" run.ini --model.model_name_or_path damaged --train.output_dir x
sed -i 's/"num_hidden_layers": 1/"num_hidden_layers": 2/; s/"intermediate_size": 48/"intermediate_size": 50/' damaged/config.json
refuse 3 'mlp\.gate_proj\.weight has shape \(48, 32\), the model.s has \(50, 32\)' \
  "$sft" run.ini --model.model_name_or_path damaged --train.output_dir x
refuse 3 'shape \(48, 32\)' "$sft_convert" damaged y
sed -i 's/"silu"/"gelu"/' damaged/config.json
refuse 3 'hidden_act = "gelu".* of damaged/config\.json is not supported' "$sft" run.ini --model.model_name_or_path damaged
refuse 3 'it is there already' "$sft_convert" first hub
refuse 2 'no dtype "int8"' "$sft_convert" first z --dtype int8
refuse 2 '"5XB" is no size' "$sft_convert" first z --max_shard_size 5XB
refuse 2 'do not go with the model folder' "$sft_convert" hub z --dtype float16
refuse 2 'two folders are needed' "$sft_convert" first
[[ ! -e y && ! -e z ]] || { failures=$((failures + 1)); echo 'WRONG a refused conversion left something'; }

exit "$((failures > 0))"
