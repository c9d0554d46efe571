# SPDX-License-Identifier: Apache-2.0
# WordNet's glosses as question/answer pairs, one JSON object a line:
#   {"prompt": "What is a hammer?\n", "completion": "a hand tool with a heavy rigid head and a handle"}
#
#   awk -f wordnet_to_jsonl.awk /usr/share/wordnet/data.{noun,verb,adj,adv} > wordnet.jsonl
#   awk -v limit=20000 -f wordnet_to_jsonl.awk ...   spreads 20000 pairs evenly over the files
#
# The files are those of Debian's wordnet-base (format: wndb(5WN)). The question is about the first word of each synonym set;
# the answer is its definition, without the usage examples. Plain awk; the output depends on the input alone.

# One line of data.* is
#   offset file_number part_of_speech number_of_words(hexadecimal) word lexical_id ... | definition; "example"; ...
function definition_of(line,    at, text) {
  at = index(line, "| ")
  if (at == 0) return ""
  text = substr(line, at + 2)
  at = match(text, /; *"/)
  if (at > 0) text = substr(text, 1, at - 1)
  sub(/^ +/, "", text)
  sub(/[ ;]+$/, "", text)
  return text
}

function word_of(field) {
  sub(/\([a-z]+\)$/, "", field)  # adjectives may carry where they stand: galore(ip)
  gsub(/_/, " ", field)
  return field
}

function question_about(word, part_of_speech) {
  if (part_of_speech == "v") return "What does it mean to " word "?"
  if (part_of_speech == "a" || part_of_speech == "s") return "What does \"" word "\" describe?"
  if (part_of_speech == "r") return "What does it mean to do something " word "?"
  if (word ~ /^[A-Z]/) return "What is " word "?"  # a name
  return "What is " (word ~ /^[aeiou]/ ? "an " : "a ") word "?"
}

# WordNet is ASCII text without control characters: quotes and backslashes are all there is to escape.
function json_string(text,    escaped, i, c) {
  if (text !~ /["\\]/) return "\"" text "\""
  escaped = ""
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    escaped = escaped (c == "\"" || c == "\\" ? "\\" c : c)
  }
  return "\"" escaped "\""
}

BEGIN { num_pairs = 0 }

/^[0-9]/ {
  definition = definition_of($0)
  if (definition == "") next
  word = word_of($5)
  prompts[num_pairs] = question_about(word, $3)
  completions[num_pairs] = definition
  ++num_pairs
}

END {
  if (limit <= 0 || limit > num_pairs) limit = num_pairs
  for (i = 0; i < limit; ++i) {
    pair = int(i * num_pairs / limit)
    prompt = json_string(prompts[pair])
    sub(/"$/, "\\n\"", prompt)
    printf "{\"prompt\": %s, \"completion\": %s}\n", prompt, json_string(completions[pair])
  }
}
