#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of TRL's documentation (trl_commands.txt), or the options that its users give (trl_values.txt): each means
# what the table says, or is refused by name; those that the table says run, run as --print shows them.
#
#   trl_commands.sh trl_commands.txt|trl_values.txt
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
table=$test_folder/$1
# shellcheck source=tests/shell/tiny_hub.sh
source "$frame_folder/tiny_hub.sh"
export SFT_CACHE=$work/cache HF_HUB_OFFLINE=1 CUDA_VISIBLE_DEVICES=
make_tiny_model
make_pairs 24
for model in Qwen/Qwen2.5-0.5B Qwen/Qwen2-0.5B Qwen/Qwen2-0.5B-Instruct Qwen/Qwen2.5-3B-Instruct meta-llama/Llama-2-7b-hf \
  openai/gpt-oss-20b; do
  put_into_hub model "$model" tiny/model/*
done
mkdir records
head -n 20 pairs.jsonl >records/train.jsonl
tail -n 4 pairs.jsonl >records/test.jsonl
for dataset in stanfordnlp/imdb trl-lib/Capybara open-thoughts/OpenThoughts-114k HuggingFaceH4/Multilingual-Thinking \
  anthropic/hh-rlhf; do
  put_into_hub dataset "$dataset" records/*
done

printf '%s slots=2\n' a b >two
printf 'seed: 1\n---\nseed: 2\n' >twice.yaml

# run_as_printed RANKS: makes the rows and trains a step, by the file and the commands that --print showed in `printed`.
run_as_printed() {
  local line words
  while read -r line <&4; do
    eval "words=($line)"
    "${words[@]}" >out 2>err || return
  done 4< <(grep '/sft-prepare --input' printed)
  sed -n '/^# .*launch.ini$/,/^# rows:/p' printed | grep -v '^# ' >printed.ini
  "$mpiexec" -np "$1" "$sft" printed.ini --max_steps 1 --gradient_accumulation_steps 1 --device.backend cpu --output_dir ran \
    >out 2>err || return
  grep -q '"step":1,' ran/metrics.jsonl
}

num_commands=0
base='' command='' refusal='' ranks=1 runs=no
lines=() options=() notes=()
# shellcheck disable=SC2154  # eval gives words
finish_command() {
  if [[ -z $command ]]; then return; fi
  num_commands=$((num_commands + 1))
  local words line name
  eval "words=($base $command)"
  name=${command:0:100}
  status_of "$sft_launch" "${words[@]}" --print
  cp out printed
  if [[ -n $refusal ]]; then
    check "refused by name: $name" grep -qxE '2|3' <<<"$status"
    check "  $refusal" grep -qE -- "$refusal" err
  else
    check "runs: $name" test "$status" -eq 0
    for line in "${lines[@]}"; do check "  $line" grep -qxF -- "$line" printed; done
    for line in "${options[@]}"; do check "  $line" grep -qF -- " $line" printed; done
    for line in "${notes[@]}"; do check "  says $line" grep -qE -- "$line" printed err; done
    [[ $ranks == - ]] || check "  on $ranks" grep -qE -- "sft-run -n $ranks " printed
    if [[ $runs == yes ]]; then
      rm -rf ran cache
      check '  and trains' run_as_printed "$ranks"
    fi
  fi
  command='' refusal='' ranks=1 runs=no lines=() options=() notes=()
}

while IFS= read -r line <&3; do
  rest=${line:2}
  case $line in
    '> '*)
      finish_command
      command=$rest
      : >sft.yaml
      ;;
    'base '*) base=${line#base } ;;
    'file '*) read -r _ name rest <<<"$line" && printf '%s\n' "$rest" >"$name" ;;
    '@ '*) printf '%s\n' "$rest" >>sft.yaml ;;
    '= '*) lines+=("$rest") ;;
    '- '*) options+=("$rest") ;;
    '# '* | '#') if [[ -n $command ]]; then notes+=("$rest"); fi ;;
    'n '*) ranks=$rest ;;
    '* run') runs=yes ;;
    '! '*) refusal=$rest ;;
    '' | 'source '*) ;;
    *) wrong "the table has a line of no kind: $line" ;;
  esac
done 3<"$table" # what is run reads standard input
finish_command
check 'the table has more than 20 commands' test "$num_commands" -gt 20
finish_checks
