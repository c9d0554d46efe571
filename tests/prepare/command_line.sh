#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What sft-prepare takes, says and leaves, as a user meets it.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

# prepare WORD...: runs it; exit status in $status, output in the files `out` and `err`, shards in the folder `o`.
prepare() {
  rm -rf o
  status=0
  timeout 60 "$sft_prepare" --output o "$@" >out 2>err || status=$?
}

# says PATTERN...: the run before ended well, and each pattern (an extended regular expression) is on a line of its own.
says() {
  local pattern
  [[ $status -eq 0 ]] || { wrong "status $status"; return; }
  for pattern; do
    if grep -qE -- "$pattern" out err; then right "$pattern"; else wrong "no line like /$pattern/"; fi
  done
}

# keeps_quiet: the run before ended well and warned of nothing.
keeps_quiet() {
  if [[ $status -eq 0 && ! -s err ]]; then right 'no warning'; else wrong "status $status, or a warning"; fi
}

# refused STATUS PATTERN: the run before ended with that status, one error line, and nothing left in `o`.
refused() {
  if [[ $status -eq $1 && $(wc -l <err) -eq 1 ]] && grep -qE -- "^sft-prepare: error: .*$2" err &&
    [[ -z $(ls -A o 2>/dev/null) ]]; then
    right "$(cut -c -160 err)"
  else
    wrong "status $status, not $1, or not one line like /$2/, or files left"
  fi
}

for i in $(seq 40); do
  printf '{"id": %d, "messages": [{"role": "user", "content": "%d?", "name": "Al"}, ' "$i" "$i"
  printf '{"role": "assistant", "content": "the number after %d", "weight": 0.5}]}\n' $((i - 1))
done >chats.jsonl

# The summary
prepare --input chats.jsonl --max_length 128
says '^  records +40$' '^  roles +assistant 40, user 40$' '^  ignored fields +id 40, messages\[\]\.name 40$'
keeps_quiet

# Words as sft takes them
export PLACE=$work
# shellcheck disable=SC2016  # sft-prepare expands it
prepare --input '$PLACE/chats.jsonl' --max-length 1.28e2 --no_shuffle_dataset --packing True --padding_free
says '^  records +40$' '^  rows +[0-9]+ of 128 tokens$'
prepare --input chats.jsonl --max_seq_length 64
says '^  rows +[0-9]+ of 64 tokens$'

# Warnings, with the share
prepare --input chats.jsonl --max_length 40 --packing false
says '^warning: many records are cut \(max_length = 40 is too short for 40 of 40 records, 100\.0 %\)' \
  'all tokens with --packing true --packing_strategy bfd_split$'
prepare --input chats.jsonl --max_length 40 --packing_strategy bfd_split
keeps_quiet
{ head -n 3 chats.jsonl; sed 's/0\.5/0/g; s/"Al"/"Al", "train": false/' chats.jsonl; } >silent.jsonl
prepare --input silent.jsonl --max_length 128
says '^  without target +40 ' '^warning: many records have nothing to train on within max_length \(40 of 43 records, 93\.0 %'
sed 's/"assistant"/"gpt"/' chats.jsonl >roles.jsonl
prepare --input roles.jsonl --max_length 128
says "^warning: the role 'gpt' of 40 messages is none of "
printf '{"text": "a", "\\u001b[2Jred": 1}\n' >escape.jsonl
prepare --input escape.jsonl
says '^  ignored fields +\\x1b\[2Jred 1$'

# Pipes and standard input
prepare --input - --max_length 128 <chats.jsonl
says '^  records +40$'
prepare --input <(cat chats.jsonl) --input chats.jsonl --max_length 128
says '^  records +80$'
prepare --input - --input - <chats.jsonl
refused 3 "'-' is named twice"
printf '{"text": "a"}\n{"text"' >cut.jsonl
prepare --input - <cut.jsonl
refused 3 'standard input:2: bad record'

