#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws texts of the project at random, for readers who do not know it and mark each text that they have to read twice.

  draw_samples.py BIN_FOLDER --seed N

Prints 40 comments at heads of files, 45 comments of declarations, 20 paragraphs of pages, 30 entries of --help and 20 errors,
each with its place. The same seed draws the same texts from the same tree. At most 2 of each 40 should need a second reading.
"""

import argparse
import random
import re
import subprocess
from pathlib import Path

import words

SOURCE = Path(__file__).resolve().parents[2]
ERROR = re.compile(r'\b(?:throw_\w*error|Error)\(((?:[^;"]|"(?:\\.|[^"\\])*")*?)\);', re.DOTALL)
TEXT = re.compile(r'"((?:\\.|[^"\\])*)"')


def sources():
    paths = [path for folder in ("include", "src") for path in (SOURCE / folder).rglob("*") if path.suffix in words.C_FAMILY]
    return [(path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")) for path in sorted(paths)]


def comments_at_heads(files):
    """The first comment after the licence, and after `#pragma once`."""
    for name, text in files:
        body = re.sub(r"\A//[^\n]*\n(?:\s*#pragma once\n)?\s*", "", text)
        head = re.match(r"//[^\n]*(?:\n//[^\n]*)*", body)
        if head:
            yield name, head[0]


def comments_of_declarations(files):
    for name, text in files:
        for comment in re.finditer(r"^ *///[^\n<]*(?:\n *///[^\n]*)*", text, re.MULTILINE):
            yield f"{name}:{text.count(chr(10), 0, comment.start()) + 1}", comment[0]


def paragraphs_of_pages():
    for path in [*sorted(SOURCE.glob("*.md")), *sorted((SOURCE / "docs").glob("*.md"))]:
        text = words.FENCE.sub("", path.read_text(encoding="utf-8"))
        for paragraph in re.split(r"\n\s*\n", text):
            if not paragraph.lstrip().startswith(("#", "|", "<", "![")) and len(paragraph.split()) >= 20:
                yield path.name, paragraph


def entries_of_help(programs):
    """Options and keys with their texts, which begin in the first column but one or two."""
    for program in sorted(programs.glob("sft*")):
        printed = subprocess.run([program, "--help"], capture_output=True, text=True).stdout
        for entry in re.findall(r"^ {2}\S.*(?:\n {20,}.*)*", printed, re.MULTILINE):
            yield program.name, entry


def errors(files):
    for name, text in files:
        for call in ERROR.findall(text):
            parts = TEXT.findall(call)
            if len(parts) >= 2:
                yield name, " | ".join(parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    files, draw = sources(), random.Random(options.seed)
    for title, count, texts in (("comments at heads of files", 40, comments_at_heads(files)),
                                ("comments of declarations", 45, comments_of_declarations(files)),
                                ("paragraphs of pages", 20, paragraphs_of_pages()),
                                ("entries of --help", 30, entries_of_help(options.programs)),
                                ("errors", 20, errors(files))):
        all_texts = list(texts)
        print(f"\n=== {title}: {count} of {len(all_texts)}")
        for number, (place, text) in enumerate(draw.sample(all_texts, count), 1):
            print(f"\n{number}. {place}\n{text.strip()}")


if __name__ == "__main__":
    main()
