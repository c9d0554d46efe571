#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# HDF5 follows files of strangers to any file of the machine, and itself into itself until the stack ends. Packed shards
# must hold their values; a checkpoint may take them from shard files beside it that do.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

make_run run.ini 60 1
"$sft" run.ini --train.output_dir run >/dev/null
mkdir elsewhere packed checkpoints
cat >craft.py <<'PYTHON'
import glob, os, shutil, sys, zlib
import h5py

sound = h5py.File("data/train-00000.h5")
tokens = sound["tokens"][()]
with open("secret.bin", "wb") as secret:
    secret.write(tokens.tobytes())
with h5py.File("elsewhere/secret.h5", "w") as secret:
    secret["tokens"] = tokens
shutil.copy("elsewhere/secret.h5", "packed/beside.h5")

def virtual(file, name, source, dataset, shape=tokens.shape, dtype="i4"):
    layout = h5py.VirtualLayout(shape=shape, dtype=dtype)
    layout[...] = h5py.VirtualSource(source, dataset, shape=shape)
    file.create_virtual_dataset(name, layout)

def unlimited(file, source, dataset):
    """A virtual dataset whose size is a question to its sources."""
    space = h5py.h5s.create_simple(tokens.shape, (h5py.h5s.UNLIMITED, tokens.shape[1]))
    space.select_hyperslab((0, 0), (1, 1), (1, 1), (h5py.h5s.UNLIMITED, tokens.shape[1]))
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_virtual(space, source, dataset, space)
    h5py.h5d.create(file.id, b"tokens", h5py.h5t.NATIVE_INT32, space, properties)

def raw(file, name, path, shape=tokens.shape, dtype="i4", num_bytes=tokens.nbytes):
    file.create_dataset(name, shape, dtype=dtype, external=[(path, 0, num_bytes)])

def soft(file):
    file["way"] = h5py.ExternalLink("../elsewhere/secret.h5", "/")
    file["tokens"] = h5py.SoftLink("/way/tokens")

here = os.getcwd()
ways = {
    "raw": lambda file: raw(file, "tokens", here + "/secret.bin"),
    "raw_beside": lambda file: raw(file, "tokens", "../secret.bin"),
    "link": lambda file: file.__setitem__("tokens", h5py.ExternalLink(here + "/elsewhere/secret.h5", "/tokens")),
    "link_beside": lambda file: file.__setitem__("tokens", h5py.ExternalLink("beside.h5", "/tokens")),
    "soft_link": soft,
    "virtual": lambda file: virtual(file, "tokens", here + "/elsewhere/secret.h5", "tokens"),
    "virtual_beside": lambda file: virtual(file, "tokens", "beside.h5", "tokens"),
    "itself": lambda file: virtual(file, "tokens", ".", "tokens"),
    "itself_by_name": lambda file: virtual(file, "tokens", "itself_by_name.h5", "tokens"),
    "itself_unlimited": lambda file: unlimited(file, b".", b"tokens"),
}
for name, make in ways.items():
    with h5py.File(f"packed/{name}.h5", "w", libver=("v110", "v110")) as file:
        for key in sound:
            if key != "tokens":
                sound.copy(key, file)
        for key, value in sound.attrs.items():
            if key != "fingerprint":
                file.attrs[key] = value
        make(file)

# Checkpoints of format version 1, whose index leads to the shard files: the weight of the last norm comes from elsewhere.
entry, parameter = "model", "model.norm.weight"
source = h5py.File("run/checkpoint-000001/tensors.h5")
header = h5py.File("run/checkpoint-000001/checkpoint.h5").attrs
shape = source[entry][parameter].shape

def checkpoint(name, of_index=None, of_shard=None):
    """A copy of the checkpoint. of_index(file) makes the parameter; of_shard(file) changes the shard file."""
    folder = f"checkpoints/{name}/checkpoint-000001"
    shutil.copytree("run/checkpoint-000001", folder)
    (shard,) = glob.glob(folder + "/shard-*.h5")
    if of_shard:
        with h5py.File(shard, "r+") as file:
            of_shard(file)
    os.remove(folder + "/checkpoint.h5")
    os.remove(folder + "/tensors.h5")
    with h5py.File(folder + "/checkpoint.h5", "w", libver=("v110", "v110")) as index:
        for key in source:
            group = index.create_group(key)
            for parameter_name in source[key]:
                if of_index is None or (key, parameter_name) != (entry, parameter):
                    source.copy(source[key][parameter_name], group, parameter_name)
        for key, value in header.items():
            if key not in ("map", "fingerprint"):
                index.attrs[key] = value
        index.attrs["format_version"] = header["format_version"] - 1
        with open(shard, "rb") as file:
            content = file.read()
        index.attrs["shards"] = f"{os.path.basename(shard)} {len(content)} crc32:{zlib.crc32(content):08x}\n"
        if of_index:
            of_index(index)

