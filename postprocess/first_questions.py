#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the first questions of a file of records, one a line, for the demo to ask: first_questions.py FILE."""
import json
import sys

NUM_PROMPTS = 3


def question_of(record):
    """What a user says in a record of any shape; None where nobody asks."""
    for key in ("prompt", "instruction", "question"):
        value = record.get(key)
        if isinstance(value, str):
            return value
    for key in ("prompt", "messages", "conversations"):
        for message in record.get(key) or []:
            if isinstance(message, dict) and message.get("role", message.get("from")) in ("user", "human"):
                return message.get("content", message.get("value"))
    return None


found = 0
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        question = question_of(json.loads(line)) if line.strip() else None
        if isinstance(question, str) and question.strip():
            print(" ".join(question.split()))
            found += 1
        if found == NUM_PROMPTS:
            break