# Refusals
prepare --input chats.jsonl --input chats.jsonl
refused 3 'named twice'
mkdir empty
prepare --input empty
refused 3 'there is no file of records in the folder empty \(none ends in \.jsonl'
prepare --input chats.jsonl --max_lenght 128
refused 2 'no option --max_lenght .*did you mean --max_length'
prepare --input chats.jsonl --learning_rate 1
refused 2 'no option --learning_rate \(it belongs to training\): give it to sft'
prepare --input chats.jsonl --eos_token '</s>'
refused 2 'eos_token = </s> is impossible'
prepare --input chats.jsonl --zzz 1
refused 2 'no option --zzz .*sft-prepare --help'
prepare --input chats.jsonl -z
refused 2 'no option'
printf 'model: x\n' >config.yaml
prepare --input config.yaml
refused 3 'config\.yaml.*YAML'
prepare --input chats.jsonl --max_length many
refused 2 'max_length'
prepare
refused 2 'input is missing'
prepare --input chats.jsonl --packing_strategy best
refused 2 "unknown packing_strategy 'best'"
prepare --input chats.jsonl --max_length none
refused 2 'max_length = none is impossible with packing'
prepare --input chats.jsonl --truncation_mode keep_end
refused 2 'keep_end is impossible with packing'
prepare --input chats.jsonl --tokenizer nowhere
refused 2 "unknown tokenizer 'nowhere'"
HF_HUB_CACHE=cache prepare --input chats.jsonl --model_name_or_path org/nowhere
refused 3 'cannot find the model org/nowhere .*postprocess/fetch\.py model org/nowhere'
prepare --input chats.jsonl --model_name_or_path chats.jsonl
refused 3 'cannot use chats\.jsonl as a model \(it is a JSON-lines file\)'

# Compressed files, arrays and folders
mkdir folder
gzip -c chats.jsonl >folder/a.jsonl.gz
{ echo '['; sed 's/$/,/; $s/,$//' chats.jsonl; echo ']'; } >folder/b.json
prepare --input folder --max_length 128
says '^  records +80$'
prepare --input - --max_length 128 <folder/a.jsonl.gz
says '^  records +40$' '^  read +1 file: -$'

# The files of a folder, as sft-launch sorts them
mkdir -p sorted/.ipynb_checkpoints sorted/sub
cp chats.jsonl sorted/train.jsonl
for file in test.jsonl notes.csv sub/train-2.jsonl .ipynb_checkpoints/train-checkpoint.jsonl; do
  tail -n 4 chats.jsonl >"sorted/$file"
done
prepare --input sorted --max_length 128
says '^  records +44$' '^  read +2 files: sorted/sub/train-2\.jsonl, sorted/train\.jsonl$' \
  '^  not read +3 files: .*/train-checkpoint\.jsonl \(hidden\), sorted/notes\.csv \(CSV\), sorted/test\.jsonl \(split test\)$'
prepare --input sorted --split test --max_length 128 --json
says '"num_records": *4,' '^    "sorted/test\.jsonl"$' '"why": *"split train"'
prepare --input sorted --dataset_train_split dev
refused 3 'sorted has no split .dev. \(it has train, test\): choose one with --split'
prepare --input sorted --split 'train[:50%]'
refused 2 'sums of splits are not known'
prepare --input chats.jsonl --split train
refused 2 '--split is given, and no --input is a folder'
prepare --input 'sorted/**/*.jsonl' --input chats.jsonl --input_weight 1 --input_weight 1 --max_length 128
says '^  records +88$' '^  read +4 files:' '^  left out +8 '
printf -- '---\nconfigs:\n- config_name: one\n  data_files: train.jsonl\n- config_name: two\n  data_files: sub/*\n---\n' >sorted/README.md
prepare --input sorted
refused 3 'several configs \(its card has one, two, .*--dataset_config'
prepare --input sorted --dataset_config two --max_length 128
says '^  records +4$' '^  read +1 file: sorted/sub/train-2\.jsonl$'
prepare --input - < <(printf 'BZh91AY')
refused 3 'cannot use standard input as JSON lines \(it is compressed with bzip2\).*bzcat FILE'

