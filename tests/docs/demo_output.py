#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what one run of the demo printed into README.md: all samples of it there are of the same run.

  inputs/demo/run.sh | tee demo.log
  tests/docs/demo_output.py demo.log

A sample is the block behind a line `<!-- demo: NAME -->`. Times in front of lines are left out; `...` stands for lines that are.
"""
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
TRAIN = "$ ./sft-run -n 16 inputs/demo.ini"
RESUME = f"{TRAIN} --checkpoint.resume_from_checkpoint auto"
DOTS = "  ..."


def lines_of(log, first, end=None):
    """From the line that begins with `first` on, up to the first empty line behind one that begins with `end`."""
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
    first = [line for line in first if not line.startswith("status 75: ")]  # which the demo says
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


def answers(log):
    begin = next(i for i, line in enumerate(log) if line == "What is a puppy?")
    end = next(i for i, line in enumerate(log) if line.startswith("The model has about"))
    return "\n".join(log[begin:end]).strip("\n").splitlines()


SAMPLES = {"prepare": lambda log: lines_of(log, "$ ./sft-prepare"), "plan": planning, "train": training, "stop": stopping,
           "inspect": inspecting, "plot": plotting, "answers": answers}


def main():
    log = [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line).rstrip()
           for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    log = [re.sub(r"^ {20}( +step )", r"\1", line) for line in log]
    page = SOURCE / "README.md"
    text = page.read_text(encoding="utf-8")
    for name, sample in SAMPLES.items():
        pattern = rf"(<!-- demo: {name} -->\n```\w*\n)(?:.*\n)*?(?=```\n)"
        assert len(re.findall(pattern, text)) == 1, f"README.md has no one place for {name}"
        body = "\n".join(sample(log)) + "\n"
        text = re.sub(pattern, lambda found, body=body: found[1] + body, text)
    page.write_text(text, encoding="utf-8")
    print("README.md has the samples of this run: docs/loss.png, and the numbers in its text, are left to look at")


if __name__ == "__main__":
    main()
