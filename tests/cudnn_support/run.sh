#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a test with a driver that has no GPU in front of the system's, and with NVIDIA's libraries of FOLDERS. Skipped,
# by status 77, where cuDNN is in none of the places it is looked for.
# usage: run.sh TEST STUB_FOLDER FOLDERS
set -euo pipefail
test=$1 stub=$2 folders=$3
export LD_LIBRARY_PATH="$stub:${SFT_CUDNN_FOLDER:+$SFT_CUDNN_FOLDER:}${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders"
IFS=: read -r -a places <<<"$LD_LIBRARY_PATH"
if ! find "${places[@]}" -maxdepth 1 -name 'libcudnn_graph.so.9' 2>/dev/null | grep -q . &&
  ! ldconfig -p | grep -q libcudnn_graph.so.9; then
  echo "SKIP: there is no libcudnn"
  exit 77
fi
exec "$test" --log_level=message
