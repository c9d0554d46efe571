#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders chat templates with transformers and with sft, and compares texts and assistant masks.

    tests/tools/peers/templates.py build/release/bin/render_template TEMPLATES...

TEMPLATES are files (*.jinja), folders of them such as trl/chat_templates of the PyPI package trl, and files of test cases
(*.json: a list of objects with chat_template, data and the expected text as target, or one like
tests/unit/jinja/renderings.json). Needs Python with transformers.
A template NAME_training.jinja beside NAME.jinja marks what the assistant wrote; where both render the same text, the mask
that sft derives for NAME must be the marked one.

With --prepare SFT_PREPARE, conversations whose contents are lists of parts of text go through that program as well: templates
that read lists must get them, others the text of the parts, and the mask must be that of the marked version. This needs h5py.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from transformers.utils.chat_template_utils import _compile_jinja_template, render_jinja_template

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a place: \u00b0C & \"wind\" <km/h>",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "A city, e.g. Z\u00fcrich"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "array", "items": {"type": "integer"}, "nullable": True},
                "options": {"type": "object", "properties": {"hourly": {"type": "boolean"}}, "required": ["hourly"]},
                "limit": {"type": ["number", "null"], "minimum": 1.5, "maximum": 1e16},
            },
            "required": ["place"],
        },
        "return": {"type": "string"},
    },
}
TIME = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, number):
    return {"type": "function", "id": f"call{number:05d}", "function": {"name": name, "arguments": arguments}}


USER = {"role": "user", "content": "Hi there!"}
ASSISTANT = {"role": "assistant", "content": "Hello \u2014 how can I help? \U0001f600"}
THINKING = {"role": "assistant", "content": "It is 4.", "reasoning_content": "2 + 2\nis 4."}
INLINE = {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\nIt is 4."}
CALL = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"place": "Bern", "days": [1, 2], "limit": 2.0, "x": None}, 1)]}
CALLS = {"role": "assistant", "content": "Let me look.", "tool_calls": [call("get_weather", {"place": "O'Hare \"x\""}, 1), call("now", {}, 2)]}
TOOL = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "{\"temperature\": 21.5}"}
TOOL2 = {"role": "tool", "name": "now", "tool_call_id": "call00002", "content": "noon"}
SYSTEM = {"role": "system", "content": "  Be brief.\nAnd kind. "}
DEVELOPER = {"role": "developer", "content": "Be terse."}


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


CONVERSATIONS = {
    "one turn": [USER, ASSISTANT],
    "question": [USER],
    "system": [SYSTEM, USER, ASSISTANT],
    "system, three turns": [SYSTEM, USER, ASSISTANT, user("And\nnow?"), assistant("  padded  "), user("Bye"), assistant("Bye\n")],
    "repeated": [USER, assistant("Yo"), USER, assistant("Yo"), USER, assistant("Yo")],
    "same words": [user("assistant"), assistant("assistant"), user("user"), assistant("user")],
    "empty": [user(""), assistant("")],
    "markup": [user("<|im_end|> [INST] {{ x }}"), assistant("<|im_start|>assistant\n{% if %}")],
    "white space": [user("\n \u00a0a\t"), assistant(" \u3000b\r\n")],
    "reasoning": [USER, THINKING],
    "reasoning, two turns": [user("2+2?"), THINKING, user("Sure?"), THINKING],
    "inline reasoning": [user("2+2?"), INLINE, user("Sure?"), INLINE],
    "thought": [user("x"), {"role": "assistant", "thinking": "Hm.", "content": "y"}],
    "tool call": [USER, CALL, TOOL, ASSISTANT],
    "tool calls": [SYSTEM, USER, CALLS, TOOL, TOOL2, THINKING, user("Thanks"), ASSISTANT],
    "ends in a call": [USER, CALLS],
    "ends in a tool": [USER, CALL, TOOL],
    "arguments as text": [USER, {"role": "assistant", "content": "c", "tool_calls": [call("now", "{\"a\": 1}", 3)]}, TOOL2, ASSISTANT],
    "call with reasoning": [USER, {**CALLS, "reasoning_content": "I need both."}, TOOL, TOOL2, ASSISTANT],
    "null content": [USER, {**CALL, "content": None}, TOOL, ASSISTANT],
    "developer": [DEVELOPER, USER, ASSISTANT],
    "content parts": [{"role": "user", "content": parts("Look", " here")}, {"role": "assistant", "content": parts("I see.")}],
    "image": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What?"}]}, {"role": "assistant", "content": parts("A cat.")}],
    "unknown role": [USER, {"role": "critic", "content": "Hm"}, ASSISTANT],
    "two users": [USER, USER, ASSISTANT],
    "assistant first": [ASSISTANT, USER, ASSISTANT],
    "two assistants": [USER, ASSISTANT, THINKING],
    "names": [{**USER, "name": "Ann"}, {**ASSISTANT, "name": "Bot"}],
}

