#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Model folders as users meet them: a run leaves one, runs begin from it and from checkpoints, sft-convert goes both ways,
# and what does not fit is refused with one line.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

export HF_HOME=$work/cache

make_data 60

short_run 2 >run.ini
# A Qwen3 with every field, whose vocabulary two ranks do not divide.
{
  tiny_model num_hidden_layers=2 head_dim=16 intermediate_size=48 vocab_size=273 qk_norm=true tie_word_embeddings=true
  echo 'rope_scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}'
  cat run.ini
} >first.ini

# equal A B: the weights of two checkpoints are the same numbers.
equal() {
  "$sft_inspect" "$1" --compare "$2" --json | python3 -c '
import json, sys
tensors = json.load(sys.stdin)
assert len(tensors) > 20, len(tensors)
assert all(tensor["max_abs"] == 0 for tensor in tensors), tensors'
}

# Out of a run, and into one
succeeds 'a run leaves a model folder' run 4 first.ini --train.output_dir first --parallel.tp_size 2 \
  --checkpoint.save_hub_model true
succeeds 'none is left unless asked for' run 1 first.ini --train.output_dir plain --train.max_steps 1
[[ ! -e plain/model ]] || wrong 'plain/model is there'
succeeds 'config.json' grep -q '"Qwen3ForCausalLM"' first/model/config.json
succeeds 'a run begins from it' run 2 run.ini --model.model_name_or_path first/model --train.output_dir second \
  --train.max_steps 0 --parallel.tp_size 2
succeeds 'with its weights' equal first/checkpoint-000002 second/checkpoint-000000
succeeds 'and leaves a model folder' test -e second/model/model.safetensors
succeeds 'byte for byte the same' cmp first/model/model.safetensors second/model/model.safetensors
succeeds 'a run begins from a checkpoint' run 2 run.ini --model.model_name_or_path first --train.output_dir third --train.max_steps 0
check 'it says which one, once' test "$(grep -c '^using .*, saved last$' err)" -eq 1
succeeds 'with its weights' equal first/checkpoint-000002 third/checkpoint-000000
succeeds 'and records which one, whatever is saved there later' \
  grep -qx "model_name_or_path = $PWD/first/checkpoint-000002" third/resolved.ini
succeeds 'keys that agree are taken' run 1 first.ini --model.model_name_or_path first/model --train.output_dir fourth
succeeds 'it goes on from its own checkpoint' run 1 first.ini --model.model_name_or_path first/model \
  --train.output_dir fourth --checkpoint.resume_from_checkpoint auto --train.max_steps 3
mkdir -p cache/hub/models--org--name/{refs,snapshots}
printf 0a1b >cache/hub/models--org--name/refs/main
cp -r first/model cache/hub/models--org--name/snapshots/0a1b
printf '{"eos_token_id": 7}' >cache/hub/models--org--name/snapshots/0a1b/generation_config.json
succeeds 'a run begins from a name' run 1 run.ini --model.model_name_or_path org/name --train.output_dir named --train.max_steps 0
succeeds 'with its weights' equal first/checkpoint-000002 named/checkpoint-000000
succeeds 'what lies beside the weights comes along' grep -q 7 named/model/generation_config.json
succeeds 'a dry run' "$sft" run.ini --model.model_name_or_path org/name --dry-run --num_ranks 4

# sft-convert
succeeds 'to hub format, in several files' "$sft_convert" first hub --max_shard_size 8KB
succeeds 'with an index' test -e hub/model.safetensors.index.json
succeeds 'to a checkpoint' "$sft_convert" hub checkpoint
succeeds 'with the same weights' equal first/checkpoint-000002 checkpoint
for dtype in float32 bfloat16 float16; do
  succeeds "to $dtype" "$sft_convert" first "$dtype" --dtype "$dtype"
  succeeds "from $dtype" "$sft_convert" "$dtype" "$dtype-checkpoint"
  succeeds "to $dtype again" "$sft_convert" "$dtype-checkpoint" "$dtype-again" --dtype "$dtype"
  succeeds "bit for bit" cmp "$dtype/model.safetensors" "$dtype-again/model.safetensors"
done
succeeds 'to a folder with what lies beside the weights' "$sft_convert" named named-hub
succeeds 'from the origin' grep -q 7 named-hub/generation_config.json

# Refusals
succeeds 'rows longer than the window' run 1 first.ini --model.sliding_window 20 --train.output_dir window --train.max_steps 0
succeeds 'answers beyond it' "$sft_generate" window --prompt Hi --max_new_tokens 60
refuses 2 'model\.hidden_size = 64. does not fit the model in first/model \(it has hidden_size = 32\)' \
  "$sft" run.ini --model.model_name_or_path first/model --model.hidden_size 64
