#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a model all questions of hold_out.py, greedily: ask.py MODEL QUESTIONS.jsonl ANSWERS.jsonl [--max_new_tokens N].

Writes what `sft-generate --json` prints, a line for each question in their order. Two programs share the questions, so
that the demo uses two cores.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

NUM_PROGRAMS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("questions")
    parser.add_argument("answers")
    parser.add_argument("--max_new_tokens", type=int, default=256, metavar="N")
    options = parser.parse_args()
    with open(options.questions, encoding="utf-8") as file:
        questions = [json.loads(line) for line in file]
    command = ["./sft-generate", options.model, "--json", "--dtype", "bfloat16",
               "--max_new_tokens", str(options.max_new_tokens)]
    programs = []
    for part in range(NUM_PROGRAMS):
        asked = questions[part::NUM_PROGRAMS]
        if not asked:
            continue
        words = command + [f"--prompt={question['prompt']}" for question in asked]
        if asked[0]["chat"]:
            words.append("--chat")
        programs.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                         encoding="utf-8", env=os.environ | {"OMP_NUM_THREADS": "1"}))
    outputs = [program.communicate() for program in programs]
    for program, (_, errors) in zip(programs, outputs):
        if program.returncode != 0:
            sys.exit(f"ask.py: sft-generate ended with status {program.returncode}\n{errors}".rstrip())
    lines: list[str] = [""] * len(questions)
    for part, (text, _) in enumerate(outputs):
        lines[part::NUM_PROGRAMS] = text.splitlines()
    with open(options.answers, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
