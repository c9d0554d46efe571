#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows what a model answered before and after a run: compare.py QUESTIONS.jsonl BEFORE.jsonl AFTER.jsonl METRICS.jsonl.

Prints some of the questions with all answers, then figures over all of them: how many answers come to an end, how many
words they share with the answers in the data, and where most of those end in a line `#### NUMBER`, how many do the same
and with the right number. Last the loss on data held back.
"""
from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections import Counter
from typing import Any

NUM_SHOWN = 3
NUM_LINES = 8
WIDTH = min(shutil.get_terminal_size().columns, 110)
FINAL_NUMBER = re.compile(r"#### *(-?[$]?[\d,.]*\d)[%.]?")


def read_lines(path: str) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def show(label: str, text: str) -> None:
    lines = []
    for line in printable(text.strip()).split("\n"):
        lines += textwrap.wrap(line, WIDTH - 10) or [""]
    if len(lines) > NUM_LINES:
        lines = lines[:NUM_LINES] + [f"... and {len(lines) - NUM_LINES} lines more"]
    for i, line in enumerate(lines):
        print(f"{label if i == 0 else '':<8}  {line}".rstrip())


def final_number(text: str) -> str | None:
    """The number of a last line `#### NUMBER`, as GSM8K ends its answers."""
    match = FINAL_NUMBER.fullmatch(text.strip().split("\n")[-1].strip())
    return match[1].replace(",", "").replace("$", "") if match else None


def shared_words(text: str, reference: str) -> float:
    """F1 of the two bags of words (Rajpurkar et al. 2016): 1 where all are shared, 0 where none is."""
    words, expected = (Counter(re.findall(r"\w+|[^\w\s]", string.lower())) for string in (text, reference))
    num_shared = (words & expected).total()
    return 2 * num_shared / (words.total() + expected.total()) if num_shared else 0.0


def figures(questions: list[dict[str, Any]], answers: list[dict[str, Any]]) -> list[tuple[str, str]]:
    num_questions = len(questions)
    references = [question["answer"] for question in questions]
    texts = [answer["text"] for answer in answers]
    num_ended = sum(answer["finish_reason"] == "stop" for answer in answers)
    rows = [("answers that come to an end", str(num_ended))]
    expected = [final_number(reference) for reference in references]
    if sum(number is not None for number in expected) > num_questions / 2:
        numbers = [final_number(text) for text in texts]
        num_right = sum(number is not None and number == right for number, right in zip(numbers, expected))
        rows.append(("answers that end in a line `#### NUMBER`, as the data's do",
                     str(sum(number is not None for number in numbers))))
        rows.append(("answers with the right number there", str(num_right)))
    mean = sum(shared_words(text, reference) for text, reference in zip(texts, references)) / num_questions
    rows.append(("words shared with the data's answer (F1, mean)", f"{mean:.2f}"))
    return rows


def main() -> None:
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    questions, before, after, metrics = map(read_lines, sys.argv[1:])
    rows = []
    if questions:
        # The shortest of the data's answers are the easiest to compare.
        order = sorted(range(len(questions)), key=lambda i: len(questions[i]["answer"]))
        for i in order[:NUM_SHOWN]:
            print()
            show("question", questions[i]["prompt"])
            show("data", questions[i]["answer"])
            show("before", before[i]["text"])
            show("after", after[i]["text"])
        print(f"\nThese {min(NUM_SHOWN, len(questions))} have the shortest answers of {len(questions)} questions that "
              "the run was not trained on. All of them, greedily:\n")
        rows = [(label, old, new) for (label, old), (_, new) in zip(figures(questions, before), figures(questions, after))]
    losses = [line["eval_loss"] for line in metrics if "eval_loss" in line]
    if losses:
        rows.append(("loss on other data held back", f"{losses[0]:.3f}", f"{losses[-1]:.3f}"))
    width = max((len(label) for label, _, _ in rows), default=0)
    print(f"  {'':<{width}}  {'before':>7}  {'after':>7}")
    for label, old, new in rows:
        print(f"  {label:<{width}}  {old:>7}  {new:>7}")


if __name__ == "__main__":
    main()
