#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The emulated GPU is a project of its own: without the rest of sft it configures, builds and passes its tests.
#
#   alone.sh CMAKE CXX_COMPILER CMAKE_WORD...
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
cmake=$1 compiler=$2

cp -r "$test_folder/gpu" alone # where nothing of sft lies above it
succeeds 'it configures' "$cmake" -S alone -B build -DCMAKE_CXX_COMPILER="$compiler" "${@:3}"
succeeds 'it builds' "$cmake" --build build --parallel 2
succeeds 'its tests pass' ctest --test-dir build --output-on-failure
cat out
finish_checks