# Bad records
{ cat chats.jsonl; echo '{"text": 7}'; echo '{"text"'; } >bad.jsonl
prepare --input bad.jsonl --max_length 128
refused 3 "bad\.jsonl:41: bad record \('text' of the record is number"
prepare --input bad.jsonl --max_length 128 --on_error skip
says '^  records +40$' '^  skipped +2 ' "^warning: skipped bad\.jsonl:41: 'text' of the record" '^warning: skipped bad\.jsonl:42: not JSON'

# Fields that are not wanted
sed '1s/"role"/"reasoning_content": "hm", "role"/' chats.jsonl >thinking.jsonl
prepare --input thinking.jsonl --max_length 128
refused 3 "thinking\.jsonl:1: bad record \(.*'reasoning_content'.*; --ignore_fields reasoning_content leaves it out\)"
prepare --input thinking.jsonl --max_length 128 --ignore_fields reasoning_content,id --ignore_fields nmae
says '^  records +40$' '^  dropped fields +id 40, messages\[\]\.reasoning_content 1$' "^warning: no record has a value under 'nmae' "
prepare --input thinking.jsonl --max_length 128 --ignore_fields 'reasoning_content, id' --json
says '^  "dropped_fields": \{$' '^    "messages\[\]\.reasoning_content": 1$'
prepare --input thinking.jsonl --max_length 128 --ignore_fields content
refused 2 'ignore_fields names content'

# Fields whose names say that they matter
cat >telling.jsonl <<'LINES'
{"mask": "Human", "sample_weight": 0, "score": NaN, "messages": [{"role": "user", "content": "a", "isTrained": false}]}
{"system_prompt": "s", "attention_mask": [1], "prompt": "a", "completion": "b"}
{"conversations": [{"from": "function_call", "value": "f()"}]}
LINES
prepare --input telling.jsonl
for field in mask sample_weight 'messages\[\]\.isTrained'; do
  says "^warning: 1 records or messages have a field '$field' that nothing reads \(it seems to say what is trained on\)"
done
says "a field 'system_prompt' .*\(it seems to belong to the text\): --rename system_prompt=system" \
  '^warning: 1 turns of the role function_call hold no JSON with name and arguments'
check 'four fields are told of, and the mask of attention is none' test "$(grep -c 'that nothing reads' err)" -eq 4

# A fault of the folder is none of a record: --on_error skip does not skip all of them.
mkdir small
/usr/bin/python3 - "$(dirname "${BASH_SOURCE[0]}")/../unit/text/fixtures/gpt2.json" <<'PY'
import json, sys
json.dump(json.load(open(sys.argv[1]))["tokenizer"], open("small/tokenizer.json", "w"))
json.dump({"eos_token": "<|endoftext|>"}, open("small/tokenizer_config.json", "w"))
json.dump({"vocab_size": 9}, open("small/config.json", "w"))
PY
printf '{"text": "a"}\n' >plain.jsonl
prepare --input plain.jsonl --model_name_or_path small --on_error skip
check 'a token without a row' grep -qE \
  "error: cannot use the tokenizer of 'small' with its model \(it makes the token [0-9]+, 'a', and the vocab_size of config\.json is 9\)" err
prepare --input chats.jsonl --model_name_or_path small --on_error skip
check 'no chat template' grep -q 'error: the tokenizer has no chat template' err

# Fields under other names
printf '{"question": "2 + %d?", "answer": "%d"}\n' 1 3 2 4 3 5 >questions.jsonl
prepare --input questions.jsonl --max_length 128
refused 3 "questions\.jsonl:1: bad record \(it has 'question' and 'answer', .*: give --rename question=prompt,answer=completion\)"
prepare --input questions.jsonl --max_length 128 --rename question=prompt,answer=completion
says '^  records +3$'
prepare --input questions.jsonl --max_length 128 --rename question
refused 2 '--rename question cannot be read'