OPTIONS = {
    "": {},
    "prompt": {"add_generation_prompt": True},
    "tools": {"tools": [WEATHER, TIME]},
    "no tools": {"tools": []},
    "tools, prompt": {"tools": [WEATHER], "add_generation_prompt": True},
    "thinking": {"variables": {"enable_thinking": True}, "add_generation_prompt": True},
    "no thinking": {"variables": {"enable_thinking": False}, "add_generation_prompt": True},
    "kept thinking": {"variables": {"preserve_thinking": True, "keep_thinking": True, "thinking": True, "truncate_history_thinking": False}},
    "effort": {"variables": {"reasoning_effort": "high", "model_identity": "You are X.", "builtin_tools": ["browser", "python"], "low_effort": True}},
    "documents": {"documents": [{"title": "A", "text": "b"}], "variables": {"date_string": "1 Jan 2025", "add_vision_id": True}},
}


def normalize(messages):
    return [{key: value for key, value in message.items() if value is not None} for message in messages]


def expect(template, context):
    """What transformers renders: its text and the marked spans, or None where it raises."""
    spans = []
    try:
        if context.get("raw"):
            values = {key: value for key, value in context.items() if key != "raw"}
            return _compile_jinja_template(template).render(**values), spans
        texts, spans = render_jinja_template(
            conversations=[normalize(context["messages"])],
            tools=context.get("tools"),
            documents=context.get("documents"),
            chat_template=template,
            return_assistant_tokens_mask=True,
            add_generation_prompt=context.get("add_generation_prompt", False),
            **context.get("variables", {}),
        )
        return texts[0], spans[0]
    except Exception as error:
        return None, str(error)


