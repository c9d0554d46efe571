#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Greedy text against transformers: the same prompt ids, the same new ids, and how fast each of them writes.

usage: generate.py SFT_BIN_FOLDER MODEL_FOLDER [--max_new_tokens N] [--prompt TEXT ...] [--adapter PEFT_FOLDER]
                   [--checkpoint CHECKPOINT]

Needs torch and transformers; peft with --adapter. Both sides compute in float32 with a cache of keys and values. Every
prompt is continued as it is and as the message of a user in the model's chat template. Where two logits of transformers
are closer than 1e-4 at the first token that differs, it is a tie that rounding decides: it is reported and no failure.
--checkpoint: `sft-generate` reads this one, which has the same weights as MODEL_FOLDER.
"""
import argparse
import json
import subprocess
import sys
import time

import torch
import transformers

PROMPTS = ["Once upon a time, in a village by the sea,", "What is the capital of France?", "def fibonacci(n):",
           "The three primary colours are", "Natalia sold clips to 48 of her friends in April, and then she sold half as many",
           "你好，请介绍一下你自己。", "1, 2, 3, 4,"]
TIE = 1e-4


def sft_texts(arguments, prompts, chat):
    command = [f"{arguments.bin}/sft-generate", arguments.checkpoint or arguments.model, "--json", "--max_new_tokens",
               str(arguments.max_new_tokens)]
    if arguments.adapter:
        command += ["--adapter", arguments.adapter]
    for prompt in prompts:
        command += ["--prompt", prompt]
    done = subprocess.run(command + ["--chat"] * chat, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"sft-generate ended with {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def prompt_ids(tokenizer, prompt, chat):
    if not chat:
        return tokenizer(prompt)["input_ids"]
    text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], tokenize=False,
                                         add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def load(arguments):
    network = transformers.AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    if arguments.adapter:
        import peft
        network = peft.PeftModel.from_pretrained(network, arguments.adapter)
    return network.eval()


def gap_at(network, ids, one, other):
    """How far the logits of two tokens behind `ids` are apart."""
    logits = network(torch.tensor([ids]), use_cache=False).logits[0, -1]
    return abs((logits[one] - logits[other]).item())


def compare(network, tokenizer, ours, chat, max_new_tokens):
    """Whether the texts agree, how many tokens transformers wrote, and its seconds."""
    ids = prompt_ids(tokenizer, ours["prompt"], chat)
    if ids != ours["prompt_tokens"]:
        print(f"WRONG prompt ids of {ours['prompt']!r}: {ours['prompt_tokens']}, transformers has {ids}")
        return False, 0, 0.0
    begin = time.perf_counter()
    inputs = torch.tensor([ids])
    out = network.generate(inputs, attention_mask=torch.ones_like(inputs), do_sample=False, use_cache=True,
                           max_new_tokens=max_new_tokens, pad_token_id=tokenizer.pad_token_id)
    seconds = time.perf_counter() - begin
    theirs = out[0, len(ids):].tolist()
    num_written = len(theirs)
    stopped = num_written < max_new_tokens or theirs[-1] in as_list(network.generation_config.eos_token_id)
    if stopped:
        theirs.pop()
    new = ours["new_tokens"]
    if new == theirs and stopped == (ours["finish_reason"] == "stop"):
        return True, num_written, seconds
    first = next((i for i, (a, b) in enumerate(zip(new, theirs)) if a != b), min(len(new), len(theirs)))
    if first < min(len(new), len(theirs)):
        gap = gap_at(network, ids + theirs[:first], new[first], theirs[first])
        print(f"token {first} of {ours['prompt']!r} differs, logits {gap:.2g} apart")
        return gap < TIE, num_written, seconds
    print(f"WRONG text of {ours['prompt']!r}: {new}, transformers has {theirs}")
    return False, num_written, seconds


def as_list(value):
    return value if isinstance(value, list) else [value]


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("model")
    parser.add_argument("--max_new_tokens", type=int, default=128)
    parser.add_argument("--prompt", action="append")
    parser.add_argument("--adapter")
    parser.add_argument("--checkpoint")
    arguments = parser.parse_args()
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    network = load(arguments)
    prompts = arguments.prompt or PROMPTS
    all_agree = True
    for chat in [False, True] if tokenizer.chat_template else [False]:
        texts = sft_texts(arguments, prompts, chat)
        results = [compare(network, tokenizer, text, chat, arguments.max_new_tokens) for text in texts]
        agree = sum(result[0] for result in results)
        all_agree = all_agree and agree == len(prompts)
        our_seconds = sum(text["read_time_s"] + text["write_time_s"] for text in texts)
        our_tokens = sum(text["num_new_tokens"] + (text["finish_reason"] == "stop") for text in texts)
        their_tokens, their_seconds = (sum(column) for column in list(zip(*results))[1:])
        print(f"{'chat' if chat else 'text'}: {agree} of {len(prompts)} agree; sft {our_tokens / our_seconds:.1f} "
              f"tokens/s, transformers {their_tokens / max(their_seconds, 1e-9):.1f} tokens/s, prompts read along, "
              f"{torch.get_num_threads()} threads")
    sys.exit(0 if all_agree else 1)


if __name__ == "__main__":
    main()
