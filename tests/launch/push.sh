#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-launch --push_to_hub: what a run leaves is sent by the user's own `hf`, which is a script here that notes its words.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
# shellcheck source=tests/shell/tiny_hub.sh
source "$frame_folder/tiny_hub.sh"
export SFT_CACHE=$work/cache
unset HF_HUB_OFFLINE HF_TOKEN
make_tiny_model
make_pairs 24
mkdir records tools
cp pairs.jsonl records/train.jsonl
put_into_hub model org/tiny tiny/model/*
put_into_hub dataset org/pairs records/*
launch=("$sft_launch" sft --max_length 64 --use_cpu --per_device_train_batch_size 1 --max_steps 2 --num_processes 1
  --model_name_or_path org/tiny --dataset_name org/pairs --push_to_hub)

# Before anything is trained
plain_path=$(printf '%s' "$PATH" | tr : '\n' | while read -r folder; do
  [[ -e $folder/hf || -e $folder/huggingface-cli ]] || printf '%s:' "$folder"
done)
PATH=$plain_path refuses 2 'no .hf. to send.*huggingface-cli.*PATH.*pip install huggingface_hub' "${launch[@]}" --output_dir none
check 'without an hf nothing is done' test ! -e none
cat >tools/hf <<'HF'
#!/usr/bin/env bash
printf '%s\n' "$(basename "$0") token=${HF_TOKEN-} $*" >>"$CALLS"
if [[ $* == *${FAILS_AT:-nothing}* ]]; then
  printf '403 Forbidden: you have no rights\n\n\033[90mHint: see more of it.\033[0m\n' >&2
  exit 1
fi
[[ $3 != *.ini ]] || echo "https://huggingface.co/somebody/$2/blob/main/launch.ini"
if [[ -d $3 ]]; then ls "$3" >>"$CALLS"; fi
HF
chmod +x tools/hf
export PATH=$work/tools:$plain_path CALLS=$work/calls
HF_HUB_OFFLINE=1 refuses 2 'push_to_hub needs the network' "${launch[@]}" --output_dir none
refuses 2 'push_to_hub has nothing to send' "${launch[@]}" --save_hub_model false --output_dir none
refuses 2 'hub_strategy = often.*it is end, every_save' "${launch[@]}" --hub_strategy often --output_dir none
refuses 2 'hub_model_id = a b.*a repository of the hub is OWNER/NAME' "${launch[@]}" --hub_model_id 'a b' --output_dir none
check 'nothing was sent' test ! -e calls
FAILS_AT=launch.ini refuses 2 'cannot write to refused of the hub.*1: 403 Forbidden: you have no rights\): log in with .hf auth login' "${launch[@]}" --output_dir refused
check 'a log-in that is not valid is met before the first step' test ! -e refused/metrics.jsonl

# A run
rm -f calls
succeeds '--print' "${launch[@]}" --output_dir shown --hub_token secret --print
check 'shows what would be sent' grep -qx "hf upload shown shown/model . --commit-message 'End of training'" out
check 'and no token, and sends nothing' eval '! grep -q secret out && test ! -e calls'
succeeds 'a run' "${launch[@]}" --output_dir full --hub_private_repo true --hub_revision later --hub_token secret
check 'sends its settings, the model and a card' diff calls - <<'CALLS'
hf token=secret upload full full/launch.ini launch.ini --commit-message Settings of the run --revision later --private
hf token=secret upload somebody/full full/model . --commit-message End of training --revision later --private
config.json
generation_config.json
model.safetensors
tokenizer.json
tokenizer_config.json
hf token=secret upload somebody/full full/README.md README.md --commit-message Model card --revision later --private
CALLS
check 'the card says what the hub reads' diff <(sed -n 2,10p full/README.md) - <<'CARD'
base_model: org/tiny
datasets: org/pairs
library_name: transformers
model_name: full
pipeline_tag: text-generation
tags:
- generated_from_trainer
- sft
---
CARD
check 'and how it is used' grep -qF 'model="somebody/full"' full/README.md
check 'the token is in no file' eval '! grep -rq secret full'
rm calls
succeeds 'adapters and checkpoints' "${launch[@]}" --output_dir adapted --use_peft --hub_model_id me/other \
  --save_steps 1 --hub_strategy all_checkpoints
check 'are sent' diff <(grep upload calls | cut -d' ' -f3-6) - <<'CALLS'
upload me/other adapted/launch.ini launch.ini
upload me/other adapted/adapter .
upload me/other adapted/README.md README.md
upload me/other adapted/checkpoint-000001 checkpoint-000001
upload me/other adapted/checkpoint-000002 checkpoint-000002
CALLS
check 'as adapters' grep -qx 'library_name: peft' adapted/README.md
mv tools/hf tools/huggingface-cli
FAILS_AT=README.md prints 1 'README.md was not sent to me/late .*this sends the rest: huggingface-cli upload me/late late/README.md README.md' \
  "${launch[@]}" --output_dir late --hub_model_id me/late --hub_strategy checkpoint
check 'a run whose model cannot be sent has it still' test -s late/model/model.safetensors
check 'the command that is told sends the rest' grep -q 'late/checkpoint-000002 last-checkpoint' out
finish_checks
