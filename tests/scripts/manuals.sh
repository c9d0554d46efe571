#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The manual pages and shell completions that the build writes: groff takes the pages without a complaint, and bash
# completes options, choices and files by them.
#
#   manuals.sh PROGRAM...
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
share=$bin/../share

for program; do
  page=$share/man/man1/$program.1
  [[ $(head -c 3 "$page") == .TH ]] || wrong "$page is no manual page"
  if command -v groff >/dev/null; then
    complaints=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
    [[ -z $complaints ]] || wrong "$page: $complaints"
  fi
  bash -n "$share/bash-completion/completions/$program" || wrong "bash completion of $program"
  if command -v zsh >/dev/null; then
    zsh -n "$share/zsh/site-functions/_$program" || wrong "zsh completion of $program"
  fi
  grep -qx "#compdef $program" "$share/zsh/site-functions/_$program" || wrong "_$program names no program"
done

# complete EXPECTED WORD...: the last word's completions hold EXPECTED.
complete_last() {
  local expected=$1
  shift
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  # shellcheck disable=SC2317  # the completions call it; bash has its own only while it completes
  compopt() { :; }
  "_${1//-/_}"
  [[ " ${COMPREPLY[*]} " == *" $expected "* ]] || wrong "$* completes to: ${COMPREPLY[*]}, not $expected"
}
for program; do
  # shellcheck source=/dev/null
  source "$share/bash-completion/completions/$program"
done
touch run.ini notes.txt
mkdir output
complete_last --parallel.tp_size sft --parallel.tp
complete_last --dry-run sft --d
complete_last bf16 sft --train.precision b
complete_last true sft --data.shuffle t
complete_last run.ini sft r
complete_last output sft-inspect out
complete_last --max_length sft-prepare --max
complete_last --prompt sft-generate --p
complete_last --tp_size sft --tp
complete_last --tp_size sft-run --tp
complete_last --restarts sft-run --re
complete_last full sft-run --activation_checkpointing f
complete_last --packing_strategy sft-launch --pack
complete_last --learning_rate sft-launch --learn
# The manual page of sft-run has what the script says of itself.
for option in $("$share/../bin/sft-run" --help | grep -oE '^  --[a-z_]+'); do
  grep -qF -- "${option//-/\\-}" "$share/man/man1/sft-run.1" || wrong "the manual page of sft-run has no $option"
done
finish_checks
