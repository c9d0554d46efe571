#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the output of one run of the demo into docs/demo.md, and an excerpt of that page into README.md.

  inputs/demo/run.sh | tee demo.log
  tests/docs/demo_output.py demo.log     # writes both pages
  tests/docs/demo_output.py --check      # status 1 unless README.md shows the excerpt of docs/demo.md

A sample is the block after a line `<!-- demo: NAME -->`. Times in front of lines are left out; `...` stands for lines that are.
"""
import re
import shlex
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
TRAIN = "$ ./sft-run -n 16 inputs/demo.ini"
RESUME = f"{TRAIN} --checkpoint.resume_from_checkpoint auto"
DOTS = "  ..."


def lines_of(log, first, end=None):
    """Lines from the one that begins with `first` up to the first empty line after one that begins with `end`."""
    begin = next(i for i, line in enumerate(log) if line.startswith(first) and (first != TRAIN or line == TRAIN))
    stop = next((i for i in range(begin, len(log)) if not end or log[i].strip().startswith(end)), begin)
    while stop < len(log) and log[stop]:
        stop += 1
    return log[begin:stop]


def training(log):
    lines = lines_of(log, TRAIN, "first forward pass")
    last = next(i for i, line in enumerate(lines) if re.match(r" *100/1400 .* evaluation", line))
    return lines[:last + 1] + [DOTS]


def stopping(log):
    first = lines_of(log, TRAIN, "stopped after")
    at = next(i for i, line in enumerate(first) if "received: saving" in line)
    minutes, seconds = map(int, re.search(r"stopped after (\d+):(\d+)", "\n".join(first)).groups())
    second = lines_of(log, RESUME, "done in")
    begin = next(i for i, line in enumerate(second) if line.startswith("first forward pass"))
    end = next(i for i, line in enumerate(second) if re.match(r" *1400/1400 ", line))
    weights = [line for line in second if line.strip().startswith("weights ")]
    rows = [i for i, line in enumerate(second) if re.match(r" *\d+/1400 ", line)]
    first = [line for line in first if not line.startswith("status 75: ")]  # a line of the demo itself
    return ([f"{TRAIN} & sleep {60 * minutes + seconds}; kill %1", DOTS, *first[at:], RESUME, DOTS, *weights, DOTS,
             *second[begin:rows[2] + 1], DOTS, *second[end:]])


def printed_by(*command):
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=True)
    return (done.stderr + done.stdout).strip("\n").splitlines()


def planning(_log):
    words = "./sft inputs/demo.ini --dry-run --num_ranks 1024 --parallel.dp_shard_size auto".split()
    return ["$ " + " ".join(words), *printed_by(*words)]


def inspecting(_log):
    lines = printed_by("./sft-inspect", "output/demo")
    tensors = next(i for i, line in enumerate(lines) if line.startswith("tensor  "))
    return ["$ ./sft-inspect output/demo", *lines[:lines.index("")], "...", *lines[tensors:tensors + 6], "..."]


def plotting(_log):
    words = ["postprocess/plot_loss.py", "output/demo", "--output", "output/demo/loss.png"]
    return ["$ " + " ".join(words), *printed_by("/usr/bin/python3", *words)]


def generating(_log):
    command = r"./sft-generate output/demo --prompt $'What is a puppy?\n' --prompt $'What is a dogfish?\n'"
    words = [word.replace("$What", "What").replace(r"\n", "\n") for word in shlex.split(command)]
    return ["$ " + command, *printed_by(*words)]


def answers(log):
    begin = next(i for i, line in enumerate(log) if line == "What is a puppy?")
    end = next(i for i, line in enumerate(log) if line.startswith("The model has about"))
    return "\n".join(log[begin:end]).strip("\n").splitlines()


SAMPLES = {"prepare": lambda log: lines_of(log, "$ ./sft-prepare"), "plan": planning, "train": training, "stop": stopping,
           "inspect": inspecting, "plot": plotting, "generate": generating, "answers": answers}

# The samples of the page that the README shows, and the beginnings of the lines that it shows of each.
EXCERPT = {
    "prepare": r"\$|prepared|  (documents|tokens|target tokens|rows) ",
    "train": r"\$|  (mesh|total) | +step | +(0|1|20)/1400 ",
    "stop": r"1400/1400 |done in",
    "generate": r"\$|>|a |any ",
}


def block_of(name):
    """The pattern of the sample `name`: its mark, and what it shows."""
    return re.compile(rf"(<!-- demo: {name} -->\n```\w*\n)((?:.*\n)*?)(?=```\n)")


def with_sample(path, text, name, lines):
    """The page's text with these lines as the sample `name`."""
    assert len(block_of(name).findall(text)) == 1, f"{path.name} has no one place for {name}"
    return block_of(name).sub(lambda found: found[1] + "\n".join(lines) + "\n", text)


def excerpt_of(page):
    """The lines that EXCERPT keeps of the page's samples, and DOTS for each run of lines that it leaves out."""
    kept = []
    for name, beginnings in EXCERPT.items():
        for line in block_of(name).search(page)[2].splitlines():
            if re.match(beginnings, line):
                kept.append(line)
            elif kept[-1] != DOTS:
                kept.append(DOTS)
    return kept


def main():
    page, readme = SOURCE / "docs/demo.md", SOURCE / "README.md"
    text, front = page.read_text(encoding="utf-8"), readme.read_text(encoding="utf-8")
    if sys.argv[1] == "--check":
        for name in SAMPLES:
            assert block_of(name).search(text)[2].strip(), f"{page.name} has no sample {name}"
        if front != with_sample(readme, front, "excerpt", excerpt_of(text)):
            sys.exit("README.md does not show the excerpt of docs/demo.md: run tests/docs/demo_output.py demo.log")
        return
    log = [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line).rstrip()
           for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    log = [re.sub(r"^ {20}( +step )", r"\1", line) for line in log]
    for name, sample in SAMPLES.items():
        text = with_sample(page, text, name, sample(log))
    page.write_text(text, encoding="utf-8")
    readme.write_text(with_sample(readme, front, "excerpt", excerpt_of(text)), encoding="utf-8")
    print("docs/demo.md has the samples of this run: docs/loss.png, and the numbers in its text, are left to look at")


if __name__ == "__main__":
    main()