class Renderer:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def __call__(self, template, context):
        self.process.stdin.write(json.dumps({"template": template, "context": context}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def mask(spans, length):
    marked = [False] * length
    for begin, end in spans:
        marked[begin:end] = [True] * (end - begin)
    return marked


def brackets(text, spans):
    marked = mask(spans, len(text))
    shown = ""
    for i, character in enumerate(text):
        if marked[i] and (i == 0 or not marked[i - 1]):
            shown += "\u27e6"
        if not marked[i] and i > 0 and marked[i - 1]:
            shown += "\u27e7"
        shown += character
    return shown + ("\u27e7" if marked and marked[-1] else "")


LISTS = {
    "lists": [("system", (" Be kind. ", " Be brief. ")), ("user", (" Hello \n", " you ")), ("assistant", (" Hi", " there \n")),
              ("user", ("Bye", "!")), ("assistant", ("ok ", " bye"))],
    "lists, no system": [("user", (" Hello \n", " you ")), ("assistant", (" Hi", " there \n"))],
    "one part each": [("user", ("Hello you",)), ("assistant", ("Hi there",)), ("user", ("Bye!",)), ("assistant", ("ok bye",))],
    "user alone": [("user", (" Hello \n", " you ")), ("assistant", "Hi there")],
    "assistant alone": [("user", "Hello"), ("assistant", (" Hi ", " there "))],
}
BYTE_TOKENS = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>"}
BYTE_NAMES = ["<|pad|>", "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"]  # ids from 256 on


def messages_of(conversation, roles):
    """With lists of parts in these roles, and joined text in all others."""
    return [{"role": role, "content": content if isinstance(content, str) else parts(*content) if role in roles else "".join(content)}
            for role, content in conversation]


def reads_lists(template, conversation, roles):
    """Whether every part of these roles is in what transformers renders, and no list as Python or JSON write it."""
    text, _ = expect(template, {"messages": messages_of(conversation, roles), "variables": BYTE_TOKENS})
    if text is None or "'type'" in text or '"type"' in text:
        return False
    return all(part.strip() in text for role, content in conversation if role in roles and not isinstance(content, str) for part in content)


def best_messages(template, conversation):
    roles = {role for role, content in conversation if not isinstance(content, str)}
    if not reads_lists(template, conversation, roles):
        roles = {role for role in roles if reads_lists(template, conversation, {role})}
    return messages_of(conversation, roles)


def prepared(prepare, template, records):
    """Text and mask of each record as sft-prepare has them; None: refused."""
    import h5py
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "t.jinja").write_text(template, encoding="utf-8")
        (work / "in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        done = subprocess.run([prepare, "--input", work / "in.jsonl", "--output", work / "out", "--chat_template_path", work / "t.jinja",
                               "--packing", "false", "--max_length", "none", "--on_error", "skip", "--assistant_only_loss", "--json"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return [None] * len(records), done.stderr
        skipped = {int(line.split("in.jsonl:")[1].split(":")[0]) for line in json.loads(done.stdout)["skipped"]}
        answers = [None] * len(records)
        with h5py.File(work / "out" / "train-00000.h5") as file:
            for row, number in enumerate(n for n in range(len(records)) if n + 1 not in skipped):
                length = int(file["document_lengths"][row])
                tokens, weights = file["tokens"][row][:length], file["loss_weight"][row][:length]
                pieces = [bytes([token]) if token < 256 else BYTE_NAMES[token - 256].encode() for token in tokens]
                trained = [bool(weight > 0) for piece, weight in zip(pieces, weights) for _ in piece]
                text = b"".join(pieces)
                first_bytes = [i for i, byte in enumerate(text) if byte & 0xc0 != 0x80]
                answers[number] = (text.decode(), [trained[i] for i in first_bytes])
        return answers, ""


def compare_lists(prepare, templates, count):
    for name, template in templates.items():
        twin = templates.get(name + "_training")
        answers, errors = prepared(prepare, template, [{"messages": messages_of(conversation, {role for role, _ in conversation})}
                                                       for conversation in LISTS.values()])
        for (label, conversation), answer in zip(LISTS.items(), answers, strict=True):
            messages = best_messages(template, conversation)
            text, _ = expect(template, {"messages": messages, "variables": BYTE_TOKENS})
            if text is None or answer is None:
                what = "both refuse" if text is answer else "only sft refuses" if answer is None else "only the peer refuses"
                count(name, what, f"{label} {errors}")
                continue
            count(name, "same text" if answer[0] == text else "other text", f"{label}\n peer {text!r}\n sft  {answer[0]!r}")
            if twin is None or answer[0] != text:
                continue
            twin_text, spans = expect(twin, {"messages": messages, "variables": BYTE_TOKENS})
            if twin_text != text:
                continue
            same = mask(spans, len(text))[1:] == answer[1][1:]  # the first token is never a target
            count(name, "same mask" if same else "other mask",
                  f"{label}\n twin {brackets(text, spans)!r}\n sft  {[i for i, trained in enumerate(answer[1]) if trained]}")


def load(paths):
    templates, cases = {}, []
    for path in map(pathlib.Path, paths):
        if path.suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict):
                content = [{"name": number, "chat_template": template, "data": content["data"], "target": target}
                           for number, (template, target) in enumerate(content["cases"])]
            cases += [(f"{path.name}:{case['name']}", case) for case in content]
            continue
        for file in sorted(path.glob("*.jinja")) if path.is_dir() else [path]:
            templates[file.stem] = file.read_text(encoding="utf-8")
    return templates, cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("templates", nargs="+")
    parser.add_argument("--prepare", help="the program sft-prepare, for lists of parts of text")
    parser.add_argument("--show", type=int, default=10, help="differences to print")
    parser.add_argument("--each", type=int, default=2, help="differences of a kind to print for each template")
    options = parser.parse_args()
    templates, cases = load(options.templates)
    render = Renderer(options.program)
    counts = dict.fromkeys(["same text", "both refuse", "other text", "only sft refuses", "only the peer refuses", "same mask", "other mask"], 0)
    by_template = {}
    num_shown = 0

    def count(name, what, detail=""):
        nonlocal num_shown
        counts[what] += 1
        if what not in ("same text", "both refuse", "same mask"):
            by_template.setdefault(name, {}).setdefault(what, 0)
            by_template[name][what] += 1
            if by_template[name][what] <= options.each and num_shown < options.show:
                num_shown += 1
                print(f"{what}: {name}\n{detail}\n")

    def compare(name, template, context, label):
        text, spans = expect(template, context)
        result = render(template, context)
        if text is None:
            count(name, "both refuse" if "error" in result else "only the peer refuses", f"{label}: {spans}")
        elif "error" in result:
            count(name, "only sft refuses", f"{label}: {result['error']}")
        elif result["text"] != text:
            count(name, "other text", f"{label}\n peer {text!r}\n sft  {result['text']!r}")
        else:
            count(name, "same text")
        return text, spans, result

    for name, case in cases:
        text, _, result = compare(name, case["chat_template"], {"raw": True, **case["data"]}, "")
        if text != case["target"]:
            print(f"the peer differs from the expectation of {name}")

    for name, template in templates.items():
        twin = templates.get(name + "_training")
        for conversation, messages in CONVERSATIONS.items():
            for option, more in OPTIONS.items():
                context = {"messages": messages, **more}
                context["variables"] = {**TOKENS, **more.get("variables", {})}
                label = f"{conversation} / {option}"
                text, spans, result = compare(name, template, context, label)
                if text is None or "error" in result or result["text"] != text:
                    continue
                if spans and mask(spans, len(text)) != mask(result["generation"], len(text)):
                    count(name, "other mask", f"{label}\n peer {brackets(text, spans)!r}\n sft  {brackets(text, result['generation'])!r}")
                if twin is None or context.get("add_generation_prompt"):
                    continue
                twin_text, twin_spans = expect(twin, context)
                if twin_text != text:
                    continue
                same = mask(twin_spans, len(text)) == mask(result["assistant"], len(text))
                count(name, "same mask" if same else "other mask",
                      f"{label}\n twin {brackets(text, twin_spans)!r}\n sft  {brackets(text, result['assistant'])!r}")

    if options.prepare:
        compare_lists(options.prepare, templates, count)
    for name, differences in sorted(by_template.items()):
        print(f"{name}: " + ", ".join(f"{number} {what}" for what, number in differences.items()))
    print(f"{len(templates)} templates, {len(cases)} cases: " + ", ".join(f"{number} {what}" for what, number in counts.items()))
    bad = sum(counts[what] for what in ("other text", "only sft refuses", "only the peer refuses", "other mask"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
