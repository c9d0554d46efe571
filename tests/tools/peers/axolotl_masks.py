#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ids and masks of sft-prepare, as the reader of Axolotl's files asks for them, against those of Axolotl itself.

  axolotl_masks.py SFT_LAUNCH MODEL_FOLDER AXOLOTL [TEMPLATE.jinja TOKEN]...

MODEL_FOLDER holds a tokenizer and a small model, AXOLOTL is Axolotl's source folder (its sdist). Conversations are written
by the folder's own template, and by each TEMPLATE, whose turns end with TOKEN; Alpaca records by each of Axolotl's styles.
Each case is a file of Axolotl's, which sft-launch prepares; Axolotl's own classes read the same file.

Needs transformers, datasets, h5py, addict, colorama and pydantic; run by hand.
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import types

import h5py
from transformers import AutoTokenizer

CHATS = [[("human", "Hi"), ("gpt", "Yo")],
         [("system", "Be brief."), ("human", "One?"), ("gpt", "Two. "), ("human", "Three?"), ("gpt", " Four\n\nFive")],
         [("human", "a"), ("gpt", "<think>\nwhy\n</think>\n\nb"), ("human", "c"), ("gpt", "d")]]
ALPACAS = [{"instruction": "Add", "input": "1 2", "output": "3"}, {"instruction": "Greet", "input": "", "output": "Hello"},
           {"instruction": "It's {odd}", "output": "\nyes"}]
STYLES = ("alpaca", "alpaca:chat", "alpaca:chatml", "alpaca:phi")


def import_axolotl(folder):
    """Axolotl's modules without its package's own __init__, which wants all that it ever needs."""
    source = pathlib.Path(folder) / "src" / "axolotl"
    for name in ("axolotl", "axolotl.prompt_strategies", "axolotl.utils", "axolotl.utils.schemas"):
        module = types.ModuleType(name)
        module.__path__ = [str(source.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module


class Settings(dict):
    __getattr__ = dict.get


def theirs_of_chats(tokenizer, settings, records):
    import axolotl.prompt_strategies.chat_template as chats  # pylint: disable=import-outside-toplevel
    return chats.load(tokenizer, Settings(settings, train_on_inputs=False), settings["datasets"][0]), records


def theirs_of_alpacas(tokenizer, settings, records):
    from axolotl.prompt_tokenizers import AlpacaPromptTokenizingStrategy  # pylint: disable=import-outside-toplevel
    from axolotl.prompters import AlpacaPrompter  # pylint: disable=import-outside-toplevel
    style = settings["datasets"][0]["type"].partition(":")[2] or "instruct"
    return AlpacaPromptTokenizingStrategy(AlpacaPrompter(style), tokenizer, False, 512), records


def rows_of(folder):
    rows = []
    for path in sorted(pathlib.Path(folder).glob("train-*.h5")):
        with h5py.File(path, "r") as file:
            for tokens, weights, length in zip(file["tokens"], file["loss_weight"], file["document_lengths"]):
                rows.append((tokens[:length].tolist(), [int(weight > 0) for weight in weights[:length]]))
    return rows


def ours(program, work, settings, more):
    file = work / "axolotl.yaml"
    file.write_text(json.dumps(settings), encoding="utf-8")
    printed = subprocess.run([program, "sft", "--config", str(file), "--num_processes", "1", "--print", *more], check=True,
                             capture_output=True, text=True, env=os.environ | {"SFT_CACHE": str(work / "cache")}).stdout
    command = next(line for line in printed.splitlines() if "/sft-prepare " in line)
    words = shlex.split(command)
    subprocess.run(words, check=True, capture_output=True)
    return rows_of(words[words.index("--output") + 1])


def main():
    program, model, axolotl, rest = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    import_axolotl(axolotl)
    tokenizer = AutoTokenizer.from_pretrained(model)
    num_wrong = 0
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        chats = [{"conversations": [{"from": role, "value": text} for role, text in chat]} for chat in CHATS]
        mappings = {"role": "from", "content": "value"}
        chat = {"type": "chat_template", "field_messages": "conversations", "message_property_mappings": mappings}
        cases = [("own template", chats, chat, {}, [], theirs_of_chats)]
        for template, token in zip(rest[::2], rest[1::2]):
            text = pathlib.Path(template).read_text(encoding="utf-8")
            ends = {"chat_template": "jinja", "chat_template_jinja": text, "eot_tokens": [token]}
            cases.append((template, chats, chat, ends, ["--chat_template_path", template], theirs_of_chats))
        cases += [(style, ALPACAS, {"type": style}, {}, [], theirs_of_alpacas) for style in STYLES]
        for number, (case, records, dataset, ends, more, theirs_of) in enumerate(cases):
            path = work / f"{number}.jsonl"
            path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
            settings = {"base_model": model, "sequence_len": 512, "learning_rate": 1e-4, "sample_packing": False,
                        "datasets": [{"path": str(path), **dataset}], **ends}
            strategy, read = theirs_of(tokenizer, settings, records)
            theirs = [strategy.tokenize_prompt(record) for record in read]
            theirs = [(list(row["input_ids"]), [int(label != -100) for label in row["labels"]]) for row in theirs]
            ends.pop("chat_template_jinja", None)
            settings = {key: value for key, value in settings.items() if not key.startswith("chat_template")}
            found = ours(program, work, settings, more)
            is_same = found == theirs
            num_wrong += not is_same
            print(f"{'same ' if is_same else 'WRONG'} {case}: {len(found)} records")
            for mine, other in zip(found, theirs):
                if mine != other:
                    print(f"      ids {'same' if mine[0] == other[0] else f'{mine[0]} {other[0]}'}\n      {mine[1]}\n      {other[1]}")
    return num_wrong > 0


if __name__ == "__main__":
    sys.exit(main())
