#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds, tests and installs the library of chat templates without the rest of sft, and a program that finds it there.
#
#   jinja.sh CMAKE SOURCE_FOLDER CXX
set -euo pipefail
cmake=$1 source=$2 cxx=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" -S "$source/src/tools/jinja" -B "$work/build" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_UNITY_BUILD=ON >"$work/log"
"$cmake" --build "$work/build" >>"$work/log" || { cat "$work/log"; exit 1; }
ctest --test-dir "$work/build" --output-on-failure
"$cmake" --install "$work/build" --prefix "$work/prefix" >>"$work/log"
mv "$work/prefix" "$work/moved"

"$cmake" -S "$here/jinja" -B "$work/consumer" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$work/moved" >>"$work/log"
"$cmake" --build "$work/consumer" >>"$work/log" || { cat "$work/log"; exit 1; }
output=$("$work/consumer/render")
echo "$output"
[[ $output == *GRÜSSE*"'include' is not supported"* ]]
