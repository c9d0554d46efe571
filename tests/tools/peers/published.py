# SPDX-License-Identifier: Apache-2.0
"""Models with the config.json of published ones, cut to what a small machine computes in float64, and random weights.

published/NAME.json has the `model`, the `source` of its config.json, that `config`, and what is `cut`: values that take
the place of others, of layers, experts and vocabulary. Files are as published: names and shapes as transformers writes
them, bfloat16 (or what `config` says), several files with an index; experts of gpt-oss in MXFP4.
"""
import json
import pathlib
import random
import shutil

import torch
import transformers

import family_models

FOLDER = pathlib.Path(__file__).with_name("published")
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def cut(config, values):
    """The config with these values, of fields of a tower where one is an object; null: without the field."""
    result = dict(config)
    for name, value in values.items():
        if value is None:
            del result[name]
        else:
            result[name] = cut(config[name], value) if isinstance(value, dict) else value
    return result


def class_of(config):
    return getattr(transformers, config["architectures"][0])


def make_model(name, folder, attempt=0):
    """Writes the model; the generator of all else that is random with it. Another attempt has other weights and rows."""
    described = json.loads((FOLDER / f"{name}.json").read_text())
    config = cut(described["config"], described["cut"])
    quantization = config.pop("quantization_config", None)
    rng = random.Random(name + f" {attempt}" * (attempt > 0))
    torch.manual_seed(rng.randrange(1 << 30))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    dtype = getattr(torch, config.get("torch_dtype", config.get("dtype", "bfloat16")))
    with torch.device("meta"):
        network = class_of(config)(transformers.AutoConfig.from_pretrained(folder))
    network = network.to(dtype).to_empty(device="cpu")
    network.tie_weights()
    family_models.draw_parameters(network)
    packed = family_models.pack_experts(network) if quantization else None
    network.save_pretrained(folder, max_shard_size="5GB" if packed else "300MB")
    (folder / "config.json").write_text(json.dumps(config, indent=2))  # as published, not as this version writes it
    if packed is not None:
        family_models.save_packed(folder, packed, quantization)
    return rng
