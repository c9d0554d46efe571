#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What this build would send to a machine with a GPU is small enough for it; skipped where `make tools` has not been.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

build=$bin/..
if ! "$test_folder/run.sh" --programs "$build" >files 2>missing; then skip_test "$(cat missing)"; fi
succeeds 'the archive is small enough' "$test_folder/run.sh" --pack device_test.tar.xz "$build"
cat out
finish_checks