with h5py.File("elsewhere/weights.h5", "w") as file:
    file["model"] = [1.0] * shape[0]
full = f"{entry}/{parameter}"

def self_in_shard(file):
    size = file["model"].shape
    del file["model"]
    virtual(file, "model", ".", "model", size, "f4")

def raw_in_shard(file):
    size, num_bytes = file["model"].shape, 4 * file["model"].size
    with open("weights.bin", "wb") as weights:
        weights.write(bytes(num_bytes))
    del file["model"]
    raw(file, "model", here + "/weights.bin", size, "f4", num_bytes)

def link_in_shard(file):
    size = file["model"].shape
    del file["model"]
    with h5py.File("elsewhere/flat.h5", "w") as other:
        other.create_dataset("model", size, dtype="f4")
    file["model"] = h5py.ExternalLink(here + "/elsewhere/flat.h5", "/model")

outside = here + "/elsewhere/weights.h5"
checkpoint("sound")
checkpoint("itself", lambda index: virtual(index, full, ".", full, shape, "f4"))
checkpoint("itself_by_name", lambda index: virtual(index, full, "checkpoint.h5", full, shape, "f4"))
checkpoint("outside", lambda index: virtual(index, full, outside, "model", shape, "f4"))
checkpoint("above", lambda index: virtual(index, full, "../../../elsewhere/weights.h5", "model", shape, "f4"))
checkpoint("raw", lambda index: raw(index, full, here + "/secret.bin", shape, "f4", 4 * shape[0]))
checkpoint("link", lambda index: index.__setitem__(full, h5py.ExternalLink(outside, "/model")))
checkpoint("shard_itself", of_shard=self_in_shard)
checkpoint("shard_raw", of_shard=raw_in_shard)
checkpoint("shard_link", of_shard=link_in_shard)
PYTHON
/usr/bin/python3 craft.py

# A folder of its own for each: a run, or the way of a file's name, must not find what lies beside it.
for way in raw raw_beside link link_beside soft_link virtual virtual_beside itself itself_by_name itself_unlimited; do
  refuses 3 "packed/$way\.h5" "$sft_inspect" "packed/$way.h5"
  refuses 3 "packed/$way\.h5" "$sft_inspect" "packed/$way.h5" --verify
  refuses 3 "packed/$way\.h5" "$sft" run.ini --data.train_files "packed/$way.h5" --train.output_dir "trained_$way"
done
refuses 3 'its values lie in another file, .*secret\.bin' "$sft_inspect" packed/raw.h5
refuses 3 'it leads to another file, .*secret\.h5' "$sft_inspect" packed/link.h5
refuses 3 'it takes its values from other datasets' "$sft_inspect" packed/virtual.h5

status_of "$sft_inspect" checkpoints/sound/checkpoint-000001 --verify
check 'values in shard files beside a checkpoint are read' test "$status" -eq 0
status_of /usr/bin/python3 -c 'import glob, h5py, subprocess, sys
files = [h5py.File(name, "a") for name in glob.glob(sys.argv[-2] + "/*.h5")]
sys.exit(subprocess.run(sys.argv[1:]).returncode)' "$sft_inspect" checkpoints/sound/checkpoint-000001 --verify
check 'also while another program has them open for writing' test "$status" -eq 0
for way in itself itself_by_name outside above raw link shard_itself shard_raw shard_link; do
  checkpoint=checkpoints/$way/checkpoint-000001
  refuses 3 "$checkpoint" "$sft_inspect" "$checkpoint"
  refuses 3 "$checkpoint" "$sft_inspect" "$checkpoint" --verify
  refuses 3 "$checkpoint" "$sft_convert" "$checkpoint" "converted_$way"
  refuses 3 "$checkpoint" "$sft" run.ini --checkpoint.resume_from_checkpoint "$checkpoint" --train.max_steps 2 \
    --train.output_dir "resumed_$way"
done
finish_checks
