#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps some records out of a data set, so that a model can be asked their questions before and after it trains on the
others: hold_out.py RECORDS FOLDER [--num_questions N] [--plain].

RECORDS is a file, folder or glob of JSON lines or JSON arrays, plain, gzip or Zstandard, in any shape that sft-prepare
takes, or with the keys question and answer, which become a prompt and its completion. Writes FOLDER/train.jsonl, and
FOLDER/questions.jsonl with the keys prompt, answer (what the record says) and chat (whether the prompt is a user's
message; else it is a text to continue). Records without a question leave questions.jsonl empty.
"""
from __future__ import annotations

import argparse
import glob
import gzip
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

USER_ROLES = ("user", "human")
ASSISTANT_ROLES = ("assistant", "gpt")
SHAPE_KEYS = {"prompt", "messages", "conversations", "text", "instruction", "input_ids"}  # one is enough for sft-prepare


def fail(message: str) -> None:
    sys.exit(f"hold_out.py: error: {message}")


def files_of(path: str) -> list[Path]:
    if Path(path).is_dir():
        return sorted(file for file in Path(path).iterdir() if ".json" in file.name)
    return [Path(path)] if Path(path).exists() else [Path(file) for file in sorted(glob.glob(path))]


def open_text(path: Path) -> IO[str]:
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic[:2] == b"\x1f\x8b":
        return gzip.open(path, "rt", encoding="utf-8")
    if magic == b"\x28\xb5\x2f\xfd":
        unpacked = subprocess.Popen(["zstd", "-dcq", str(path)], stdout=subprocess.PIPE, text=True, encoding="utf-8")
        assert unpacked.stdout is not None
        return unpacked.stdout
    return open(path, encoding="utf-8")


def records_of(files: list[Path]) -> Iterator[dict[str, Any]]:
    """A record that is no object is left to sft-prepare, which names it."""
    for path in files:
        with open_text(path) as file:
            first = next((line for line in file if line.strip()), "")
            if first.lstrip().startswith("["):
                yield from json.loads(first + file.read())
                continue
            number = 1
            try:
                if first:
                    yield json.loads(first)
                for number, line in enumerate(file, 2):
                    if line.strip():
                        yield json.loads(line)
            except json.JSONDecodeError as error:
                fail(f"{path}:{number} is no JSON ({error})")


def text_of(content: Any) -> str | None:
    """The text of a message: a string, or a list of parts of text."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(parts) if all(isinstance(part, str) for part in parts) else None
    return content if isinstance(content, str) else None


def first_exchange(messages: list[Any]) -> tuple[str, str] | None:
    """The user's first message, and the assistant's answer to it."""
    question = None
    for message in messages:
        if not isinstance(message, dict):
            return None
        role = message.get("role", message.get("from"))
        text = text_of(message.get("content", message.get("value")))
        if role in USER_ROLES and question is None:
            question = text
        elif role in ASSISTANT_ROLES and question is not None:
            return (question, text) if text else None
    return None


def question_of(record: Any) -> dict[str, Any] | None:
    """The question of a record, as a line of questions.jsonl."""
    if not isinstance(record, dict):
        return None
    exchange, is_chat = None, True
    prompt, completion = record.get("prompt"), record.get("completion")
    if isinstance(prompt, str) and isinstance(completion, str):
        exchange, is_chat = (prompt, completion), False
    elif isinstance(prompt, list) and isinstance(completion, list):
        exchange = first_exchange(prompt + completion)
    elif isinstance(record.get("messages"), list):
        exchange = first_exchange(record["messages"])
    elif isinstance(record.get("conversations"), list):
        exchange = first_exchange(record["conversations"])
    elif isinstance(record.get("instruction"), str) and isinstance(record.get("output"), str):
        further = record.get("input")
        exchange = (record["instruction"] + ("\n" + further if isinstance(further, str) and further else ""),
                    record["output"])
    if exchange is None or not exchange[0].strip() or not exchange[1].strip():
        return None
    return {"prompt": exchange[0], "answer": exchange[1], "chat": is_chat}


def as_pair(record: Any, is_plain: bool) -> Any:
    """question and answer become a prompt and its completion; a record of another shape stays as it is."""
    if not isinstance(record, dict) or not {"question", "answer"} <= record.keys() or SHAPE_KEYS & record.keys():
        return record
    rest = {key: value for key, value in record.items() if key not in ("question", "answer")}
    question, answer = record["question"], record["answer"]
    if is_plain:
        return {"prompt": f"{question}\n", "completion": answer} | rest
    return {"prompt": [{"role": "user", "content": question}],
            "completion": [{"role": "assistant", "content": answer}]} | rest


def draw(questions: Iterator[dict[str, Any] | None], count: int) -> list[dict[str, Any]]:
    """Some of them, each with the same chance (reservoir sampling), in one pass; the same ones every time. All are of the
    first one's kind: a user's messages, or texts to continue.
    """
    chance = random.Random(42)
    drawn: list[dict[str, Any]] = []
    num_seen = 0
    for question in questions:
        if question is None or (drawn and question["chat"] != drawn[0]["chat"]):
            continue
        num_seen += 1
        if len(drawn) < count:
            drawn.append(question)
        elif (place := chance.randrange(num_seen)) < count:
            drawn[place] = question
    return drawn if num_seen >= 10 * count else drawn[: num_seen // 10]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", metavar="RECORDS")
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--num_questions", type=int, default=40, metavar="N", help="at most a tenth of all [40]")
    parser.add_argument("--plain", action="store_true", help="the model knows no chat markup")
    options = parser.parse_args()
    files = files_of(options.records)
    if not files:
        fail(f"{options.records} is no file: give records as JSON lines, e.g. train.jsonl")
    try:
        def records() -> Iterator[Any]:
            return (as_pair(record, options.plain) for record in records_of(files))

        questions = draw((question_of(record) for record in records()), options.num_questions)
        held_out = {question["prompt"] for question in questions}
        count = 0
        with open(options.folder / "train.jsonl", "w", encoding="utf-8") as file:
            for record in records():
                question = question_of(record)
                if question is not None and question["prompt"] in held_out:
                    continue
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
                count += 1
        with open(options.folder / "questions.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(question, ensure_ascii=False) + "\n" for question in questions)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        fail(f"{options.records} cannot be read ({error}): give records as JSON lines")
    print(f"{count} records to train on; {len(questions)} questions kept out of them")


if __name__ == "__main__":
    main()
