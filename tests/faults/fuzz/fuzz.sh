#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes sound shards, a checkpoint or a model folder of four ranks and a configuration with the real programs, files of
# records, tokenizers from the fixtures of tests/unit/text and folders of tests/hub, and gives them, or the chat template
# beside this script, to the fuzzer.
#
#   fuzz.sh KIND SEED COUNT
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
kind=$1 seed=$2 count=$3

# fuzz KIND PATH COUNT: so many damages to what is there.
fuzz() { succeeds "$1: $3 damages to ${2##*/}" "$bin/faults_fuzz" "$1" "$2" --seed "$seed" --count "$3"; }

# Random letters, so that shards have many chunks and do not shrink to nothing.
awk 'BEGIN {
  srand(1)
  for (i = 0; i < 2000; ++i) {
    text = ""
    for (j = 0; j < 10 + int(rand() * 60); ++j) text = text sprintf("%c", 97 + int(rand() * 26))
    printf "{\"prompt\": \"What is number %d?\", \"completion\": \"%s\"}\n", i, text
  }
}' >pairs.jsonl
"$sft_prepare" --input pairs.jsonl --output data --max_length 64 --num_shards 3 >/dev/null

cat >run.ini <<INI
# Comment
[model]
hidden_size = 16
num_hidden_layers = 2
num_attention_heads = 2
num_key_value_heads = 2
intermediate_size = 16
vocab_size = 272

[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = 1
precision = fp32
output_dir = output
logging_steps = 1
[optimizer]
learning_rate = 1e-3
lr_scheduler_type = constant
[device]
backend = cpu
INI

case $kind in
  packed) path=data ;;
  config) path=run.ini ;;
  template) path=$test_folder/template.jinja ;;
  records)
    mkdir records
    head -n 40 pairs.jsonl | gzip -c >records/a.jsonl.gz
    { echo '['; head -n 40 pairs.jsonl | sed 's/$/,/; $s/,$//'; echo ']'; } >records/b.json
    printf '%s\n' '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"text": "b"}]}]}' \
      '{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "weight": 0.5}]}' \
      '{"instruction": "a", "input": "b", "output": "c", "system": "d", "history": [["e", "f"]]}' \
      '{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}' \
      '{"input_ids": [1, 2, 3], "completion_mask": [0, 1, 1], "assistant_masks": [0, 1, 1]}' >records/c.jsonl
    path=records
    ;;
  checkpoint)
    succeeds 'a checkpoint' run 4 run.ini
    path=output/checkpoint-000001
    ;;
  tokenizer)
    for family in qwen2 llama2 mistral; do
      mkdir "$family"
      python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1]))["tokenizer"], open(sys.argv[2], "w"))' \
        "$source_folder/tests/unit/text/fixtures/$family.json" "$family/tokenizer.json"
      echo '{"bos_token": "<s>", "add_bos_token": true, "added_tokens_decoder": {"1": {"content": "<s>"}}}' \
        >"$family/tokenizer_config.json"
      fuzz tokenizer "$family" $((count / 3))
    done
    finish_checks
    ;;
  hub)
    for folder in "$source_folder"/tests/hub/folders/*/config.json; do
      family=$(basename "$(dirname "$folder")")
      mkdir "$family"
      cp "$(dirname "$folder")"/*.* "$family"
      fuzz weights "$family" $((count / 8))
    done
    succeeds 'a model folder' run 4 run.ini --checkpoint.save_hub_model true
    path=output/model
    ;;
esac
fuzz "$kind" "$path" "$count"
finish_checks
