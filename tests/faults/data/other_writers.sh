#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packed data that other programs wrote with HDF5, in ways that h5py, MATLAB, C and Fortran have and sft-prepare has not: it
# is read, or refused for what it is. And shards of sft-prepare that others opened for writing.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

python=$(python_with h5py)
make_data 120
cat >write.py <<'PYTHON'
import h5py
import numpy

sound = h5py.File("data/train-00000.h5", "r")
COLUMNS = ("tokens", "loss_weight", "document_offsets", "document_lengths")

def write(name, attrs=(), times=1, user_block=0, text=b"", **storage):
    """The shard's rows, `times` over."""
    with h5py.File(name, "w", userblock_size=user_block) as file:
        lengths, offsets = sound["document_lengths"][()], sound["document_offsets"][()]
        steps = numpy.tile(numpy.diff(offsets), times)
        values = dict(tokens=numpy.tile(sound["tokens"][()], (times, 1)),
                      loss_weight=numpy.tile(sound["loss_weight"][()], (times, 1)),
                      document_lengths=numpy.tile(lengths, times),
                      document_offsets=numpy.concatenate([[0], numpy.cumsum(steps)]))
        for column in COLUMNS:
            of_column = storage if values[column].ndim == 2 else {k: v for k, v in storage.items() if k != "chunks"}
            file.create_dataset(column, data=values[column], **of_column)
        for key in ("format", "format_version", "max_length", "vocab_size", "pad_token_id", "eos_token_id", "tokenizer",
                    "num_rows", "num_documents", "num_tokens", "num_target_tokens", "packing_strategy", "source"):
            value = sound.attrs[key]
            file.attrs[key] = value * times if key.startswith("num_") else value
        for key, text_bytes in attrs:
            del file.attrs[key]
            kind = h5py.h5t.C_S1.copy()
            kind.set_size(32)
            kind.set_strpad(h5py.h5t.STR_NULLTERM)
            attribute = h5py.h5a.create(file.id, key.encode(), kind, h5py.h5s.create(h5py.h5s.SCALAR))
            attribute.write(numpy.array(text_bytes.ljust(32, b"\0"), dtype="S32"), mtype=kind)
    if text:
        with open(name, "r+b") as file:
            file.write(text)

write("plain.h5")
write("lzf.h5", compression="lzf")

# Rows with a filter that this HDF5 has not, which no statistic needs: the values are never read.
for column in ("tokens", "loss_weight"):
    for number, filter_name in ((32015, "zstd"), (32008, "bitshuffle")):
        with h5py.File(f"{filter_name}_{column}.h5", "w") as file:
            for key, value in sound.attrs.items():
                file.attrs[key] = value
            for other in sound:
                if other != column:
                    file.create_dataset(other, data=sound[other][()])
            shape = sound[column].shape
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk(shape)
            properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, ())
            stored = h5py.h5d.create(file.id, column.encode(), h5py.h5t.py_create(sound[column].dtype),
                                     h5py.h5s.create_simple(shape), properties)
            stored.write_direct_chunk((0, 0), b"compressed", 0)
write("ended.h5", attrs=[("format", b"sft-packed\0left over"), ("tokenizer", b"byte\0of a buffer")])
write("block_512.h5", user_block=512)
write("block_4096.h5", user_block=4096, text=b"MATLAB 7.3 MAT-file, Platform: GLNXA64")
rows = 2 * 2**20 // (4 * int(sound.attrs["max_length"])) // int(sound.attrs["num_rows"])  # 2 MiB of tokens
write("wide_chunks.h5", times=rows, compression="gzip", chunks=(4000, 16))
write("own_chunks.h5", times=rows, compression="gzip", chunks=(341, 48))
write("whole_chunks.h5", times=rows, chunks=(rows * int(sound.attrs["num_rows"]), 48))  # more than the cache: no chunk is kept

