#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bases that are kept in 4 bits: the same losses on every mesh and at every stage, those of the folder of bitsandbytes whose
# codes they are, and less memory.
# shellcheck disable=SC2016
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
folders=$test_folder/folders

make_data 80
{
  printf '[model]\nmodel_name_or_path = base/model\n[lora]\nuse_peft = true\nlora_r = 4\nlora_dropout = 0\n'
  short_run 4 'logging_steps = 1'
  printf '[optimizer]\nlearning_rate = 0.01\n[checkpoint]\nsave_steps = 2\n'
} >lora.ini

{ tiny_model hidden_size=128 intermediate_size=128 num_hidden_layers=2 && model_run base; } >base.ini # matrices of whole blocks
succeeds 'a model to begin from' run 1 base.ini
succeeds 'adapters beside its numbers' run 1 lora.ini --train.output_dir numbers --train.gradient_accumulation_steps 4
for form in 'nf4 false' 'fp4 true'; do
  read -r type nested <<<"$form"
  kept=(--lora.load_in_4bit true --lora.bnb_4bit_quant_type "$type" --lora.use_bnb_nested_quant "$nested")
  succeeds "$form: a base in 4 bits" run 1 lora.ini "${kept[@]}" --train.output_dir "alone-$type" \
    --train.gradient_accumulation_steps 4
  check "$form: is another base" other_losses "alone-$type" numbers 1e-5
  for mesh in '3 --parallel.dp_shard_size 4' '2 --parallel.dp_shard_size 4' '1 --parallel.tp_size 2 --parallel.sp_size 2' \
    '3 --parallel.tp_size 2 --parallel.dp_shard_size 2 --parallel.reshard_after_forward false' \
    '3 --parallel.dp_shard_size 4 --parallel.reshard_after_forward 2 --parallel.fsdp_units parts'; do
    read -ra words <<<"$mesh"
    accumulation=1
    if [[ $mesh == *sp_size* ]]; then accumulation=4; elif [[ $mesh == *tp_size* ]]; then accumulation=2; fi
    rm -rf mesh
    succeeds "$form: stage $mesh" run 4 lora.ini "${kept[@]}" --train.output_dir mesh --parallel.zero_stage "${words[@]}" \
      --train.gradient_accumulation_steps "$accumulation"
    check 'has the same losses' same_losses mesh "alone-$type" 1e-5
  done
  succeeds 'and resumes on another mesh' run 1 lora.ini "${kept[@]}" --train.output_dir resumed \
    --train.gradient_accumulation_steps 4 --checkpoint.resume_from_checkpoint mesh/checkpoint-000002
  rm -rf resumed
done

# The codes of a folder
given=(--model.model_name_or_path "$folders/fp4" --data.train_files given.h5)
/usr/bin/python3 - <<'PYTHON'
import h5py, numpy as np
rows, length, vocab = 8, 32, 11
with h5py.File("given.h5", "w") as file:
    file["tokens"] = np.random.default_rng(1).integers(0, vocab, (rows, length)).astype(np.int32)
    file["loss_weight"] = np.ones((rows, length), np.float32)
    file["document_lengths"] = np.full(rows, length, np.int32)
    file["document_offsets"] = np.arange(rows + 1, dtype=np.int64)
    file.attrs.update(dict(
        format="sft-packed", format_version=1, max_length=length, vocab_size=vocab, pad_token_id=0, eos_token_id=0,
        tokenizer="none", num_rows=rows, num_documents=rows, num_tokens=rows * length,
        num_target_tokens=rows * (length - 1), packing_strategy="bfd", source="four_bits.sh"))
PYTHON
succeeds 'a folder in 4 bits, read as numbers' run 1 lora.ini "${given[@]}" --train.output_dir read
succeeds 'and kept as it is' run 2 lora.ini "${given[@]}" --train.output_dir kept --lora.load_in_4bit true \
  --lora.bnb_4bit_quant_type fp4 --parallel.dp_shard_size 1 --parallel.sp_size 2
check 'has the same losses' same_losses kept read 1e-5
refuses 3 'q_proj.weight of .* is in fp4, not in nf4 .*bnb_4bit_quant_type' "$sft" lora.ini "${given[@]}" \
  --train.output_dir other --lora.load_in_4bit true

# Folders that sft-convert quantizes
for form in 'nf4' 'fp4 --double_quant'; do
  read -ra words <<<"$form"
  succeeds "sft-convert --quantize $form" "$sft_convert" --quantize "${words[0]}" base/model "made-${words[0]}" "${words[@]:1}"
  nested=$([[ $form == *double* ]] && echo true || echo false)
  succeeds 'makes a base' run 2 lora.ini --model.model_name_or_path "made-${words[0]}" --train.output_dir "from-${words[0]}" \
    --lora.load_in_4bit true --lora.bnb_4bit_quant_type "${words[0]}" --lora.use_bnb_nested_quant "$nested" \
    --parallel.dp_shard_size 2 --train.gradient_accumulation_steps 2
  check 'of the same codes' same_losses "from-${words[0]}" "alone-${words[0]}" 1e-5
done
refuses 3 'is quantized already' "$sft_convert" --quantize nf4 made-nf4 again

# Folders that hold some matrices as numbers ("dynamic"): these stay numbers, and so do those that are one product with them.
with_tensors made-nf4 base/model <<'PYTHON'
import sys
import tensor_files

def write(folder, tensors, skipped):
    tensor_files.write(sys.argv[1], folder, tensors,
                       lambda config: config["quantization_config"].update(llm_int8_skip_modules=skipped))

