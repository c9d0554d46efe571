#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Downloads models and data sets of the Hugging Face hub, for sft and sft-prepare.

    postprocess/fetch.py model ORG/NAME [--revision REVISION]
    postprocess/fetch.py dataset ORG/NAME [--revision REVISION]
    postprocess/fetch.py dataset ORG/NAME [--config NAME] [--split NAME] [--revision REVISION] --output FILE.jsonl

A model goes into the hub cache (HF_HOME, HF_HUB_CACHE), where model.model_name_or_path = ORG/NAME finds it. Weights are
downloaded as safetensors only. The files of a data set go there too, where `sft-launch --dataset_name ORG/NAME` finds them:
JSON and Parquet. With --output the set, or one split of it, becomes a file of JSON lines instead, one record a line, in the
order of the set; records pass through memory one by one.

Needs huggingface_hub and, with --output, datasets (pip install huggingface_hub datasets). Models that ask for an agreement
need `hf auth login` first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from table_values import plain

DATA_FILES = [f"*.{name}{packed}" for name in ("jsonl", "json", "ndjson") for packed in ("", ".gz", ".zst")] + [
    "*.parquet", "*.arrow", "README.md", ".huggingface.yaml"]
MODEL_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "LICENSE*", "NOTICE*"]


def fail(message: str) -> None:
    sys.exit(f"fetch.py: error: {message}")


def fetch_model(options: argparse.Namespace) -> None:
    from huggingface_hub import snapshot_download

    folder = snapshot_download(options.name, revision=options.revision, allow_patterns=MODEL_FILES,
                               ignore_patterns=["original/*", "onnx/*", "*/*.safetensors"])
    if not (Path(folder) / "config.json").exists():
        fail(f"{options.name} has no config.json (it is no model of transformers): choose another one")
    if not any(Path(folder).glob("*.safetensors")):
        fail(f"{options.name} has no safetensors files (sft reads no others): choose another revision or model")
    print(folder)


def choose_split(splits: list[str], wanted: str | None, name: str) -> str:
    if wanted is None and len(splits) == 1:
        return splits[0]
    if wanted not in splits:
        problem = f"{name} has no split {wanted}" if wanted else f"{name} has several splits"
        fail(f"{problem} (there are {', '.join(splits)}): give --split NAME")
    return wanted


def choose_config(configs: list[str], wanted: str | None, name: str) -> str | None:
    if wanted is None and len(configs) <= 1:
        return configs[0] if configs else None
    if wanted not in configs:
        problem = f"{name} has no config {wanted}" if wanted else f"{name} has several configs"
        fail(f"{problem} (there are {', '.join(configs)}): give --config NAME")
    return wanted


def line_of(record, left_out: set) -> str:
    """A record as JSON. Columns that JSON has no form for, such as images, are left out; each is named once."""
    record = {name: value for name, value in record.items() if name not in left_out}
    try:
        return json.dumps(record, ensure_ascii=False, default=plain)
    except TypeError:
        for name in list(record):
            try:
                json.dumps(record[name], default=plain)
            except TypeError as error:
                left_out.add(name)
                print(f"warning: column {name} is left out ({error})", file=sys.stderr)
                del record[name]
        return json.dumps(record, ensure_ascii=False, default=plain)


def write_records(records, path: Path) -> int:
    """Writes to PATH.tmp and renames: a file of that name is whole."""
    temporary = path.with_name(path.name + ".tmp")
    count = 0
    left_out = set()
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            for count, record in enumerate(records, 1):
                file.write(line_of(record, left_out) + "\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def fetch_data_files(options: argparse.Namespace) -> None:
    from huggingface_hub import snapshot_download

    folder = Path(snapshot_download(options.name, repo_type="dataset", revision=options.revision,
                                    allow_patterns=DATA_FILES))
    if not any(path.name not in ("README.md", ".huggingface.yaml") for path in folder.rglob("*") if path.is_file()):
        fail(f"{options.name} has no files of JSON or Parquet: give --output FILE.jsonl, which lets `datasets` read it")
    print(folder)


def fetch_dataset(options: argparse.Namespace) -> None:
    if options.output is None:
        if options.config or options.split:
            fail("--config and --split choose records (the files go into the cache as they are): give --output FILE.jsonl")
        return fetch_data_files(options)
    import datasets

    configs = datasets.get_dataset_config_names(options.name, revision=options.revision)
    config = choose_config(configs, options.config, options.name)
    splits = datasets.get_dataset_split_names(options.name, config, revision=options.revision)
    split = choose_split(splits, options.split, options.name)
    records = datasets.load_dataset(options.name, config, split=split, revision=options.revision, streaming=True)
    path = Path(options.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"{path}: {write_records(records, path)} records")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="kind", required=True)
    model = commands.add_parser("model", help="into the hub cache")
    model.set_defaults(fetch=fetch_model)
    dataset = commands.add_parser("dataset", help="as JSON lines")
    dataset.set_defaults(fetch=fetch_dataset)
    for command in (model, dataset):
        command.add_argument("name", metavar="ORG/NAME")
        command.add_argument("--revision", default="main", help="branch, tag or commit [main]")
    dataset.add_argument("--config", help="which part of the data set, where it has several")
    dataset.add_argument("--split", help="train, test ..., where it has several")
    dataset.add_argument("--output", metavar="FILE.jsonl", help="make JSON lines of it instead")
    options = parser.parse_args()
    try:
        options.fetch(options)
    except ImportError as error:
        fail(f"{error}: pip install huggingface_hub datasets")
    except (OSError, ValueError) as error:  # the network fails, a name does not exist
        fail(f"cannot download {options.name} ({str(error).splitlines()[0]}): check the name, the network, and whether "
             "the hub asks for `hf auth login`")


if __name__ == "__main__":
    main()
