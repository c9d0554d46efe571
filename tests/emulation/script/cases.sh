#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The part `first` of tests/device/run.sh asks programs for suites and cases by name: the programs have all of them. None
# is run: each stands behind a script that looks into its list.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
real=$bin/../emulated/bin

shown=(out)

mkdir -p build/bin tools
for program in "$real"/device_*_test; do
  name=${program##*/}
  "$program" --list_content >"$name.list" 2>&1
  # Suites stand at the beginning of a line, cases behind four blanks, a star behind both.
  stand_in "build/bin/$name" <<SCRIPT
if [[ \$# -eq 0 ]]; then exit 0; fi
awk -F '[ *]+' -v wanted="\${1#--run_test=}" '
  /^[^ ]/ { suite = \$1; found[suite] = 1; next }
  { found[suite "/" \$2] = 1 }
  END { if (!(wanted in found)) { print "error: no cases " wanted; exit 1 } }' "$PWD/$name.list"
SCRIPT
done
for name in bench_ops bench_step device_nccl_probe; do stand_in "build/bin/$name" <<<'exit 0'; done
stand_in tools/nvidia-smi <<<'echo 9.0'
export PATH=$PWD/tools:$PATH PYTHON=/nowhere/python

prints 0 ' PASS, 0 FAIL, 4 SKIP$' "$source_folder/tests/device/run.sh" build first
check "cases are asked for" test "$(cat device_results/first/*.log.command | grep -c -- --run_test=)" -ge 30
# What this test is for.
sed -i '/^    runs[*]/d' device_ops_test.list
prints 1 '^FAIL .*a kernel of fp8_runs.cu: status 1: error: no cases fp8_rounding/runs' \
  "$source_folder/tests/device/run.sh" build first
finish_checks
