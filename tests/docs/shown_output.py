#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares output that pages show with the programs: a ```console block after the line `<!-- runs -->` is a command and
its output.

  shown_output.py SOURCE_FOLDER BIN_FOLDER [--write]

Commands run in the source folder. Times (", in 0.1 s") are left out of both. --write puts in the present output.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"(?<=<!-- runs -->\n```console\n)\$ (.*)\n((?:.*\n)*?)(?=```\n)")


def main():
    source, programs, is_writing = Path(sys.argv[1]), Path(sys.argv[2]), "--write" in sys.argv[3:]
    count, wrong = 0, []

    def shown(page, block):
        nonlocal count
        count += 1
        words = shlex.split(block[1])
        done = subprocess.run([programs / words[0], *words[1:]], cwd=source, capture_output=True, text=True)
        printed = re.sub(r", in [\d.]+ s$", "", done.stdout, flags=re.MULTILINE).strip("\n") + "\n"
        if done.returncode not in (0, 2) or len(printed) < 40:
            wrong.append(f"{page}: `{block[1]}` ends with status {done.returncode}: {done.stderr}{done.stdout}")
        elif printed != block[2] and not is_writing:
            wrong.append(f"{page}: `{block[1]}` prints\n{printed}and not\n{block[2]}")
        return f"$ {block[1]}\n{printed}"

    for page in sorted(source.glob("docs/**/*.md")):
        text = page.read_text(encoding="utf-8")
        marks = len(re.findall(r"^<!-- runs -->$", text, re.MULTILINE))
        before = count
        now = BLOCK.sub(lambda block: shown(page.relative_to(source), block), text)
        if count - before != marks:
            wrong.append(f"{page}: {marks} marks, {count - before} commands")
        if is_writing and now != text:
            page.write_text(now, encoding="utf-8")
    for line in wrong:
        print("WRONG", line)
    print(f"{count} commands")
    return bool(wrong) or count < 10


if __name__ == "__main__":
    sys.exit(main())
