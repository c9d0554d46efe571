#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What sft-generate says of one model in all its forms: checkpoint, output folder, model folder, adapters; conversations
# from standard input and on a terminal; and what it refuses.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_data 40
{ short_run 20 && printf '[optimizer]\nlearning_rate = 0.02\n'; } >run.ini
{ tiny_model num_hidden_layers=2 head_dim=16 intermediate_size=48 vocab_size=273 qk_norm=true && cat run.ini; } >first.ini
run 1 first.ini --train.output_dir first --checkpoint.save_hub_model true >/dev/null
run 1 run.ini --model.model_name_or_path first/model --train.output_dir lora --lora.use_peft true \
  --lora.lora_r 4 >/dev/null
"$sft_convert" --merge first/model lora/adapter merged --dtype float32 >/dev/null

# tokens WORD...: the new tokens of sft-generate, of each prompt on a line.
tokens() {
  "$sft_generate" "$@" --prompt $'What is number 7?\n' --prompt abc --max_new_tokens 24 --json 2>err |
    sed 's/.*"new_tokens"://' || cat err
}

# One model
whole=$(tokens first/checkpoint-000020)
same_text 'an output folder' "$whole" "$(tokens first)"
same_text 'a model folder' "$whole" "$(tokens first/model --tokenizer byte)"
[[ $(tokens first --dtype bfloat16 | wc -l) -eq 2 ]] || wrong 'bfloat16'

# With an adapter
adapted=$(tokens merged --tokenizer byte)
other_text 'an adapter changes the text' "$whole" "$adapted"
same_text 'a PEFT folder' "$adapted" "$(tokens first/model --tokenizer byte --adapter lora/adapter)"
cp -r lora/adapter by-path
python3 - by-path/adapter_config.json <<'PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
config["target_modules"] = [f"model.layers.{layer}.{part}" for layer in range(16) for part in
                            ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")]
json.dump(config, open(sys.argv[1], "w"))
PYTHON
same_text 'one whose modules are named by their paths' "$adapted" "$(tokens first/model --tokenizer byte --adapter by-path)"
same_text 'on a checkpoint' "$adapted" "$(tokens first --adapter lora/adapter)"
same_text 'out of a checkpoint' "$adapted" "$(tokens first --adapter lora)"
same_text 'a checkpoint of a LoRA run' "$adapted" "$(tokens lora)"
[[ $(tokens lora --dtype bfloat16 | wc -l) -eq 2 ]] || wrong 'bfloat16 with an adapter'

# Draws
drawn=$(tokens first --temperature 2 --seed 1)
same_text 'the same seed' "$drawn" "$(tokens first --temperature 2 --seed 1)"
other_text 'another seed' "$drawn" "$(tokens first --temperature 2 --seed 2)"
same_text 'the likeliest alone' "$whole" "$(tokens first --temperature 2 --top_k 1)"

# Conversations: /clear makes the first message the first again
printf 'Hello\nAgain\n\n/clear\nHello\n/exit\nnever\n' |
  "$sft_generate" first --chat --max_new_tokens 8 --json >talk.jsonl 2>/dev/null || wrong 'a conversation ends well'
[[ $(wc -l <talk.jsonl) -eq 3 ]] || wrong "a conversation of three messages: $(cat talk.jsonl)"
of_line() { sed -n "$1p" talk.jsonl | sed 's/.*"num_prompt_tokens":\([0-9]*\).*"new_tokens":/\1 /'; }
same_text 'a new conversation' "$(of_line 1)" "$(of_line 3)"
other_text 'a second message' "$(of_line 1)" "$(of_line 2)"
# chat WORD...: the new tokens of two equal messages of two conversations, drawn at random.
chat() {
  printf 'Hello\n/clear\nHello\n' | "$sft_generate" first --chat --max_new_tokens 12 --temperature 3 --json "$@" 2>/dev/null |
    sed 's/.*"new_tokens"://'
}
drawn=$(chat --seed 5)
same_text 'a conversation with the same seed' "$drawn" "$(chat --seed 5)"
other_text 'a conversation with another seed' "$drawn" "$(chat --seed 6)"
other_text 'answers of a conversation' "$(sed -n 1p <<<"$drawn")" "$(sed -n 2p <<<"$drawn")"
printf 'Hello\n%0500d\nBye\n' 1 | "$sft_generate" first --chat --max_new_tokens 8 --max_length 150 >out 2>err ||
  wrong 'a conversation that is full'
grep -q 'no room for this message' err || wrong 'a message that is too long'

# On a terminal, with a model whose answers do not end by themselves: its data are cut before their end
for i in $(seq 40); do printf '{"text": "%s"}\n' "$(printf 'to and fro, %.0s' {1..20})"; done >fro.jsonl
"$sft_prepare" --input fro.jsonl --output fro --max_length 48 >/dev/null 2>&1
run 1 first.ini --data.train_files 'fro/train-*.h5' --train.output_dir endless >/dev/null
"$sft_generate" endless --chat --prompt Hello --max_new_tokens 2000 --json >endless.json 2>/dev/null
grep -q '"finish_reason":"length"' endless.json || wrong "a model whose answers do not end: $(cut -c -300 endless.json)"
python3 "$test_folder/terminal.py" "$sft_generate" endless || wrong 'a conversation on a terminal'

# Refusals
refuses 2 'cannot find the tokenizer of first/model .*--tokenizer' "$sft_generate" first/model --prompt a
refuses 2 'lora/adapter is an adapter .*--adapter' "$sft_generate" lora/adapter --prompt a
refuses 2 'holds no adapter' "$sft_generate" first --adapter first --prompt a
refuses 2 'an adapter of its own' "$sft_generate" lora --adapter lora/adapter --prompt a
refuses 3 'cannot find an adapter in nowhere' "$sft_generate" first --adapter nowhere --prompt a
refuses 2 'do nothing at temperature 0' "$sft_generate" first --top_k 3 --prompt a
refuses 2 'top_p is 1\.5' "$sft_generate" first --top_p 1.5 --temperature 1 --prompt a
refuses 2 'dtype is float16' "$sft_generate" first --dtype float16 --prompt a
refuses 2 'no prompt' "$sft_generate" first
refuses 2 'without --chat' "$sft_generate" first --system x --prompt a

finish_checks
