#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Searches random texts by random regular expressions with PyPI's `tokenizers` and with sft, and compares the matches.

    tests/tools/peers/regular_expressions.py build/release/bin/find_matches [--count N] [--seed N] [--show N]

Needs Python with tokenizers. Texts hold characters of Unicode 15 and 16. Expressions that either refuses or gives up must be
refused or given up by both.
"""

import argparse
import json
import random
import subprocess
import sys

from tokenizers import Regex, pre_tokenizers

ATOMS = [r"\p{L}", r"\p{N}", r"\s", r"\S", r"\w", r"\W", r"\d", r"\b", r"\B", "a", "b", "1", " ", ".", r"\n", "[ab]", "[^ab]", r"[^\s\p{L}\p{N}]",
         r"[\p{L}&&[^a]]", r"\p{Lu}", r"\P{L}", "(?i:s)", "^", "$", r"\A", r"\z", r"\h", r"\R", r"\X", "\u00e9", "\u6f22", "[[:alpha:]]", "[[:space:]]",
         "[[:upper:]]", "[[:word:]]", "[[:graph:]]", "[[:print:]]", "[[:cntrl:]]", "[[:xdigit:]]", "[[:alnum:]]", "[[:punct:]]", "[^[:^punct:]a]",
         r"\p{Han}", r"\p{P}", r"\p{S}", r"\p{M}", r"\p{So}", r"\p{Lo}", r"\p{Nd}", "(?:'s|'t)", r"\x{4e00}", "[\u4e00-\u9fa5]", r"\p{Alnum}",
         "[\U0001f300-\U0001faff]", r"\p{Blank}", r"\N", r"\O", r"\y"]
COUNTS = ["", "", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{1,3}", "{2}", "{,2}", "{1,3}+", "{1,2}?", "{2}?", "{2}+"]
GROUPS = ["(?:%s|%s)", "(%s)", "(?=%s)", "(?!%s)", "(?<=%s)", "(?<!%s)", "(?>%s)", "(?i)%s", "(?m:%s)", "(?<n>%s)"]
TEXTS = ["a", "b", "A", "B", "1", "2", " ", "  ", "\n", "\r\n", "'s", "'T", "\u00e9", "\u6f22", "\u5b57", "\u3042", "!", ".,", "$+", "_", "\u0301", "\u00df", "SS",
         "\U0001f600", "\u3000", "\u017f", "\u00b2", "ab", "ba", "aab", "\U00031350", "\U0001fae8", "\U00011f50", "\u0897", "\ua7cb", "\u0363"]


def expression(depth):
    whole = ""
    for _ in range(random.randint(1, 3)):
        part = random.choice(ATOMS)
        if depth > 0 and random.random() < 0.3:
            group = random.choice(GROUPS)
            part = group % tuple(expression(depth - 1) for _ in range(group.count("%s")))
        whole += part + random.choice(COUNTS)
    return whole


def expected(pattern, texts):
    try:
        split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    except Exception:
        return None
    answers = []
    for text in texts:
        try:
            answers.append([word for word, _ in split.pre_tokenize_str(text)])
        except BaseException:  # a panic of the library, where it gives up
            answers.append(None)
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10)
    options = parser.parse_args()
    random.seed(options.seed)
    num_refused = num_different = num_texts = 0
    with subprocess.Popen([options.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        for _ in range(options.count):
            pattern = expression(2)
            texts = ["".join(random.choice(TEXTS) for _ in range(random.randint(0, 12))) for _ in range(4)]
            process.stdin.write(json.dumps({"pattern": pattern, "texts": texts}) + "\n")
            process.stdin.flush()
            ours, theirs = json.loads(process.stdout.readline()), expected(pattern, texts)
            num_refused += theirs is None
            num_texts += 0 if theirs is None else len(texts)
            if ours != theirs:
                num_different += 1
                if num_different <= options.show:
                    print(f"{pattern!r}\n texts {texts}\n peer  {theirs}\n sft   {ours}")
        process.stdin.close()
    print(f"{options.count} expressions, {num_refused} refused by the peer, {num_texts} texts searched, {num_different} expressions differ")
    return 1 if num_different else 0


if __name__ == "__main__":
    sys.exit(main())