# A version of a message that no HDF5 knows yet: that of the layout of /tokens, before the address of its values.
data = bytearray(open("plain.h5", "rb").read())
with h5py.File("plain.h5", "r") as file:
    address = file["tokens"].id.get_offset()
place = data.index(bytes([3, 1]) + address.to_bytes(8, "little"))
data[place] = 9
open("newer.h5", "wb").write(data)
PYTHON
"$python" write.py

prints 0 '^documents +120$' "$sft_inspect" plain.h5
export HDF5_PLUGIN_PATH=$work/no_plugins
refuses 3 'filter lzf \(32000\).* does not have\): set HDF5_PLUGIN_PATH .*gzip' "$sft_inspect" lzf.h5
for filter in zstd bitshuffle; do
  for column in tokens loss_weight; do
    refuses 3 "cannot read the dataset /$column in ${filter}_$column\.h5 .*filter $filter \(" \
      "$sft_inspect" "${filter}_$column.h5"
  done
done
unset HDF5_PLUGIN_PATH
refuses 3 'cannot open /tokens in newer\.h5 \(.*version number.*\): a newer HDF5 than [0-9.]+.*libver' "$sft_inspect" newer.h5
prints 0 '^tokenizer +byte, ' "$sft_inspect" ended.h5
mkdir together
cp ended.h5 together/train-00000.h5
cp plain.h5 together/train-00001.h5
prints 0 '^shard files +2, all as' "$sft_inspect" together --verify
for block in 512 4096; do prints 0 'as they were written' "$sft_inspect" "block_$block.h5" --verify; done
prints 0 '^warning: reading wide_chunks\.h5 is slow .*chunks=\(341, 48\)' "$sft_inspect" wide_chunks.h5
for sound in own_chunks whole_chunks; do
  prints 0 '^documents' "$sft_inspect" "$sound.h5"
  check "no word on the chunks of $sound" bash -c '! grep -q warning out'
done

# Opened for writing and left as it was: as it is open, then cut, then as before.
cp data/train-00000.h5 before.h5
"$python" -c 'import h5py, os, sys
with h5py.File("data/train-00000.h5", "a") as file:
    assert file["tokens"].shape
    sys.exit(os.spawnvp(os.P_WAIT, sys.argv[1], sys.argv[1:]))' "$sft_inspect" data --verify >out 2>err || true
check 'a shard is read while h5py has it open for writing' grep -q 'all as they were written' out
check 'one warning says so' test "$(grep -c 'warning: .* is open for writing in another program' err)" -eq 1
check 'HDF5 cut it' test "$(stat -c %s data/train-00000.h5)" -lt "$(stat -c %s before.h5)"
prints 0 '^warning: data/train-00000\.h5 was opened for writing .*has its hashes again' "$sft_inspect" data
check 'it is as it was' cmp before.h5 data/train-00000.h5
"$python" -c 'import h5py
with h5py.File("data/train-00000.h5", "a") as file: file["tokens"][0, 0] += 1'
was_changed='was changed after it was written, as h5repack or a program that opens it for writing does'
refuses 3 "data/train-00000\.h5 $was_changed" "$sft_inspect" data
cp before.h5 data/train-00000.h5
"$python" -c 'import h5py
with h5py.File("data/train-00000.h5", "a") as file: file.attrs["note"] = "x" * 3000'
refuses 3 "data/train-00000\.h5 $was_changed" "$sft_inspect" data
if [[ -n $(type -P h5repack) ]]; then
  for bounds in '' '-L' '-j 1 -k 2' '-f GZIP=1'; do
    # shellcheck disable=SC2086  # words
    h5repack $bounds before.h5 data/train-00000.h5
    refuses 3 "data/train-00000\.h5 $was_changed" "$sft_inspect" data
  done
fi
head -c 3000 before.h5 >data/train-00000.h5
refuses 3 'data/train-00000\.h5 is damaged' "$sft_inspect" data
finish_checks
