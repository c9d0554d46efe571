#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A compiler launcher: runs nvcc, and writes what ptxas reports of registers and memory to OBJECT.ptxas in place of the
# terminal.
set -euo pipefail
object=""
for ((i = 1; i < $#; ++i)); do
  [ "${!i}" = "-o" ] && object="${*:i+1:1}"
done
status=0
report=$("$@" 2>&1) || status=$?
pattern="^ptxas info|^ +[0-9]+ bytes stack frame"
[ -z "$object" ] || grep -E "$pattern" <<<"$report" >"$object.ptxas" || true
grep -vE "$pattern" <<<"$report" | sed '/^$/d' >&2 || true
exit "$status"