refuses 2 'tie_word_embeddings = false. does not fit' "$sft" run.ini --model.model_name_or_path first --model.tie_word_embeddings false
refuses 3 'cannot find the model org/nothing .*fetch\.py model org/nothing' "$sft" run.ini --model.model_name_or_path org/nothing
refuses 3 'neither config\.json with weights nor a checkpoint' "$sft" run.ini --model.model_name_or_path data
refuses 2 'tp_size' "$mpiexec" -np 3 "$sft" run.ini --model.model_name_or_path first/model --parallel.tp_size 3
experts=(--model.num_experts 4 --model.num_experts_per_tok 2 --model.moe_intermediate_size 24 --model.n_shared_experts 1)
for dry in '' --dry-run; do
  # shellcheck disable=SC2086  # no word where it is empty
  refuses 3 'the model cannot be written in hub format \(no family' "$sft" first.ini "${experts[@]}" --train.output_dir no-family \
    --checkpoint.save_hub_model true $dry
done
check 'before anything is done' test ! -e no-family
succeeds 'it trains without a model folder' run 2 first.ini "${experts[@]}" --train.output_dir no-family
cp -r hub damaged
truncate -s -1 damaged/model-00002-of-*.safetensors
refuses 3 'model-00002-of.*the file is cut' "$mpiexec" -np 2 "$sft" run.ini --model.model_name_or_path damaged --train.output_dir x
refuses 3 'model-00002-of.*the file is cut' "$sft_convert" damaged y
rm -rf damaged
cp -r hub damaged
sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 3/' damaged/config.json
refuses 3 'damaged does not fit the model \(it has no model/model\.layers\.2\.' \
  "$mpiexec" -np 2 "$sft" run.ini --model.model_name_or_path damaged --train.output_dir x
sed -i 's/"num_hidden_layers": 3/"num_hidden_layers": 1/' damaged/config.json
refuses 3 'the model has no model\.layers\.1\.' "$sft" run.ini --model.model_name_or_path damaged --train.output_dir x
sed -i 's/"num_hidden_layers": 1/"num_hidden_layers": 2/; s/"intermediate_size": 48/"intermediate_size": 50/' damaged/config.json
refuses 3 'mlp\.gate_proj\.weight has shape \(48, 32\), the model.s has \(50, 32\)' \
  "$sft" run.ini --model.model_name_or_path damaged --train.output_dir x
refuses 3 'shape \(48, 32\)' "$sft_convert" damaged y
sed -i 's/"silu"/"gelu"/' damaged/config.json
refuses 3 'hidden_act = "gelu".* of damaged/config\.json is not supported' "$sft" run.ini --model.model_name_or_path damaged
# Numbers that cannot be trained on. put FOLDER TENSOR INDEX NUMBER: changes an element; without an index all of them.
put() {
  python3 - "$@" <<'PYTHON'
import json, struct, sys
path, name, index, number = sys.argv[1] + "/model.safetensors", sys.argv[2], sys.argv[3], float(sys.argv[4])
data = bytearray(open(path, "rb").read())
size = 8 + struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:size])
for tensor in header if name == "all" else [name]:
    if tensor == "__metadata__":
        continue
    begin, end = (size + offset for offset in header[tensor]["data_offsets"])
    if index:
        begin += 4 * int(index)
        end = begin + 4
    data[begin:end] = struct.pack("<f", number) * ((end - begin) // 4)
open(path, "wb").write(data)
PYTHON
}
from_damaged=("$mpiexec" -np 2 "$sft" run.ini --model.model_name_or_path damaged --train.output_dir x --parallel.tp_size 2)
broken=model.layers.1.mlp.up_proj.weight
for number in nan inf -inf; do
  rm -rf damaged
  cp -r first/model damaged
  put damaged $broken 35 "$number"
  refuses 3 "model\.layers\.1\.mlp\.up_proj\.weight of .*damaged holds (NaN|Inf) .*\(1, 3\)" "${from_damaged[@]}"
  refuses 3 'up_proj\.weight of damaged holds' "$sft_convert" damaged y
  refuses 3 'up_proj\.weight of damaged holds' "$sft_generate" damaged --tokenizer byte --prompt Hi
done
for tensor in all $broken model.embed_tokens.weight; do
  rm -rf damaged
  cp -r first/model damaged
  put damaged "$tensor" '' 0
  refuses 3 '(up_proj|embed_tokens)\.weight of .*damaged is all zeros' "${from_damaged[@]}"
done
rm -rf damaged
cp -r first/model damaged
for tensor in model.layers.1.self_attn.o_proj.weight model.layers.1.mlp.down_proj.weight model.norm.weight; do
  put damaged "$tensor" '' 0
done
succeeds 'a block that was added, and norms, may be zeros' "${from_damaged[@]}"
check 'with a warning' grep -q '^warning: model\.layers\.1\.self_attn\.o_proj\.weight and 1 more matrices are all zeros' err
rm -rf x damaged
refuses 3 'it is there already' "$sft_convert" first hub
refuses 2 'no dtype "int8"' "$sft_convert" first z --dtype int8
refuses 2 '"5XB" is no size' "$sft_convert" first z --max_shard_size 5XB
refuses 2 'do not go with the model folder' "$sft_convert" hub z --dtype float16
refuses 2 'two folders are needed' "$sft_convert" first
[[ ! -e y && ! -e y.tmp && ! -e z && ! -e z.tmp ]] || wrong 'a refused conversion left something'

finish_checks
