#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the openings and words that CONTRIBUTING.md ("Words") avoids, in comments, pages, help and messages.

  words.py SOURCE_FOLDER                  status 1 where a folder has more or fewer than words_budget.txt says
  words.py SOURCE_FOLDER --lower          writes the counts into the budget; refuses to raise it
  words.py SOURCE_FOLDER --show FOLDER    lists what is counted in that folder

A folder's budget only falls, so new text follows the rules and old text is mended folder by folder. A folder that the budget
does not name, such as one that was moved, may have what the whole tree has fewer elsewhere.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

BUDGET = "tests/docs/words_budget.txt"
FOLDERS = ["src", "include", "tests", "docs", "jobs", "inputs", "postprocess", "cmake", "findings", ".ci", "share"]
PAGES_AT_THE_TOP = ["README.md", "CONTRIBUTING.md"]  # CHANGELOG.md is a record
LEFT_OUT = re.compile(r"/(bad_tree|seeds|fixtures|templates|figures)/")
DEPTH = 3  # folders below it share a budget

C_FAMILY = {".cpp", ".hpp", ".h", ".cu", ".cuh", ".inc"}
HASH_FAMILY = {".sh", ".sbatch", ".py", ".cmake", ".txt", ".awk", ".ini", ".yaml", ""}

OPENINGS = re.compile(
    r"(?:What|Whose|Which|Who|Whom|Whoever|Those|Of(?! course)|How(?! to\b)"
    r"|That (?:of|is(?!,)|are|was|were|which|has|it|they|the|an?|no|each|all|one)"
    r"|The same(?=[,.;:]| (?:of|for|with|as|in|on|to|where|when|but|without|by|is|are|from|at|again|and|twice|here)))\b")
QUESTION_WORDS = re.compile(r"(?:what|whose|which|who|how(?! to\b))\b")
# `behind` is fine before code (a class behind an interface), `who` of people, `numbers` of what has a number.
WORDS = re.compile(
    r"(?<![\w/.-])(?:behind(?!\s+X\b)|beside|in the mean|borders?|st(?:and|ands|anding|ood) still|standstill"
    r"|(?<!people )(?<!anyone )(?<!reader )(?<!readers )(?<!user )(?<!users )who|whom|whoever|nobody"
    r"|(?<!line )(?<!rank )(?<!page )(?<!step )(?<!version )(?<!port )(?<!random )(?<!process )numbers(?! of\b))"
    r"(?![\w/-]|\.\w)", re.IGNORECASE)

C_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/)"
    r"|(?P<text>\"(?:\\.|[^\"\\\n])*\"(?:\s*\"(?:\\.|[^\"\\\n])*\")*)"
    r"|'(?:\\.|[^'\\\n])+'|R\"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)\"", re.DOTALL)
HASH_BLOCK = re.compile(r"(?:^|(?<=\s))#(?!!)[^\n]*(?:\n[ \t]*#[^\n]*)*", re.MULTILINE)
DOCSTRING = re.compile(r'"""(.*?)"""', re.DOTALL)
SHELL_TEXT = re.compile(r"<<-?'?(\w+)'?[^\n]*\n(.*?)\n\1|\"((?:\\.|[^\"\\])* (?:\\.|[^\"\\])*)\"", re.DOTALL)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`|\]\([^)\n]*\)|https?://\S+")


def without_code(text):
    """The text with a letter for each piece of code, which may begin a sentence, and a blank for the target of a link."""
    return CODE.sub(lambda code: "X" if code[0].startswith("`") else " ", text)


