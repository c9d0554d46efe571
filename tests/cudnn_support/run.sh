#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a test with NVIDIA's libraries of FOLDERS. Skipped, by status 77, where cuDNN is in none of the places it is
# looked for.
# usage: run.sh FOLDERS TEST [ARGUMENT...]
set -euo pipefail
folders=$1
shift
export LD_LIBRARY_PATH="${SFT_CUDNN_FOLDER:+$SFT_CUDNN_FOLDER:}${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders"
IFS=: read -r -a places <<<"$LD_LIBRARY_PATH"
if ! find "${places[@]}" -maxdepth 1 -name 'libcudnn_graph.so.9' 2>/dev/null | grep -q . &&
  ! ldconfig -p | grep -q libcudnn_graph.so.9; then
  echo "SKIP: there is no libcudnn"
  exit 77
fi
exec "$@"
