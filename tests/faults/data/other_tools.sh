#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shards with a seal are HDF5 files for h5py like any other: attributes, shapes, checksummed chunks and values.
#
#   other_tools.sh SFT_PREPARE
set -euo pipefail

sft_prepare=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

python=
for candidate in python3 /usr/bin/python3; do
  "$candidate" -c 'import h5py' 2>/dev/null && { python=$candidate; break; }
done
[[ -n $python ]] || { echo "no python3 with h5py: run \`make deps\`"; exit 1; }

for i in $(seq 50); do printf '{"text": "text %d"}\n' "$i"; done >texts.jsonl
"$sft_prepare" --input texts.jsonl --output data --max_length 32 --num_shards 2 >/dev/null
"$python" - data/train-00001.h5 <<'PYTHON'
import sys

import h5py

with h5py.File(sys.argv[1]) as file:
    attributes = dict(file.attrs)
    tokens, lengths, offsets = file["tokens"], file["document_lengths"][()], file["document_offsets"][()]
    assert file.userblock_size == 512, file.userblock_size
    assert bytes(attributes["format"]) == b"sft-packed", attributes
    assert (attributes["shard_index"], attributes["num_shards"]) == (1, 2), attributes
    assert tokens.shape == (attributes["num_rows"], 32) and tokens.fletcher32 and tokens.fillvalue == -1
    assert offsets[-1] == len(lengths) == attributes["num_documents"], offsets
    assert lengths.sum() == attributes["num_tokens"]
    first = bytes(tokens[0, : lengths[0] - 1].astype("uint8").tolist())
    assert first.startswith(b"text "), first
PYTHON
