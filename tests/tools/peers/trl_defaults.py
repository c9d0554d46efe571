#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Defaults of TRL's SFTConfig and ModelConfig beside those of sft and sft-prepare: the table in docs/trl.md.

    tests/tools/peers/trl_defaults.py SFT_BIN_FOLDER            prints the table
    tests/tools/peers/trl_defaults.py SFT_BIN_FOLDER --check    fails where docs/trl.md has another one
    tests/tools/peers/trl_defaults.py SFT_BIN_FOLDER --write    writes it there

Values of TRL are read from an SFTConfig and a ModelConfig of the installed packages, ours from --help of the programs. A
name that both have and whose defaults differ must be in the table: the script fails where it is not. Needs trl==1.16.0,
transformers==5.23.0 and peft.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

import peft
import trl
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as PEFT_TARGETS
from transformers.trainer_pt_utils import AcceleratorConfig

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "trl.md"
BEGIN, END = "<!-- tests/tools/peers/trl_defaults.py --write -->", "<!-- end -->"

# TRL's name, ours, and what the difference means. "--NAME" is an option of sft-prepare.
ROWS = [
    ("packing", "--packing", "other rows, so other losses. `--packing false` gives TRL's"),
    ("bf16", "train.precision", "both compute in bf16 over float32 weights, but round at different places. Losses agree to "
     "2e-4 and better with `--bf16 false` there and `precision = fp32` here"),
    ("train_sampling_strategy", "data.shuffle", "the same order of rows. With `sequential` TRL ends an epoch with a shorter "
     "step; `shuffle = false` fills it up with rows of the next one, unless `row_order = trl`"),
    ("data_seed", "data.seed", "TRL takes its `seed` (42) where `data_seed` is not given: TRL's `--seed 7` is `--data.seed 7 "
     "--train.seed 7` here"),
    ("even_batches", None, "on several processes TRL repeats rows where those at the end of an epoch do not fill a micro-batch "
     "on each; here no row comes twice, on any mesh: TRL's losses on one process"),
    ("lora_target_modules", "lora.lora_target_modules", "`q_proj v_proj` gives PEFT's for the families that sft has. Adapters "
     "begin with other random numbers and, unless `lora_dropout = 0`, drop other inputs"),
    ("activation_checkpointing", "train.activation_checkpointing", "memory and time alone; TRL's is `full`. Also called "
     "`gradient_checkpointing`"),
    ("fsdp", "parallel.zero_stage", "memory and time alone: parameters, gradients and optimizer state are cut over all ranks. "
     "TRL's (DDP) is `zero_stage = 0`"),
    ("eval_strategy", "train.eval_strategy", "with `eval_files` there is an evaluation every `logging_steps` and at the end; "
     "`eval_steps = 0`: at the end alone. `eval_loss` is over all tokens, TRL's the mean over batches"),
    ("logging_nan_inf_filter", None, "TRL hides a NaN loss behind the mean of the others; here it ends the run, with status 4, or "
     "`nan_policy = skip` leaves the step out"),
    ("pad_to_multiple_of", "--pad_to_multiple_of", "padding alone, which is never computed here"),
    ("output_dir", "train.output_dir", "where results go. A run always leaves a checkpoint of its last step"),
]
# Names that mean something else in the other program, or the same with another text.
NOT_LISTED = {"seed", "eval_steps", "dataset_num_proc", "optim", "save_total_limit", "resume_from_checkpoint"}


def written(value) -> str:
    value = getattr(value, "value", value)
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple, set)):
        return " ".join(sorted(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def defaults_of_trl() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        config = trl.SFTConfig(output_dir=folder, use_cpu=True)
    given = {"output_dir", "use_cpu"}
    values = {}
    for instance in (trl.ModelConfig(), config):
        for field in dataclasses.fields(instance):
            is_resolved = field.default is None and field.name not in given  # as bf16, which follows from others
            values[field.name] = written(getattr(instance, field.name) if is_resolved else field.default)
    values["even_batches"] = written(AcceleratorConfig().even_batches)
    values["lora_target_modules"] = written(PEFT_TARGETS["llama"])
    return values


def defaults_of(program: pathlib.Path) -> dict[str, str]:
    """By "section.key", of sft-prepare by "--name"."""
    text = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
    values, section, name, words = {}, "", "", ""

    def take() -> None:
        found = re.search(r"\[([^\[\]]*)\]$", words)
        if name and found:
            values[name] = found.group(1)

    for line in text.splitlines() + [""]:
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading.group(1) + "."
        begin = re.match(r"  (--)?(\w+)( [A-Z]\w*)?(?:  +|$)(.*)", line)
        if begin and (begin.group(1) or section):
            take()
            name, words = (begin.group(1) or section) + begin.group(2), begin.group(4)
        elif line.startswith(" " * 20):
            words = f"{words} {line.strip()}"
        else:
            take()
            name, words = "", ""
    return values


def same(ours: str, theirs: str) -> bool:
    try:
        return float(ours) == float(theirs)
    except ValueError:
        return ours == theirs


def table(binaries: pathlib.Path) -> list[str]:
    theirs = defaults_of_trl()
    ours = defaults_of(binaries / "sft") | defaults_of(binaries / "sft-prepare")
    known = {name for name, _, _ in ROWS} | NOT_LISTED
    forgotten = [f"{key} [{value}], TRL {theirs[name]}" for key, value in ours.items()
                 if (name := re.split(r"\.|--", key)[-1]) in theirs and name not in known and not same(value, theirs[name])]
    if forgotten:
        sys.exit("defaults differ, but are not in ROWS:\n  " + "\n  ".join(forgotten))
    lines = ["| TRL | its default | here | default here | what it means |", "|---|---|---|---|---|"]
    for name, key, meaning in ROWS:
        default = f"`{theirs[name]}`" + (" (of PEFT)" if name == "lora_target_modules" else "")
        lines.append(f"| `{name}` | {default} | " + (f"`{key}` | `{ours[key]}`" if key else "|") + f" | {meaning} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="compare with docs/trl.md")
    action.add_argument("--write", action="store_true", help="write it into docs/trl.md")
    options = parser.parse_args()
    now = table(options.binaries)
    if not options.check and not options.write:
        print("\n".join(now))
        return
    before, rest = PAGE.read_text().split(BEGIN + "\n", 1)
    old, after = rest.split(END, 1)
    if options.write:
        PAGE.write_text(before + BEGIN + "\n" + "\n".join(now) + "\n" + END + after)
        return
    if difference := list(difflib.unified_diff(old.splitlines(), now, str(PAGE), "now", lineterm="")):
        sys.exit("\n".join(difference))
    print(f"the table is that of TRL {trl.__version__}, PEFT {peft.__version__} and these programs")


if __name__ == "__main__":
    main()
