#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shards with a seal are HDF5 files for h5py like any other: attributes, shapes, checksummed chunks and values.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

python=$(python_with h5py)
for i in $(seq 50); do printf '{"text": "text %d"}\n' "$i"; done >texts.jsonl
"$sft_prepare" --input texts.jsonl --output data --max_length 32 --num_shards 2 >/dev/null
succeeds "h5py reads a shard" "$python" - data/train-00001.h5 <<'PYTHON'
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
finish_checks
