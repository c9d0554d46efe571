#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the model demo keeps out of data of any shape, and how it counts answers: demo_questions_test.py INPUTS_DEMO."""
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPTS = Path(sys.argv[1])
NUM_RECORDS = 60


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


# Of each shape: the record of question q and answer a, and whether it is a conversation.
SHAPES = {
    "question and answer": (lambda q, a: {"question": q, "answer": a, "id": 1}, True),
    "plain pairs": (lambda q, a: {"prompt": q, "completion": a}, False),
    "conversational pairs": (lambda q, a: {"prompt": [user(q)], "completion": [assistant(a)]}, True),
    "messages": (lambda q, a: {"messages": [{"role": "system", "content": "s"}, user(q), assistant(a), user("?")]}, True),
    "text parts": (lambda q, a: {"messages": [user([{"type": "text", "text": q}]), assistant(a)]}, True),
    "ShareGPT": (lambda q, a: {"conversations": [{"from": "human", "value": q}, {"from": "gpt", "value": a}]}, True),
    "Alpaca": (lambda q, a: {"instruction": q, "input": "", "output": a}, True),
}


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def hold_out(records, folder, *options):
    subprocess.run([sys.executable, SCRIPTS / "hold_out.py", records, folder, "--num_questions", "4", *options],
                   check=True, stdout=subprocess.DEVNULL)
    return lines_of(folder / "train.jsonl"), lines_of(folder / "questions.jsonl")


def check_shape(name, make, is_chat, folder):
    records = [make(f"Q{i}", f"A{i}") for i in range(NUM_RECORDS)] + [make("Q0", "A0 again")]
    texts = {"lines": "\n".join(map(json.dumps, records)), "array": json.dumps(records, indent=1)}
    expected = None
    for form, text in texts.items():
        for opener in (open, gzip.open):
            path = folder / "records"
            with opener(path, "wt", encoding="utf-8") as file:
                file.write(text)
            train, questions = hold_out(path, folder)
            asked = {question["prompt"] for question in questions}
            assert len(asked) == 4, (name, form, questions)
            for question in questions:
                assert question["chat"] == is_chat, (name, question)
                assert question["answer"].split()[0] == "A" + question["prompt"][1:], (name, question)
            for prompt in asked:
                assert f'"{prompt}"' not in json.dumps(train), (name, form, prompt)
            assert len(train) == NUM_RECORDS + 1 - len(asked) - ("Q0" in asked), (name, form, len(train))
            if name != "question and answer":
                assert all(record in records for record in train), (name, form)
            expected = expected or (train, questions)
            assert (train, questions) == expected, (name, form)


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for shape, (make, is_chat) in SHAPES.items():
        check_shape(shape, make, is_chat, folder)

    # question and answer become what sft-prepare takes, with all that stood beside them.
    path = folder / "records"
    path.write_text("".join(json.dumps({"question": f"Q{i}", "answer": f"A{i}", "id": i}) + "\n" for i in range(40)))
    train, _ = hold_out(path, folder)
    assert {"prompt": [user("Q5")], "completion": [assistant("A5")], "id": 5} in train, train
    train, questions = hold_out(path, folder, "--plain")
    assert {"prompt": "Q5\n", "completion": "A5", "id": 5} in train, train
    assert not questions[0]["chat"] and questions[0]["prompt"].endswith("\n"), questions

    # A shape of sft-prepare goes before them.
    both = [SHAPES["messages"][0](f"Q{i}", f"A{i}") | {"question": "?", "answer": "!"} for i in range(40)]
    path.write_text("".join(json.dumps(record) + "\n" for record in both))
    train, _ = hold_out(path, folder)
    assert both[5] in train, train

    # Where nobody asks, all records are trained on.
    path.write_text("".join(json.dumps({"text": f"T{i}"}) + "\n" for i in range(40)))
    train, questions = hold_out(path, folder)
    assert len(train) == 40 and not questions, (train, questions)

    def compare(references, before, after):
        files = {"questions": [{"prompt": f"Q{i}", "answer": text, "chat": True} for i, text in enumerate(references)],
                 "before": before, "after": after,
                 "metrics": [{"step": 0, "eval_loss": 2.0}, {"step": 1, "loss": 1.5}, {"step": 1, "eval_loss": 1.25}]}
        for file, lines in files.items():
            (folder / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return subprocess.run([sys.executable, SCRIPTS / "compare.py", *(folder / file for file in files)], check=True,
                              capture_output=True, text=True).stdout

    def figures_of(output):
        """The two columns of the table behind the texts."""
        lines = output[output.rindex("before  "):].splitlines()[1:]
        return [line.split()[-2:] for line in lines]

    def said(text, reason="stop"):
        return {"text": text, "finish_reason": reason}

    output = compare(["1+1=2\n#### 2", "It is\n#### 1,000"], [said("two two", "length"), said("#### 7 or so")],
                     [said("1+1=2\n#### 2"), said("It is\n#### $999")])
    assert figures_of(output) == [["1", "2"], ["0", "2"], ["0", "1"], ["0.25", "0.85"], ["2.000", "1.250"]], output
    output = compare(["a young dog"], [said("a dog")], [said("a young dog")])
    assert "####" not in output and figures_of(output)[1] == ["0.80", "1.00"], output
    assert figures_of(compare([], [], [])) == [["2.000", "1.250"]]
print("ok")
