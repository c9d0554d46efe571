#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A base in 4 bits below adapters that drop, the whole program on an emulated GPU: it trains as on CPUs, and with launches
# that are repeated as CUDA graphs by the same bits as without.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

sft_on_cpus=$sft sft=$bin/sft_emulated
# shellcheck source=tests/shell/gpu_training.sh
source "$frame_folder/gpu_training.sh"

num_steps=3
make_data 24
{ tiny_model hidden_size=64 intermediate_size=64 num_hidden_layers=2 && model_run base; } >base.ini
{
  printf '[model]\nmodel_name_or_path = base/model\n'
  printf '[lora]\nuse_peft = true\nlora_r = 4\nlora_dropout = 0.1\nload_in_4bit = true\n'
  short_run $num_steps 'logging_steps = 1'
  printf 'gradient_accumulation_steps = 3\n[optimizer]\nlearning_rate = 0.01\n[checkpoint]\nsave_strategy = no\n'
} >lora.ini

succeeds 'a model to begin from' "$sft_on_cpus" base.ini
for form in 'nf4 false' 'fp4 true'; do
  read -r type nested <<<"$form"
  run=("$sft" lora.ini --lora.bnb_4bit_quant_type "$type" --lora.use_bnb_nested_quant "$nested")
  succeeds "$form: on a CPU" "${run[@]}" --device.backend cpu --train.output_dir "cpu_$type"
  for graphs in true false; do
    succeeds "$form: on a GPU, graphs $graphs" "${run[@]}" --device.backend cuda --device.cuda_graphs $graphs \
      --train.output_dir "gpu_${type}_$graphs"
  done
  check "$form: GPUs train like CPUs" alike "cpu_$type" "gpu_${type}_false"
  check "$form: graphs change no bit" same_bits "gpu_${type}_true" "gpu_${type}_false"
done
check "the forms differ" test "$(losses gpu_nf4_true)" != "$(losses gpu_fp4_true)"
finish_checks
