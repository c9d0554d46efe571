# SPDX-License-Identifier: Apache-2.0
"""Tensors of a safetensors file, or of a model folder of one, as name: (dtype, shape, bytes)."""
import json
import os
import shutil
import struct


def read(path):
    with open(os.path.join(path, "model.safetensors") if os.path.isdir(path) else path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for name, t in header.items()}


def write(source, folder, tensors, change=lambda config: None):
    """Copies the folder `source` with other tensors, and a config.json that `change` was called with."""
    shutil.copytree(source, folder)
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder + "/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))
    with open(folder + "/config.json", encoding="utf-8") as file:
        config = json.load(file)
    change(config)
    with open(folder + "/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
