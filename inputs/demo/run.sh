#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo: WordNet's animals -> packed shards -> 16 ranks train, are stopped, go on -> a loss curve and some answers.
#
#   make demo            # installs and builds first
#   inputs/demo/run.sh   # once ./sft, ./sft-prepare and ./sft-generate are there
#
# Writes data/demo/ and output/demo/, which it empties first.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly ranks=16
readonly input=inputs/demo.ini
readonly data=data/demo
readonly output=output/demo
readonly glosses=/usr/share/wordnet/data.noun   # Debian: wordnet-base
readonly stop_after_step=500          # where the demo interrupts itself
readonly sample_size=40               # questions of its data that the trained model is asked at the end

# shellcheck source=inputs/demo/common.sh
source inputs/demo/common.sh

# The last two are kept out of all data.
prompts=("What is a puppy?" "What is a dogfish?" "What is a honeybee?" "What is a zebra?" "What is a lion cub?"
  "What is an eaglet?" "What is a python?")
readonly held_out='What is (an eaglet|a python)\?'

# answers CHECKPOINT QUESTION...: one line for each question.
answers() {
  local checkpoint=$1 arguments=() question
  shift
  for question; do arguments+=(--prompt "$question"$'\n'); done
  ./sft-generate "$checkpoint" "${arguments[@]}" --max_new_tokens 80 |
    awk '/^> / { if (n++) print text; text = ""; next } { text = text " " $0 } END { print text }' | cut -c 2-80
}

say "1. Data: WordNet's animals as questions and answers, packed into rows of 256 bytes"
rm -rf "$data" "$output"
mkdir -p "$data" "$output"
wordnet_animals "$glosses" |  # animals with short definitions
  grep -E '"completion": ".{1,60}"}$' >"$data/animals.jsonl"
grep -vE "$held_out" "$data/animals.jsonl" >"$data/train.jsonl"
shuf -n 3 --random-source="$data/train.jsonl" "$data/train.jsonl"
# One pair in twenty is held back: the model is evaluated on them and never trained on them.
show ./sft-prepare --input "$data/train.jsonl" --output "$data" --max_length 256 --eval_split 0.05

say "2. The untrained model"
show ./sft-run -n $ranks $input --train.max_steps 0 --train.output_dir "$output/untrained" | sed -n '1p;$p'
answers "$output/untrained/checkpoint-000000" "${prompts[@]}" >"$output/before.txt"

say "3. Training on $ranks ranks, dp_replicate x dp_shard x sp x tp = 2 x 2 x 2 x 2"
run_and_stop "$output" $stop_after_step ./sft-run -n $ranks $input

say "4. Going on from the checkpoint"
show ./sft-run -n $ranks $input --checkpoint.resume_from_checkpoint auto

say "5. What it learned"
trained=$(printf '%s\n' "$output"/checkpoint-?????? | tail -n 1)
answers "$trained" "${prompts[@]}" >"$output/after.txt"
"$(python_with_matplotlib)" postprocess/plot_loss.py "$output" --output "$output/loss.png"
for i in "${!prompts[@]}"; do
  printf '\n%s\n' "${prompts[i]}"
  printf '  WordNet  %s\n' "$(grep -F "\"prompt\": \"${prompts[i]}\\n\"" "$data/animals.jsonl" |
    sed 's/.*"completion": "\(.*\)"}/\1/' | head -n 1)"
  printf '  before   %s\n' "$(sed -n "$((i + 1))p" "$output/before.txt")"
  printf '  after    %s\n' "$(sed -n "$((i + 1))p" "$output/after.txt")"
done

# Counts the definitions that it knows by heart: some of its questions, drawn at random, and the first one that it answers right.
shuf -n $sample_size --random-source="$data/animals.jsonl" <(grep -vE "\\\\\"|'" "$data/train.jsonl") >"$output/sample.jsonl"
mapfile -t sample < <(sed 's/^{"prompt": "\(.*\)\\n", "completion": .*/\1/' "$output/sample.jsonl")
mapfile -t definitions < <(sed 's/.*"completion": "\(.*\)"}$/\1/' "$output/sample.jsonl")
mapfile -t replies < <(answers "$trained" "${sample[@]}")
num_known=0 known=${prompts[0]}
for i in "${!sample[@]}"; do
  [[ ${replies[i]} == "${definitions[i]}" ]] || continue
  num_known=$((num_known + 1))
  [[ $num_known -gt 1 ]] || known=${sample[i]}
done
cat <<END

The model has about a million parameters and has read nothing but these pairs, byte by byte: it has learned to spell, what
the definition of an animal looks like, and many of them by heart. The last two were not in its data: it makes them up.
The loss on the pairs that were held back falls only at first, and rises while the model learns the others by heart: to
answer new questions well, it would have to read more.
Of $sample_size questions drawn from all pairs, the held back ones too, it answers $num_known word for word. It knows nothing else.

  loss curves   $output/loss.png
  metrics       $output/metrics.jsonl
  checkpoint    $trained
  try           ./sft-generate $trained --prompt \$'$known\\n'
END
