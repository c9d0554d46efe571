#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds, tests and installs the library of chat templates without the rest of sft, and a program that finds it there.
#
#   jinja.sh CMAKE CXX
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
cmake=$1 cxx=$2

# builds NAME WORD...: configures and builds there.
builds() { "$cmake" -B "$@" -DCMAKE_CXX_COMPILER="$cxx" && "$cmake" --build "$1"; }

succeeds 'the library builds alone' builds build -S "$source_folder/src/tools/jinja" -DCMAKE_UNITY_BUILD=ON
succeeds 'its tests pass' ctest --test-dir build --output-on-failure
cat out
succeeds 'it is installed' "$cmake" --install build --prefix prefix
mv prefix moved
succeeds 'a program finds it' builds consumer -S "$test_folder/jinja" -DCMAKE_PREFIX_PATH="$work/moved"
prints 0 '^GRÜSSE$' consumer/render
check 'and its errors' grep -q "'include' is not supported" out
finish_checks