def sentences_of(text):
    """Sentences of one paragraph, question marks included."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(text.split()))


def openings_in(text, may_begin_small):
    """Avoided openings of a paragraph's sentences. A comment may begin with a small letter, as the name of a member's use."""
    found = []
    for number, sentence in enumerate(sentences_of(text)):
        if sentence.endswith("?"):
            continue
        first = sentence[:1].upper() + sentence[1:] if number == 0 and may_begin_small else sentence
        if OPENINGS.match(first):
            found.append(sentence)
    return found


def paragraphs_of_comment(comment, mark):
    lines = [re.sub(rf"^\s*(?:{mark})[<!]?\s?", "", line) for line in comment.splitlines()]
    return re.split(r"\n\s*\n", "\n".join(lines))


def paragraphs_of_page(page):
    """Paragraphs, items of lists and cells of tables, without code and the targets of links."""
    text = without_code(FENCE.sub("", page))
    text = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "\n", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", text):
        for piece in paragraph.split("|") if paragraph.lstrip().startswith("|") else [paragraph]:
            yield piece.strip().strip("*")


def found_in_c(source, has_messages):
    for token in C_TOKEN.finditer(source):
        if token["comment"]:
            for paragraph in paragraphs_of_comment(without_code(token["comment"]), "/{2,}|/\\*+"):
                yield from counted(paragraph, openings_in(paragraph, may_begin_small=True))
        elif has_messages and token["text"] and " " in token["text"]:
            text = without_code(re.sub(r'"\s*"', "", token["text"])[1:-1].replace("\\n", "\n"))
            openings = openings_in(text, may_begin_small=False)
            if QUESTION_WORDS.match(text) and not text.endswith("?"):
                openings.append(text)
            yield from counted(text, openings)


def found_in_hash(source, is_python, has_messages):
    blocks = HASH_BLOCK.findall(source) + (DOCSTRING.findall(source) if is_python else [])
    for block in blocks:
        for paragraph in paragraphs_of_comment(without_code(block), "#+"):
            yield from counted(paragraph, openings_in(paragraph, may_begin_small=True))
    if has_messages:
        for _mark, document, quoted in SHELL_TEXT.findall(source):
            yield from counted(document or quoted, openings_in(document or quoted, may_begin_small=False))


def found_in_page(page):
    for paragraph in paragraphs_of_page(page):
        openings = [] if paragraph.startswith("#") else openings_in(paragraph, may_begin_small=False)
        yield from counted(paragraph, openings)


def counted(text, openings):
    for opening in openings:
        yield "opening", opening[:100]
    for word in WORDS.finditer(text):
        around = text[max(0, word.start() - 40):word.end() + 40]
        yield "word", f"{word[0]}: {' '.join(around.split())}"


def found_in(path, name):
    """Pairs of a kind, `opening` or `word`, and the text, of one file; None where it is no source and no page."""
    suffix = path.suffix
    if suffix == ".md":
        return found_in_page(path.read_text(encoding="utf-8"))
    is_of_product = name.startswith(("src/", "include/"))  # users read its texts
    if suffix in C_FAMILY:
        return found_in_c(path.read_text(encoding="utf-8"), has_messages=is_of_product)
    is_source = suffix in HASH_FAMILY and (suffix != ".txt" or path.name == "CMakeLists.txt")
    if is_source and (suffix or name.startswith(".ci/")):
        return found_in_hash(path.read_text(encoding="utf-8"), is_python=suffix == ".py",
                             has_messages=is_of_product and suffix == ".sh")
    return None


def files_of(root):
    for name in PAGES_AT_THE_TOP:
        yield root / name
    for folder in FOLDERS:
        yield from sorted(path for path in (root / folder).rglob("*") if path.is_file() and not path.is_symlink())


def counts_of(root):
    """By folder: the counts of both kinds; and what was found, by folder and file."""
    counts, found = defaultdict(lambda: [0, 0]), defaultdict(list)
    for path in files_of(root):
        name = path.relative_to(root).as_posix()
        if not path.exists() or LEFT_OUT.search(name):
            continue
        folder = "/".join(path.relative_to(root).parent.parts[:DEPTH]) or "."
        pairs = found_in(path, name)
        if pairs is None:
            continue
        counts[folder] = counts[folder]  # a folder without any has a budget, too: 0
        for kind, text in pairs:
            counts[folder][kind == "word"] += 1
            found[folder].append(f"{name}: {kind}: {text}")
    return dict(counts), found


def read_budget(path):
    rows = [line.split() for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {folder: [int(openings), int(words)] for folder, openings, words in rows}


def write_budget(path, counts):
    rows = [f"{folder:<32} {openings:5d} {words:5d}" for folder, (openings, words) in sorted(counts.items())]
    head = "# Written by tests/docs/words.py . --lower: folder, avoided openings, avoided words. Counts may only fall.\n"
    path.write_text(head + "\n".join(rows) + "\n")


def totals_of(counts):
    return [sum(pair[kind] for pair in counts.values()) for kind in (0, 1)]


def raised(counts, budget):
    """Folders that have more than they may, with the counts. A new folder may have what the tree has fewer elsewhere."""
    has_fewer = all(now <= before for now, before in zip(totals_of(counts), totals_of(budget)))
    wrong = []
    for folder, pair in sorted(counts.items()):
        allowed = budget.get(folder, pair if has_fewer else [0, 0])
        wrong += [(folder, kind, pair[i], allowed[i])
                  for i, kind in enumerate(("openings", "words")) if pair[i] > allowed[i]]
    return wrong


def main():
    root, mode = Path(sys.argv[1]), sys.argv[2:]
    counts, found = counts_of(root)
    if mode[:1] == ["--show"]:
        print("\n".join(found[mode[1]]))
        return 0
    path = root / BUDGET
    budget = read_budget(path) if path.exists() else counts
    wrong = raised(counts, budget)
    for folder, kind, now, allowed in wrong:
        print(f"{folder}: {now} avoided {kind}, {allowed} are allowed: see CONTRIBUTING.md, and "
              f"tests/docs/words.py . --show {folder}")
    if wrong:
        return 1
    if mode == ["--lower"]:
        write_budget(path, counts)
    elif counts != budget:
        print("there are fewer than the budget says: run tests/docs/words.py . --lower")
        return 1
    print("{} avoided openings, {} avoided words".format(*totals_of(counts)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
