#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packed rows of sft-prepare against those of TRL's SFTTrainer: the same ids, masks, rows and order.

  trl_data.py SFT_PREPARE MODEL_FOLDER RECORDS.jsonl [--records N] [--only NAME]

MODEL_FOLDER holds a tokenizer with a chat template and a small model; RECORDS.jsonl has lines with `question` and
`answer`. For each case the records are written in that shape, prepared by both, and compared row by row.

Needs trl 1.16, transformers, datasets, torch and h5py; run by hand.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

import h5py  # noqa: E402


def text(record):
    return {"text": record["question"] + "\n" + record["answer"]}


def pair(record):
    return {"prompt": record["question"] + "\n", "completion": record["answer"]}


def chat_pair(record):
    messages = chat(record)["messages"]
    return {"prompt": messages[:1], "completion": messages[1:]}


def chat(record):
    return {"messages": [{"role": "user", "content": record["question"]},
                         {"role": "assistant", "content": record["answer"]}]}


def sharegpt(record):
    return {"conversations": [{"from": "user", "value": record["question"]},
                              {"from": "assistant", "value": record["answer"]}]}


def tools(record):
    tool = {"type": "function", "function": {"name": "f", "description": record["question"][:20],
                                             "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}
    return chat(record) | {"tools": [tool]}


def tokens(record):
    ids = [3 + ord(c) % 90 for c in record["question"]]
    return {"input_ids": ids, "labels": [-100] * (len(ids) // 2) + ids[len(ids) // 2:]}


def tokens_and_masks(record):
    ids = [3 + ord(c) % 90 for c in record["question"]]
    half = len(ids) // 2
    return {"input_ids": ids, "assistant_masks": [int(i % 3 > 0) for i in range(len(ids))],
            "completion_mask": [0] * half + [1] * (len(ids) - half)}


def masks_of_booleans(record):
    return {"input_ids": tokens_and_masks(record)["input_ids"],
            "assistant_masks": [bool(m) for m in tokens_and_masks(record)["assistant_masks"]]}


def calls(record):
    """Numbers as Python writes them; every record has the same types, as the columns of datasets have."""
    arguments = {"q": record["question"][:30], "small": 1e-7, "whole": 1.0, "big": 2**62 + 1, "large": 1e22}
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"messages": [{"role": "user", "content": record["question"]},
                         {"role": "assistant", "content": "", "tool_calls": [call]},
                         {"role": "tool", "content": record["answer"]}]}


# A template of TRL's with marks around what the assistant writes.
MARKED = os.path.join(os.path.dirname(importlib.util.find_spec("trl").origin), "chat_templates", "qwen2_5_training.jinja")

# name: shape, options of SFTConfig (those of sft-prepare have the same names)
CASES = {
    "text": (text, {"max_length": 256}),
    "text-keep_end": (text, {"max_length": 96, "truncation_mode": "keep_end"}),
    "text-shuffled": (text, {"max_length": 128, "shuffle_dataset": True}),
    "text-bfd": (text, {"max_length": 512, "packing": True}),
    "text-bfd-shuffled": (text, {"max_length": 512, "packing": True, "shuffle_dataset": True, "seed": 7}),
    "text-bfd-2-processes": (text, {"max_length": 512, "packing": True, "dataset_num_proc": 2}),
    "text-bfd_split": (text, {"max_length": 128, "packing": True, "packing_strategy": "bfd_split"}),
    "text-wrapped": (text, {"max_length": 512, "packing": True, "packing_strategy": "wrapped"}),
    "text-eos_token": (text, {"max_length": 256, "eos_token": "<|endoftext|>"}),
    "pair": (pair, {"max_length": 128}),
    "pair-all": (pair, {"max_length": 128, "completion_only_loss": False}),
    "pair-bfd": (pair, {"max_length": 128, "packing": True}),
    "pair-wrapped": (pair, {"max_length": 128, "packing": True, "packing_strategy": "wrapped"}),
    "pair-no-limit": (pair, {"max_length": None}),
    "chat-pair": (chat_pair, {"max_length": 128}),
    "chat-pair-bfd": (chat_pair, {"max_length": 512, "packing": True}),
    "chat": (chat, {"max_length": 256}),
    "chat-bfd": (chat, {"max_length": 512, "packing": True}),
    "sharegpt-bfd": (sharegpt, {"max_length": 512, "packing": True}),
    "chat-assistant": (chat, {"max_length": 256, "assistant_only_loss": True, "chat_template_path": MARKED}),
    "chat-pair-assistant": (chat_pair, {"max_length": 512, "packing": True, "assistant_only_loss": True,
                                        "chat_template_path": MARKED}),
    "tools-bfd": (tools, {"max_length": 512, "packing": True}),
    "calls-bfd": (calls, {"max_length": 512, "packing": True}),
    "masks-booleans": (masks_of_booleans, {"max_length": 300}),
    "tokens": (tokens, {"max_length": 100}),
    "tokens-bfd": (tokens, {"max_length": 300, "packing": True}),
    "masks": (tokens_and_masks, {"max_length": 300}),
    "masks-completion": (tokens_and_masks, {"max_length": 300, "completion_only_loss": True}),
}


def rows_of_trl(model, tokenizer, file, options):
    """Of each row its documents, each as ids and labels; the first label of a document is never a target."""
    from datasets import load_dataset
    from trl import SFTConfig, SFTTrainer
    config = SFTConfig(output_dir=os.path.join(os.path.dirname(file), "trl"), use_cpu=True, bf16=False, report_to="none",
                       **options)
    trainer = SFTTrainer(model=model, args=config, processing_class=tokenizer,
                         train_dataset=load_dataset("json", data_files=file, split="train",
                                                    cache_dir=os.path.dirname(file)))
    rows = []
    for row in trainer.train_dataset:
        ids, labels = row["input_ids"], row["labels"]
        documents = []
        begin = 0
        for length in row.get("seq_lengths") or [len(ids)]:
            documents.append((list(ids[begin:begin + length]), [-100] + list(labels[begin + 1:begin + length])))
            begin += length
        rows.append(documents)
    return rows


def rows_of_sft(program, model, file, options, folder):
    arguments = [program, "--input", file, "--output", folder, "--model_name_or_path", model, "--packing", "false"]
    for name, value in options.items():
        value = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        if name == "packing":
            arguments[arguments.index("--packing") + 1] = value
        else:
            arguments += [f"--{name}={value}"]
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = []
    for name in sorted(os.listdir(folder)):
        with h5py.File(os.path.join(folder, name)) as shard:
            all_tokens, all_weights = shard["tokens"][:], shard["loss_weight"][:]
            offsets, lengths = shard["document_offsets"][:], shard["document_lengths"][:]
        for r in range(len(all_tokens)):
            begin, documents = 0, []
            for length in lengths[offsets[r]:offsets[r + 1]]:
                ids, weights = all_tokens[r, begin:begin + length], all_weights[r, begin:begin + length]
                documents.append((ids.tolist(), [i if w > 0 else -100 for i, w in zip(ids.tolist(), weights.tolist())]))
                begin += length
            rows.append(documents)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("records")
    parser.add_argument("--records", dest="num_records", type=int, default=1500)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained(options.model)
    with open(options.records, encoding="utf-8") as file:
        records = [json.loads(line) for line in file][:options.num_records]
    num_wrong = 0
    for name, (shape, settings) in CASES.items():
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "records.jsonl")
            with open(file, "w", encoding="utf-8") as out:
                out.writelines(json.dumps(shape(record), ensure_ascii=False) + "\n" for record in records)
            tokenizer = AutoTokenizer.from_pretrained(options.model)
            expected = rows_of_trl(model, tokenizer, file, settings)
            found = rows_of_sft(options.program, options.model, file, settings, os.path.join(folder, "sft"))
        same = expected == found
        num_wrong += not same
        targets = sum(label != -100 for row in found for _, labels in row for label in labels)
        print(f"{'same ' if same else 'WRONG'}  {name:24} {len(found)} rows, {targets} targets", flush=True)
        if not same:
            first = next((i for i, (a, b) in enumerate(zip(expected, found)) if a != b), min(len(expected), len(found)))
            print(f"       {len(expected)} rows of TRL; the first that differs is {first}")
            if first < min(len(expected), len(found)):
                print(f"       TRL {str(expected[first])[:300]}\n       sft {str(found[first])[:300]}")
    print(f"{num_wrong} wrong")
    return num_wrong > 0


if __name__ == "__main__":
    sys.exit(main())