# Commands that a refusal names make records of other forms that are read.
# makes PATTERN: the command that the last line of `forms.jsonl` is refused with makes JSON like it, which is read.
makes() {
  local name=${1%%:*} command
  sed -n "s/^{\"form\": \"$name\", /{/p" forms.jsonl >form.jsonl
  jq -s . form.jsonl >form.json
  for file in form.jsonl form.json; do
    prepare --input "$file" --max_length 512
    # shellcheck disable=SC2016  # no expression, but a command between backticks
    command=$(grep -oP '`\K[^`]*FILE(?=`)' err) || true
    if [[ $command == python3* && $file == *.json ]]; then continue; fi
    status_of bash -c "${command//FILE/$file}"
    cp out made.jsonl
    check "$name: ${1#*: }" grep -qF -- "${1#*: }" made.jsonl
    prepare --input made.jsonl --max_length 512 --chat_template_path forms.jinja
    says '^  records +1$'
  done
}
# ChatML, which bytes have without a model folder, shows no tools.
cat >forms.jinja <<'TEMPLATE'
{{ tools | default([], true) | tojson }}
{% for m in messages %}{{ m.role }}: {{ m.content }}{{ m.tool_calls | default([]) | tojson }}
{% endfor %}
TEMPLATE
cat >forms.jsonl <<'LINES'
{"form": "xlam", "query": "It's Q", "tools": "[{\"name\": \"f\"}]", "answers": "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]"}
{"form": "glaive", "system": "SYSTEM: S", "chat": "USER: Q: a\nb?\n\n\nASSISTANT: f() <|endoftext|>\n\n\nFUNCTION RESPONSE: 2\n\n\nASSISTANT: A\n\nB <|endoftext|>\n\n\n"}
{"form": "shared", "log": "Human: Q\nAssistant: A"}
{"form": "s1K", "question": "Q", "solution": "7", "thinking_trajectories": ["T", "U"], "attempt": "A", "system_prompt": "S"}
{"form": "dolphin", "messages": [{"role": "user", "content": "Q"}], "reasoning": "T", "answer": "A"}
{"form": "quoted", "question": "Q", "it's \"`why`\" reasoning": "T", "answer": "A", "input": "I"}
{"form": "printed", "messages": "[{'role': 'user', 'content': \"Q's\"}, {'role': 'assistant', 'content': 'A'}]"}
{"form": "wrapped", "data": [{"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}]}
{"form": "gemini", "systemInstruction": {"parts": [{"text": "S"}]}, "contents": [{"role": "user", "parts": [{"text": "Q"}]}, {"role": "model", "parts": [{"text": "A"}]}]}
{"form": "speakers", "dialog": [{"speaker": "user", "utterance": "Q"}, {"speaker": "bot", "utterance": "A"}]}
{"form": "columns", "prompt": {"0": "Q"}, "completion": {"0": "A"}}
{"form": "rows", "7": {"prompt": "Q", "completion": "A"}}
{"form": "split", "columns": ["prompt", "completion"], "index": [0], "data": [["Q", "A"]]}
LINES
for form in columns rows split; do makes "$form: "'{"prompt":"Q","completion":"A"}'; done
makes 'xlam: "prompt":[{"role":"user","content":"It'"'"'s Q"}],"completion":[{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"a":1}}}]}]'
makes 'glaive: {"system":"S","messages":[{"role":"user","content":"Q: a\nb?"},{"role":"assistant","content":"f()"},{"role":"tool","content":"2"},{"role":"assistant","content":"A\n\nB"}]}'
makes 'shared: {"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"A"}]}'
makes 's1K: {"system":"S","prompt":[{"role":"user","content":"Q"}],"completion":[{"role":"assistant","content":"<think>\nT\nU\n</think>\n\nA"}]}'
makes 'dolphin: {"prompt":[{"role":"user","content":"Q"}],"completion":[{"role":"assistant","content":"<think>\nT\n</think>\n\nA"}]}'
makes 'quoted: {"prompt":[{"role":"user","content":"Q\nI"}],"completion":[{"role":"assistant","content":"<think>\nT\n</think>\n\nA"}]}'
makes 'gemini: {"system":"S","conversations":[{"from":"user","value":"Q"},{"from":"model","value":"A"}]}'
makes 'speakers: {"conversations":[{"from":"user","value":"Q"},{"from":"bot","value":"A"}]}'
makes "printed: \"content\": \"Q's\""
makes 'wrapped: {"messages":[{"role":"user","content":"Q"}'

# What it does
prepare --input chats.jsonl --max_length 128 --preview 1 --stats --assistant_only_loss
says '^row 1 of [0-9]+: ' '^── document 1 of ' '^⟦0\.5:the number after' '^ +32-63 +40 +#+$'
prepare --input chats.jsonl --max_length 128 --json
says '^  "num_records": 40,$' '^  "train": \{$'
prepare --input chats.jsonl --max_length 128 --eval_split 0.1
says '^  documents +36$' '^  held back +4 documents' 'o/eval-00000\.h5$'

# Signals: whenever one comes, all shards are there, or none has its name yet and the same command goes on.
for _ in $(seq 200); do cat chats.jsonl; done >long.jsonl
for signal in INT TERM HUP; do
  for delay in 0.02 0.1 0.3; do
    rm -rf o
    mkdir o
    env --default-signal=INT "$sft_prepare" --input long.jsonl --output o --num_shards 8 --max_length 64 >out 2>err &
    run=$!
    sleep "$delay"
    kill -s "$signal" "$run" 2>/dev/null || true
    status=0
    wait "$run" || status=$?
    left=$(find o -mindepth 1 | wc -l)
    named=$(find o -name '*.h5' | wc -l)
    if [[ $status -eq 0 && $left -eq 8 && $named -eq 8 ]] || [[ $status -gt 128 && $named -eq 0 && $left -le 8 ]]; then
      right "SIG$signal after $delay s: status $status, $left files"
    else
      wrong "SIG$signal after $delay s: status $status, $left files"
    fi
  done
done
rm -rf o
mkdir o
mkfifo pipe
env --default-signal=INT "$sft_prepare" --input pipe --output o >out 2>err &
run=$!
exec 3<>pipe
cat chats.jsonl >&3
sleep 0.2
kill -s INT "$run"
cat chats.jsonl >&3
exec 3>&-
status=0
wait "$run" || status=$?
if [[ $status -eq 130 && -z $(ls -A o) ]]; then right 'SIGINT while it reads'; else wrong "status $status"; fi

# Two in one folder: the second is refused whatever the first is doing, and the first ends as if it were alone.
# begin_first FOLDER: one whose records come through the open descriptor 3; its process is $run.
begin_first() {
  rm -rf o pipe
  mkfifo pipe
  "$sft_prepare" --input pipe --output "$1" --max_length 32 --num_shards 150 >first 2>&1 &
  run=$!
  exec 3<>pipe
  head -n 500 long.jsonl >&3
}
# second_is_refused WHEN: a second one, of other records.
second_is_refused() {
  status=0
  timeout 60 "$sft_prepare" --input chats.jsonl --output o >out 2>err || status=$?
  if [[ $status -eq 3 && $(wc -l <err) -eq 1 ]] &&
    grep -qE "^sft-prepare: error: another sft-prepare is writing to 'o' \(process $run on host .* holds o/sft-prepare\.lock\): wait for it" err; then
    right "$1: $(cut -c -160 err)"
  else
    wrong "$1: status $status"
  fi
}
# hashes_of FOLDER: of the rows of each file in it, which must be packed data.
hashes_of() {
  /usr/bin/python3 -c 'import glob, h5py, os, sys
for path in sorted(glob.glob(sys.argv[1] + "/*")):
  print(os.path.basename(path), h5py.File(path).attrs["fingerprint"])' "$1"
}
# first_is_whole WHEN: the first one ends well, with the files of one that was alone.
first_is_whole() {
  status=0
  wait "$run" || status=$?
  hashes_of alone >out
  if [[ $status -eq 0 ]] && cmp -s out <(hashes_of o); then right "the first, $1"; else wrong "the first, $1: status $status"; fi
}
begin_first alone
exec 3>&-
wait "$run"
begin_first o
for _ in $(seq 200); do if [[ -s o/sft-prepare.lock ]]; then break; fi; sleep 0.05; done
second_is_refused 'while the first reads'
exec 3>&-
first_is_whole 'which was reading'
status_of "$sft_prepare" --input chats.jsonl --output o
check 'a third, after the first' grep -q "'o' already holds packed data" err
begin_first o
exec 3>&-
until compgen -G 'o/*.tmp' >/dev/null; do sleep 0.01; done
kill -s STOP "$run"
second_is_refused 'while the first writes'
kill -s CONT "$run"
first_is_whole 'which was writing'
begin_first o
exec 3>&-
until compgen -G 'o/*.tmp' >/dev/null; do sleep 0.01; done
kill -s KILL "$run"
wait "$run" 2>/dev/null || true
succeeds 'after one that was killed while it wrote' "$sft_prepare" --input chats.jsonl --output o
check 'nothing of the killed one is left' test "$(ls -A o)" = train-00000.h5

# Records that ask for much: one of each takes seconds at most (`prepare` gives up after a minute).
keys() { awk -v count="$1" 'BEGIN { for (i = 0; i < count; ++i) printf "%s\"k%d\": 1", i ? ", " : "", i }'; }
{
  printf '{"text": "a", %s}\n' "$(keys 120000)"
  printf '{"messages": [{"role": "user", "content": "a", %s}]}\n' "$(keys 120000)"
  printf '{"conversations": [{"from": "human", "value": "a", %s}]}\n' "$(keys 120000)"
} >keys.jsonl
prepare --input keys.jsonl
says '^  records +3$'
printf '{{ messages[0].content }}{{ tools | length }}{{ kwargs }}' >count.jinja
{
  printf '{"messages": [{"role": "user", "content": "a", %s}], "tools": [{%s}]}\n' "$(keys 40000)" "$(keys 40000)"
  printf '{"messages": [{"role": "user", "content": "a"}], "tools": "[{%s}]"}\n' "$(keys 40000 | sed 's/"/\\"/g')"
} >tools.jsonl
prepare --input tools.jsonl --chat_template_path count.jinja
says '^  records +2$'
printf '{"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {%s}}\n' "$(keys 1001)" >kwargs.jsonl
prepare --input kwargs.jsonl --chat_template_path count.jinja
refused 3 "kwargs\.jsonl:1: bad record \('chat_template_kwargs' of the record has more than 1000 variables"
printf '{%s}\n' "$(keys 100000)" >shapeless.jsonl
prepare --input shapeless.jsonl
refused 3 "but 'k0', .* 'k19' and 99980 more\\)"
printf '{"text": "a", "x": %s1%s}\n' "$(printf '[%.0s' $(seq 600))" "$(printf ']%.0s' $(seq 600))" >deep.jsonl
prepare --input deep.jsonl
refused 3 'deep\.jsonl:1: bad record \(its values are nested deeper than 512'
prepare --input chats.jsonl --pad_to_multiple_of 1000000000
refused 2 'pad_to_multiple_of = 1000000000 is impossible \(rows would be padding for the most part\): give 65536 or less'

# Inputs of another kind, and of none
for none in '' '[]' ' [ ]' $'\n\n'; do
  printf '%s' "$none" >none.json
  prepare --input none.json
  refused 3 'there is no record in none\.json'
done
/usr/bin/python3 -c 'import zipfile; zipfile.ZipFile("chats.zip", "w").write("chats.jsonl")'
prepare --input chats.zip
# shellcheck disable=SC2016  # the backticks are those of the message
refused 3 'cannot use chats\.zip as JSON lines \(it is a ZIP archive\): unpack it first, `unzip chats\.zip`'

# What is cut, and how long rows have to be for nothing to be.
printf '{"prompt": "%s", "completion": "b"}\n' "$(printf 'a%.0s' $(seq 40))" >longer.jsonl
cat chats.jsonl >>longer.jsonl
prepare --input longer.jsonl --max_length 32 --packing_strategy bfd
longest=$(sed -n 's/^  truncated .*(cut at max_length; --max_length \([0-9]*\) cuts none)$/\1/p' out)
if [[ -n $longest ]]; then right "--max_length $longest cuts none"; else wrong 'the summary names no length'; fi
rm -rf o
prepare --input longer.jsonl --max_length "$longest"
says '^  truncated +0 \(cut at max_length\)$'

# Tables, which Python reads: one that stands in for a python3 with pyarrow, and one without.
mkdir with without tables saved
cat >with/python3 <<'SH'
#!/usr/bin/env bash
[[ $1 == */postprocess/parquet_to_jsonl.py && $2 == --output_folder && $4 == --leave_out && $6 == -- ]] || exit 9
echo "read $7 without '$5'" >>asked
printf '{"prompt": "a", "completion": "b"}\n' >"$3/00000.jsonl"
cp second_table.jsonl "$3/00001.jsonl"
printf '"first of %s"\n"second of %s"\n' "$7" "$7" >"$3/sources"
SH
cat >without/python3 <<'SH'
#!/usr/bin/env bash
printf 'a.parquet, row 7, column x: it is bad' >"$3/error"
exit 1
SH
chmod +x with/python3 without/python3
printf PAR1 | tee a.parquet parquet_by_its_bytes >tables/c.parquet
printf ARROW1 >b.arrow
touch saved/state.json
printf '{"prompt": "c", "completion": "d"}\n' >second_table.jsonl
for table in a.parquet b.arrow parquet_by_its_bytes tables saved '*.parquet'; do
  rm -rf o asked
  PATH=$work/with:$PATH prepare --input "$table" --input chats.jsonl --ignore_fields x,y
  says 'records +42'
  case $table in tables) file=tables/c.parquet ;; '*.parquet') file=a.parquet ;; *) file=$table ;; esac # a file each
  check "$table is read" grep -qxF "read $file without 'x,y'" asked
  check 'nothing but shards is left' test -z "$(find o -mindepth 1 ! -name train-00000.h5 ! -name sft-prepare.lock)"
done
rm -rf o
prints 3 'error: cannot read a\.parquet \(a\.parquet, row 7, column x: it is bad\): correct it, leave a column out with --ignore_fields' \
  env "PATH=$work/without:$PATH" "$sft_prepare" --input a.parquet --output o
printf '{"prompt": 1}\n' >>second_table.jsonl
PATH=$work/with:$PATH prepare --input a.parquet
check 'a bad row is named by its table' grep -qF 'error: second of a.parquet, row 2: bad record (' err

# A model that cannot be trained: its rows are made all the same.
mkdir foreign
printf '{"architectures": ["MambaForCausalLM"], "model_type": "mamba"}' >foreign/config.json
PATH=$work/with:$PATH prepare --input chats.jsonl --model_name_or_path foreign || true
check 'the warning comes before the work' grep -q 'warning: sft cannot train this model: ' err

# Help fits a terminal.
"$sft_prepare" --help >out 2>err
if [[ $(wc -L <out) -le 100 ]]; then right help; else wrong "a line of --help is longer than 100 columns"; fi

finish_checks
