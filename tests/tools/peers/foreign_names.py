#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the names that users of TRL, transformers and Accelerate know, for the test that sft answers to all of them.

    tests/tools/peers/foreign_names.py            prints the list of the installed packages
    tests/tools/peers/foreign_names.py --check    fails where tests/unit/config/foreign_names.txt is another one
    tests/tools/peers/foreign_names.py --write    writes it there

The names are the fields of the configuration classes and the options of `accelerate launch`. A name that several have is
listed once, with the first. Needs trl==1.16.0, transformers==5.24.0 and accelerate==1.15.0.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import sys
from pathlib import Path

import accelerate
import transformers
import trl
from accelerate.commands.config import config_args
from accelerate.commands.launch import launch_command_parser
from accelerate.utils import (
    DeepSpeedPlugin,
    DeepSpeedSequenceParallelConfig,
    FullyShardedDataParallelPlugin,
    TorchContextParallelConfig,
    TorchTensorParallelConfig,
)
from accelerate.parallelism_config import ParallelismConfig
from transformers.trainer_pt_utils import AcceleratorConfig
from trl.scripts.utils import DatasetConfig

LIST = Path(__file__).resolve().parents[2] / "unit" / "config" / "foreign_names.txt"

CLASSES = {
    trl: [trl.SFTConfig, trl.ModelConfig, trl.ScriptArguments, trl.DatasetMixtureConfig, DatasetConfig],
    transformers: [transformers.TrainingArguments, AcceleratorConfig],
    accelerate: [
        ParallelismConfig, TorchTensorParallelConfig, TorchContextParallelConfig, DeepSpeedSequenceParallelConfig,
        FullyShardedDataParallelPlugin, DeepSpeedPlugin, config_args.ClusterConfig, config_args.SageMakerConfig,
    ],
}


def fields_of(config: type) -> list[str]:
    return [field.name for field in dataclasses.fields(config) if not field.name.startswith("_")]


def launch_options() -> list[str]:
    names = []
    for action in launch_command_parser()._actions:
        names += [word[2:] for word in action.option_strings if word.startswith("--") and "-" not in word[2:]]
    return [name for name in names if name != "help"]


def lines() -> list[str]:
    groups = [(f"{config.__name__} of {package.__name__} {package.__version__}", fields_of(config))
              for package, configs in CLASSES.items() for config in configs]
    groups.append((f"`accelerate launch` of accelerate {accelerate.__version__}", launch_options()))
    text = ["# Names that users of TRL, transformers and Accelerate know; tests/tools/peers/foreign_names.py --write makes this list."]
    seen: set[str] = set()
    for title, names in groups:
        new = [name for name in dict.fromkeys(names) if name not in seen]
        seen.update(new)
        text += [f"# {title}", *new]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="compare with the list in the tests")
    action.add_argument("--write", action="store_true", help="write the list in the tests")
    options = parser.parse_args()
    now = lines()
    if options.write:
        LIST.write_text("\n".join(now) + "\n", encoding="utf-8")
    elif options.check:
        before = LIST.read_text(encoding="utf-8").splitlines()
        difference = list(difflib.unified_diff(before, now, str(LIST), "installed packages", lineterm="", n=0))
        if difference:
            sys.exit("\n".join(difference) + "\nforeign_names.txt is out of date: run this script with --write")
        print(f"{LIST.name} is what the packages have: {sum(not line.startswith('#') for line in now)} names")
    else:
        print("\n".join(now))


if __name__ == "__main__":
    main()
