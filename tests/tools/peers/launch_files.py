#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sft-launch makes of the files that other programs ship: each runs or is refused by name.

    launch_files.py SFT_LAUNCH [FOLDER ...]

Without folders: the profiles of the installed trl. With them (a checkout of TRL, Accelerate or Axolotl): every YAML
and JSON file below that one of the readers is for. Prints a line for each. Fails where sft-launch ends otherwise than with
0, 2 or 3 and where a profile of trl means other keys than ours of the same name.
"""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

MODEL = ("--hidden_size 64 --num_hidden_layers 2 --num_attention_heads 8 --num_key_value_heads 8 "
         "--intermediate_size 64 --vocab_size 272 --tokenizer byte").split()
MARKS = ("distributed_type", "zero_optimization", "base_model:", "model_name_or_path")


def launch(program, records, *words):
    command = [program, "sft", *MODEL, "--data_files", records, *words, "--print"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def keys_of(text):
    """The lines of the .ini file in what --print shows, without its comments."""
    return [line for line in text.split("# rows:")[0].splitlines() if " = " in line and "files = " not in line]


def profiles_of_trl():
    folder = pathlib.Path(importlib.util.find_spec("trl").origin).parent / "accelerate_configs"
    return sorted(folder.glob("*.yaml"))


def main():
    program, folders = sys.argv[1], sys.argv[2:]
    num_wrong = 0
    with tempfile.TemporaryDirectory() as work:
        records = f"{work}/records.jsonl"
        with open(records, "w", encoding="utf-8") as file:
            file.write(json.dumps({"prompt": "a", "completion": "b"}) + "\n")
        if not folders:
            for path in profiles_of_trl():
                theirs = launch(program, records, "--accelerate_config", str(path), "--num_processes", "8")
                ours = launch(program, records, "--accelerate_config", path.stem, "--num_processes", "8")
                is_same = theirs.returncode == 0 and keys_of(theirs.stdout) == keys_of(ours.stdout)
                num_wrong += not is_same
                print(f"{'same ' if is_same else 'WRONG'} {path.name} {theirs.stderr.strip()}")
        for path in sorted(found for folder in folders for found in pathlib.Path(folder).rglob("*")
                           if found.suffix in (".yaml", ".yml", ".json")):
            text = path.read_text(encoding="utf-8", errors="replace")
            if not any(mark in text for mark in MARKS):
                continue
            option = "--config" if "base_model:" in text or "model_name_or_path" in text else "--accelerate_config"
            ended = launch(program, records, option, str(path))
            is_right = ended.returncode in (0, 2, 3)
            num_wrong += not is_right
            print(f"{'runs   ' if ended.returncode == 0 else 'refused' if is_right else 'WRONG  '} {path}")
            if ended.returncode != 0:
                print("   ", ended.stderr.strip().replace("\n", "\n    "))
    print(f"{num_wrong} wrong")
    return num_wrong > 0


if __name__ == "__main__":
    sys.exit(main())