codes, numbers = tensor_files.read(sys.argv[1]), tensor_files.read(sys.argv[2])
skipped = ["lm_head", "model.layers.0.mlp", "model.layers.1.self_attn.q_proj"]
dynamic = {}
for name, tensor in codes.items():
    weight = name.split(".weight")[0] + ".weight"
    if any(weight.startswith(module + ".") for module in skipped):
        dynamic[weight] = numbers[weight]
    else:
        dynamic[name] = tensor
write("dynamic", dynamic, skipped)
write("unnamed", dynamic, skipped[:2])  # q_proj is a number without being named
half = {name: ("BF16", [len(data) // 2, 1], data) if dtype == "U8" and shape[1:] == [1] else (dtype, shape, data)
        for name, (dtype, shape, data) in codes.items()}
write("half", half, None)
PYTHON
dynamic=(--model.model_name_or_path dynamic)
alone=(--train.gradient_accumulation_steps 4)
succeeds 'a dynamic folder, read as numbers' run 1 lora.ini "${dynamic[@]}" "${alone[@]}" --train.output_dir dynamic-numbers
succeeds 'and kept as it is' run 1 lora.ini "${dynamic[@]}" "${alone[@]}" --train.output_dir dynamic-kept --lora.load_in_4bit true
check 'with a word on it' grep -q 'warning: 6 matrices of .*dynamic stay numbers .*model.layers.0.mlp.gate_proj' err
check 'has the same losses' same_losses dynamic-kept dynamic-numbers 1e-5
check 'which are not those of codes alone' other_losses dynamic-kept alone-nf4 1e-5
for mesh in '3 --parallel.dp_shard_size 4' '1 --parallel.tp_size 2 --parallel.dp_shard_size 2'; do
  read -ra words <<<"$mesh"
  rm -rf mesh
  succeeds "on the mesh $mesh" run 4 lora.ini "${dynamic[@]}" --lora.load_in_4bit true --train.output_dir mesh \
    --parallel.zero_stage "${words[@]}" --train.gradient_accumulation_steps "$([[ $mesh == *tp_size* ]] && echo 2 || echo 1)"
  check 'has the same losses' same_losses mesh dynamic-kept 1e-5
done
succeeds 'and resumes' run 1 lora.ini "${dynamic[@]}" "${alone[@]}" --lora.load_in_4bit true --train.output_dir resumed \
  --checkpoint.resume_from_checkpoint mesh/checkpoint-000002
refuses 2 'llm_int8_skip_modules. does not fit the model in .*dynamic .it holds model.layers.0.self_attn.o_proj in 4 bits' \
  "$sft" lora.ini "${dynamic[@]}" --lora.load_in_4bit true --lora.llm_int8_skip_modules o_proj
refuses 3 'is not stored as its config.json says .*model.layers.1.self_attn.q_proj.weight holds plain numbers' \
  "$sft" lora.ini --model.model_name_or_path unnamed --train.output_dir other
succeeds 'codes in storage of another dtype' run 1 lora.ini --model.model_name_or_path half --train.output_dir half-kept \
  --lora.load_in_4bit true "${alone[@]}"
check 'are the same codes' same_losses half-kept alone-nf4 1e-5

# Modules that are left out of a model of numbers
succeeds 'with modules left out' run 1 lora.ini --lora.load_in_4bit true --train.output_dir left-out \
  --train.gradient_accumulation_steps 4 --lora.llm_int8_skip_modules 'model.layers.0.mlp q_proj k_proj v_proj lm_head'
check 'their numbers stay' other_losses left-out alone-nf4 1e-5
refuses 2 'leaves model.layers.0.self_attn.k_proj out .*are one product' "$sft" lora.ini --lora.load_in_4bit true \
  --lora.llm_int8_skip_modules q_proj
refuses 2 'names model.layers.7.mlp .no linear layer' "$sft" lora.ini --lora.load_in_4bit true \
  --lora.llm_int8_skip_modules model.layers.7.mlp
refuses 2 'llm_int8_skip_modules. has nothing to do' "$sft" lora.ini --lora.llm_int8_skip_modules q_proj
refuses 2 'double_quant has nothing to do' "$sft_convert" --double_quant base/model again

# Memory
succeeds 'a dry run' "$sft" lora.ini --dry-run --json
most_bytes parameters <out >numbers-bytes
succeeds 'of a base in 4 bits' "$sft" lora.ini --dry-run --json --lora.load_in_4bit true
check 'has smaller parameters' test "$(most_bytes parameters <out)" -lt "$(($(cat numbers-bytes) / 2))"
most_bytes parameters <out >code-bytes
succeeds 'of a dynamic one' "$sft" lora.ini --dry-run --json --lora.load_in_4bit true --model.model_name_or_path dynamic
check 'has what its numbers take, and less than all numbers' python3 -c \
  'import sys; codes, dynamic, numbers = map(int, sys.argv[1:]); assert codes + 3 * 128 * 128 * 3 < dynamic < numbers' \
  "$(cat code-bytes)" "$(most_bytes parameters <out)" "$(cat numbers-bytes)"

# What cannot be
refuses 2 'needs `lora.use_peft`' "$sft" base.ini --lora.load_in_4bit true
refuses 2 'needs `model.model_name_or_path`' "$sft" base.ini --lora.load_in_4bit true --lora.use_peft true \
  --checkpoint.save_hub_model false
refuses 2 'does not fit num_attention_heads \* head_dim = 128 .*rows of 32 numbers on each rank of tp' \
  "$mpiexec" -np 4 "$sft" lora.ini --lora.load_in_4bit true --parallel.tp_size 4
finish_checks
