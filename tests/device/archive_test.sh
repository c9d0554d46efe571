#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What this build would send to a machine with a GPU is small enough for it; skipped where `make tools` has not been.
#
#   archive_test.sh BUILD_FOLDER
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! "$here/run.sh" --programs "$1" >"$folder/files" 2>"$folder/missing"; then
  cat "$folder/missing"
  exit 77
fi
"$here/run.sh" --pack "$folder/device_test.tar.xz" "$1"
