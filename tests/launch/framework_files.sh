#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The published files of Axolotl and LLaMA-Factory (framework_files.txt): what is made of each, and runs by some of them.
#
#   framework_files.sh [--write AXOLOTL LLAMA_FACTORY]
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
# shellcheck source=tests/shell/tiny_hub.sh
source "$frame_folder/tiny_hub.sh"
export SFT_CACHE=$work/cache HF_HUB_OFFLINE=1 CUDA_VISIBLE_DEVICES=

make_tiny_model
mkdir experts
sed -e '1a num_experts = 4\nnum_experts_per_tok = 2\nmoe_intermediate_size = 64\nnorm_topk_prob = true\nqk_norm = true' -e 's/^output_dir = .*/output_dir = experts/' \
  tiny.ini >experts.ini
"$sft" experts.ini >out 2>err || wrong 'no model with experts'
cp tiny/model/tokenizer*.json experts/model/

table() { python3 "$test_folder/framework_files.py" "$test_folder/framework_files.txt" "$sft_launch" "$work/tiny/model" "$work/experts/model" "$@"; }
if [[ ${1-} == --write ]]; then
  table "$@"
  exit
fi
succeeds 'each file runs, or names what it cannot obey' table
cat out

# Runs, of a step each
cat >chats.jsonl <<'JSON'
{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]}
{"conversations": [{"from": "human", "value": "And"}, {"from": "gpt", "value": "No"}]}
JSON
cat >alpaca.jsonl <<'JSON'
{"instruction": "Add", "input": "1 2", "output": "3"}
{"instruction": "Greet", "output": "Hello"}
{"instruction": "Left", "output": "out"}
JSON
cat >axolotl.yml <<YAML
base_model: tiny/model
adapter: qlora
load_in_4bit: true
lora_r: 4
lora_alpha: 8
lora_target_linear: true
sequence_len: 128
micro_batch_size: 1
learning_rate: 1e-3
optimizer: adamw_bnb_8bit
gradient_checkpointing: offload
special_tokens:
  pad_token: <not there>
  eos_token: <|im_end|>
datasets:
  - {path: chats.jsonl, type: chat_template, field_messages: conversations, chat_template: chatml,
     message_property_mappings: {role: from, content: value}}
output_dir: by-axolotl
YAML
cat >chatml.jinja <<'JINJA'
{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
JINJA
trains=(--max_steps 1 --num_processes 1 --use_cpu)
succeeds "a file of Axolotl's trains" "$sft_launch" sft --config axolotl.yml "${trains[@]}" --chat_template_path chatml.jinja \
  --preview 2
check 'on what is said, and the token that ends it' grep -qxF '⟦Yo<|im_end|>⟧' out
check 'and on no more' test "$(grep -c '⟦' out)" -eq 2
check 'and leaves an adapter' test -s by-axolotl/adapter/adapter_model.safetensors

sed -e 's#^base_model.*#base_model: experts/model\nquantize_moe_experts: true#' -e 's/by-axo/experts-by-axo/' \
  -e 's/^lora_target_linear.*/lora_target_modules: [q_proj, v_proj, shared_expert.up_proj]/' axolotl.yml >experts.yml
succeeds 'experts in 4 bits train' "$sft_launch" sft --config experts.yml "${trains[@]}" --chat_template_path chatml.jinja
check 'and are' grep -q 'quantize_moe_experts = true' experts-by-axolotl/launch.ini
check 'without layers that no model has' grep -q 'no layer here is called shared_expert.up_proj' err

sed -e 's/^  - {.*/  - {path: alpaca.jsonl, type: alpaca, split: "train[:2]"}/' -e '/message_prop/d' \
  -e 's/by-axo/alpaca-by-axo/' -e 's/_len: 128/_len: 512/' axolotl.yml >alpaca.yml
succeeds 'prompts around Alpaca train' "$sft_launch" sft --config alpaca.yml "${trains[@]}" --preview 2
check 'with the words of Axolotl' grep -qxF '### Response:' out
check 'on the answer' grep -qF '⟦3<|im_end|>⟧' out
check 'of the part that the split names' grep -qx '  left out            1 .*' out

# A recipe as the alignment handbook has them: its template is a text, its data a mixture of columns, merged of an anchor
cat >recipe.yaml <<'YAML'
model_name_or_path: tiny/model
chat_template: "{% for message in messages %}\n{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token }}\n{% endfor %}"
dataset_mixture:
  datasets:
    - &first {id: both.jsonl, split: train, columns: [prompt, completion], weight: 1.0}
    - {<<: *first, id: more.jsonl}
  seed: 0
max_seq_length: 128
packing: true
per_device_train_batch_size: 1
overwrite_output_dir: true
use_liger: true
output_dir: by-recipe
YAML
asked='[{"role": "user", "content": "Hi"}]' said='[{"role": "assistant", "content": "Yo"}]'
echo "{\"prompt\": $asked, \"completion\": $said, \"messages\": $asked}" | tee both.jsonl >more.jsonl
succeeds 'a recipe trains' "$sft_launch" sft --config recipe.yaml "${trains[@]}" --preview 2
check 'on turns as its template writes them' grep -q '⟦<|assistant|>' out
check 'of both data sets' grep -qE '^  records +2$' out
check 'and of its columns alone' grep -qE '^  dropped fields +messages 2$' out

echo '{"mine": {"file_name": "alpaca.jsonl"}}' >dataset_info.json
cat >factory.yaml <<YAML
model_name_or_path: tiny/model
stage: sft
do_train: true
finetuning_type: full
dataset: mine
dataset_dir: $work
template: qwen3
cutoff_len: 128
max_samples: 2
per_device_train_batch_size: 1
learning_rate: 1e-3
output_dir: by-factory
YAML
succeeds "a file of LLaMA-Factory's trains" "$sft_launch" sft --config factory.yaml "${trains[@]}" \
  --chat_template_path chatml.jinja --preview 2
check 'says whose template it takes' grep -q "template qwen3 in factory.yaml:7: conversations are written by" err
check 'on the answers' grep -qF '⟦Hello<|im_end|>' out
check 'of its first records' grep -qx '  left out            1 .*' out
succeeds 'other data in its place' "$sft_launch" sft --config factory.yaml --data_files chats.jsonl \
  --chat_template_path chatml.jinja --print
sed -i 's/^dataset: mine/dataset: yours/' factory.yaml
refuses 2 'the data set .yours. in factory.yaml:5' "$sft_launch" sft --config factory.yaml --print

finish_checks
