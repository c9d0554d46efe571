#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the tokenizers of model folders with PyPI's `tokenizers`: ids, offsets, decoded text, and speed.

    tests/tools/peers/tokenizer_ids.py build/release/bin/tokenize [FOLDER ...] [--texts FILE.jsonl] [--num_random N] [--seed S] [--classes]

Every FOLDER has a tokenizer.json. Without any, and beside them, tokenizers are trained here on TEXTS (the strings of a
JSON-lines file; a few built-in sentences without it), one for each way in which published ones differ.

With --classes, folders with every tokenizer_class, setting of add_bos_token and add_eos_token, and post_processor are compared
with transformers' AutoTokenizer instead: what is put around a text.
"""

import argparse
import copy
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
LLAMA4 = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
          r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
SENTENCES = ["Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May.",
             "def f(x):\n    return x + 1  # one\n", "Straße, naïve café, Ünïcödé", "日本語のテキスト、漢字かな交じり", "Привет, мир! 你好 🙂"]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(use_regex=False, add_prefix_space=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)


def trained(texts, vocab_size, pre_tokenizer, normalizer=None, alphabet=True, specials=("<s>", "</s>"), **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    names = list(specials) + ([model["unk_token"]] if model.get("unk_token") else [])
    if model.get("byte_fallback"):
        names += [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=names, show_progress=False,
                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else []))
    return tokenizer


def edited(tokenizer, edit):
    description = json.loads(tokenizer.to_str())
    edit(description)
    return Tokenizer.from_str(json.dumps(description))


def like_llama2(texts, **options):
    """Normalizers in place of a pre-tokenizer, byte fallback, and no added tokens for bytes."""
    tokenizer = trained(texts, 1200, pre_tokenizers.Metaspace(), alphabet=False, specials=("<unk>", "<s>", "</s>"),
                        byte_fallback=True, fuse_unk=True, unk_token="<unk>")

    def edit(description):
        description["added_tokens"] = description["added_tokens"][:3]
        description["pre_tokenizer"] = None
        description["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
        description["decoder"] = {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
        description["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
        description["model"].update(options)

    return edited(tokenizer, edit)


def with_added(tokenizer):
    tokenizer.add_tokens([AddedToken("ab", single_word=True, normalized=False), AddedToken("new token", normalized=True),
                          AddedToken("<l>", lstrip=True, normalized=False), AddedToken("<r>", rstrip=True, normalized=False),
                          AddedToken("Éa", normalized=True), AddedToken("  ", normalized=False)])
    tokenizer.add_special_tokens([AddedToken("<|im_start|>"), AddedToken("<|im_end|>", lstrip=True, rstrip=True),
                                  AddedToken("<|im|>"), AddedToken("<mask>", normalized=True, special=True)])
    return tokenizer


def make_tokenizers(texts):
    def sequence(*steps):
        return pre_tokenizers.Sequence(list(steps))

    made = {
        "gpt2": trained(texts, 1500, byte_level(use_regex=True)),
        "gpt2_prefix": trained(texts, 1500, byte_level(use_regex=True, add_prefix_space=True)),
        "gpt2_small_alphabet": trained(texts, 400, byte_level(use_regex=True), alphabet=False),
        "gpt2_small_alphabet_unk": trained(texts, 400, byte_level(use_regex=True), alphabet=False, unk_token="<unk>"),
        "qwen2": trained(texts, 1500, sequence(split(QWEN2), byte_level()), normalizers.NFC()),
        "llama3": trained(texts, 1500, sequence(split(LLAMA3), byte_level())),
        "llama4": trained(texts, 1500, sequence(split(LLAMA4), byte_level())),
        "deepseek": trained(texts, 1500, sequence(split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK), byte_level())),
        "bloom": trained(texts, 1500, sequence(split(BLOOM), byte_level())),
        "smollm": trained(texts, 1500, sequence(pre_tokenizers.Digits(True), byte_level(use_regex=True))),
        "falcon": trained(texts, 1500, sequence(pre_tokenizers.Punctuation("contiguous"), byte_level(use_regex=True),
                                                pre_tokenizers.Digits(False), split("[0-9][0-9][0-9]"))),
        "metaspace": trained(texts, 1500, pre_tokenizers.Metaspace(), alphabet=False, byte_fallback=True, unk_token="<unk>"),
        "metaspace_first": trained(texts, 1500, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), alphabet=False,
                                   byte_fallback=True, unk_token="<unk>", fuse_unk=True),
        "metaspace_never": trained(texts, 900, pre_tokenizers.Metaspace(prepend_scheme="never"), alphabet=False, unk_token="<unk>"),
        "whitespace": trained(texts, 900, pre_tokenizers.Whitespace(), alphabet=False, unk_token="<unk>", fuse_unk=True),
        "no_unk": trained(texts, 300, pre_tokenizers.WhitespaceSplit(), alphabet=False),
        "bert_words": trained(texts, 900, pre_tokenizers.BertPreTokenizer(), normalizers.Sequence(
            [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]),
            alphabet=False, unk_token="<unk>"),
        "subwords": trained(texts, 900, pre_tokenizers.Whitespace(), alphabet=False, unk_token="<unk>",
                            continuing_subword_prefix="##", end_of_word_suffix="</w>"),
        "nfkc_regex": trained(texts, 900, sequence(split(r"\w+|[^\w\s]+", "removed", True), split(r"\d{2}", "merged_with_next"),
                                                   split("e", "merged_with_previous"), split(r"\p{Lu}", "contiguous")),
                              normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s{2,}"), " "),
                                                    normalizers.Replace("``", '"')]), alphabet=False, unk_token="<unk>"),
        "byte_normalizer": trained(texts, 1500, split(r"Ġ?[^Ġ]+"), normalizers.ByteLevel()),
        "ruby": trained(texts, 900, sequence(split(r"(?m:a.b)|\h{4}|^x|y$|\bz|\p{N}{1,2}+|[[:alpha:]_]+|\p{^L}?+"), byte_level())),
        "llama2": like_llama2(texts),
        "llama2_unfused": like_llama2(texts, fuse_unk=False, byte_fallback=False),
        "llama2_whole_words": like_llama2(texts, ignore_merges=True),
    }
    made["gpt2"].decoder = made["qwen2"].decoder = made["llama3"].decoder = decoders.ByteLevel()
    made["metaspace"].decoder = made["metaspace_first"].decoder = decoders.Metaspace()
    made["subwords"].decoder = decoders.BPEDecoder(suffix="</w>")
    made["metaspace_never"].decoder = decoders.Metaspace(prepend_scheme="never")
    made["llama3"].post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])])
    made["gpt2_prefix"].post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    made["llama3_whole_words"] = edited(made["llama3"], lambda d: d["model"].update(ignore_merges=True))
    for name in ("gpt2", "qwen2", "metaspace_first", "bert_words", "llama2"):
        made[name + "_added"] = with_added(edited(made[name], lambda d: None))
    return made


CLASSES = ["LlamaTokenizerFast", "LlamaTokenizer", "CodeLlamaTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend", "GPT2Tokenizer",
           "GPT2TokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast", None]
ENDS = [{}, {"add_bos_token": True}, {"add_bos_token": False}, {"add_eos_token": True}, {"add_bos_token": True, "add_eos_token": True}]


def post_processors(description):
    bos = next(token["id"] for token in description["added_tokens"] if token["content"] == "<s>")
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, sequence],
                "pair": [sequence, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [bos], "tokens": ["<s>"]}}}
    return {"none": None, "byte_level": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
            "template": template, "both": {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": False,
                                                                              "trim_offsets": False, "use_regex": True}, template]}}


def around(ids, text_ids):
    """What stands before and behind a text."""
    begin = next(i for i in range(len(ids) + 1) if ids[i:i + len(text_ids)] == text_ids)
    return ids[:begin], ids[begin + len(text_ids):]


def compare_classes(program, texts):
    import transformers
    transformers.logging.set_verbosity_error()
    num_same, num_refused, wrong = 0, 0, []
    made = make_tokenizers(texts)
    with tempfile.TemporaryDirectory() as work:
        for kind in ("gpt2", "llama2"):
            description = json.loads(made[kind].to_str())
            for post, processor in post_processors(description).items():
                for name in CLASSES:
                    for ends in ENDS:
                        for model in ("llama", "qwen3"):
                            folder = pathlib.Path(work) / f"{kind}-{post}-{name}-{'-'.join(f'{k}={v}' for k, v in ends.items())}-{model}"
                            folder.mkdir()
                            (folder / "tokenizer.json").write_text(json.dumps({**description, "post_processor": processor}))
                            config = {"bos_token": "<s>", "eos_token": "</s>", **ends, **({"tokenizer_class": name} if name else {})}
                            (folder / "tokenizer_config.json").write_text(json.dumps(config))
                            (folder / "config.json").write_text(json.dumps({"model_type": model}))
                            try:
                                peer = transformers.AutoTokenizer.from_pretrained(folder)
                                expected = around(peer("May I?")["input_ids"], peer("May I?", add_special_tokens=False)["input_ids"])
                            except Exception:  # some classes take no tokenizer.json of another kind
                                num_refused += 1
                                continue
                            with_ends, text = (json.loads(run(program, folder, [b"May I?"], *options))["ids"]
                                               for options in (["--add_special_tokens"], []))
                            found = around(with_ends, text)
                            num_same += found == expected
                            if found != expected:
                                wrong.append(f"{folder.name}: {found}, transformers {expected}")
    print("\n".join(wrong[:20]))
    print(f"transformers {transformers.__version__}: {num_same} tokenizers put the same around a text, {len(wrong)} other things, "
          f"{num_refused} are refused by transformers")
    return not wrong


def random_text(generator, words):
    """Words, code points of every plane, white space, marks, special tokens and repetitions."""
    spaces = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u180e", "\u200b", "\x0b", "\x85", "\x1c", "▁"]
    names = ["<|im_start|>", "<|im_end|>", "<|im|>", "<s>", "</s>", "<unk>", "<mask>", "<|endoftext|>", "<l>", "<r>", "ab", "new token",
             "Éa", "E\u0301a", "<0x41>", "<0xZZ>"]
    parts = []
    for _ in range(generator.randint(0, 12)):
        kind = generator.randrange(10)
        if kind < 3:
            parts.append(generator.choice(words))
        elif kind < 5:
            parts.append(generator.choice(spaces) * generator.choice([1, 1, 2, 5]))
        elif kind == 5:
            parts.append(generator.choice(names))
        elif kind == 6:
            parts.append("".join(chr(generator.choice([generator.randrange(0x20, 0x7f), generator.randrange(0xa0, 0x3000),
                                                       generator.randrange(0x3000, 0xd800), generator.randrange(0xe000, 0x20000),
                                                       generator.randrange(0x20000, 0x110000)])) for _ in range(generator.randint(1, 6))))
        elif kind == 7:
            parts.append(generator.choice("ae가각n") + "".join(chr(generator.randrange(0x300, 0x370)) for _ in range(generator.randint(1, 4))))
        elif kind == 8:
            parts.append(generator.choice(["'s", "'LL", "'ſ", "don't", "I'VE", "x'd", "1234567", "½²", "Ⅷ", "٣٤٥", "👩‍👩‍👧", "🇩🇪", "ﬁ", "İ", "ß", "x = {y: [1, 2]}"]))
        else:
            parts.append(generator.choice(["a", "_", "=", "-", "好", "🙂", "``", "0"]) * generator.randint(1, 40))
    return "".join(parts)


def run(program, folder, texts, *options):
    """Also of bytes that are no text."""
    data = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    done = subprocess.run([program, str(folder), *options], input=data, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{folder}: {done.stderr.decode()}")
    return done.stdout.decode()


def byte_offsets(text, offsets):
    """Byte offsets of offsets in characters."""
    places = [0]
    for character in text:
        places.append(places[-1] + len(character.encode()))
    return [[places[begin], places[end]] for begin, end in offsets]


def untrimmed(tokenizer):
    """Blanks count in our offsets, so they must in the reference's."""
    def edit(description):
        def walk(value):
            if isinstance(value, dict):
                if value.get("trim_offsets"):
                    value["trim_offsets"] = False
                for each in value.values():
                    walk(each)
            elif isinstance(value, list):
                for each in value:
                    walk(each)
        walk(description["post_processor"])
    return edited(tokenizer, edit)


def compare(program, name, tokenizer, folder, texts, check_offsets):
    num_bad = {"ids": 0, "offsets": 0, "decoded": 0}
    for options in ([], ["--add_special_tokens"], ["--split_special_tokens"]):
        reference = untrimmed(tokenizer)
        reference.encode_special_tokens = "--split_special_tokens" in options
        answers = run(program, folder, [text if isinstance(text, bytes) else text.encode() for text in texts], *options)
        for text, answer in zip(texts, answers.rstrip("\n").split("\n"), strict=True):
            ours = json.loads(answer)
            string = text.decode(errors="replace") if isinstance(text, bytes) else text
            theirs = reference.encode(string, add_special_tokens="--add_special_tokens" in options)
            wrong = []
            if ours.get("ids") != theirs.ids or not ours["is_same_without_offsets"]:
                wrong.append("ids")
            elif (ours["decoded"] != reference.decode(theirs.ids, skip_special_tokens=False)
                  or ours["decoded_without_special"] != reference.decode(theirs.ids)):
                wrong.append("decoded")
            elif check_offsets and not options and string == text and ours["offsets"] != byte_offsets(string, theirs.offsets):
                wrong.append("offsets")
            for what in wrong:
                num_bad[what] += 1
                if num_bad[what] <= 3:
                    print(f"{name} {' '.join(options)}: other {what} of {string!r}: {ours}; reference {theirs.ids} {theirs.tokens} "
                          f"{byte_offsets(string, theirs.offsets)} {reference.decode(theirs.ids, skip_special_tokens=False)!r}")
    print(f"{name}: {len(texts)} texts, {num_bad['ids']} with other ids, {num_bad['decoded']} with other decoded text, "
          + (f"{num_bad['offsets']} with other offsets" if check_offsets else "offsets not compared"))
    return sum(num_bad.values()) == 0


def compare_speed(program, name, tokenizer, folder, texts):
    size = sum(len(text.encode()) for text in texts)
    if size < 1e5:  # starting takes longer
        return
    data = [text.encode() for text in texts]
    ours, theirs = 1e9, 1e9
    for _ in range(3):
        ours = min(ours, float(run(program, folder, data, "--time").split()[0]))
        fresh = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
        begin = time.perf_counter()
        for text in texts:
            fresh.encode(text, add_special_tokens=False)
        theirs = min(theirs, time.perf_counter() - begin)
    print(f"{name}: {size / ours / 1e6:.1f} MB/s, reference {size / theirs / 1e6:.2f} MB/s, ratio {theirs / ours:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--texts", help="JSON-lines file whose strings are texts")
    parser.add_argument("--num_random", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--classes", action="store_true", help="compare what is put around a text with transformers")
    parser.add_argument("--only", help="names of the trained tokenizers to compare, with commas")
    options = parser.parse_args()

    texts = list(SENTENCES)
    if options.texts:
        with open(options.texts, encoding="utf-8") as lines:
            texts += ["\n".join(value for value in json.loads(line).values() if isinstance(value, str)) for line in lines]
    if options.classes:
        sys.exit(0 if compare_classes(options.program, texts[:500]) else 1)
    generator = random.Random(options.seed)
    words = sorted({word for text in texts[:500] for word in text.split()})
    hard = [random_text(generator, words) for _ in range(options.num_random)]
    hard += ["", " ", "  ", "\n", "\n\n", " \n ", "a" * 5000, "ab " * 2000, " " * 3000, "好" * 2000, "日本語" * 700 + " " + "x" * 300]
    hard += [bytes(generator.choices(b"ab \xc3\xa9\xe2\x96\x81\xf0\x9f\x99\x82\xff\x80\xed\xa0\x80", k=generator.randint(1, 20)))
             for _ in range(options.num_random // 4)]

    is_same = True
    for folder in options.folders:
        tokenizer = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
        # The reference gives a composed character the place of its first part alone; ours covers all of it.
        is_same &= compare(options.program, folder, tokenizer, folder, texts, tokenizer.normalizer is None)
        is_same &= compare(options.program, folder, tokenizer, folder, hard, tokenizer.normalizer is None)
        compare_speed(options.program, folder, tokenizer, folder, texts)
    with tempfile.TemporaryDirectory() as work:
        for name, tokenizer in make_tokenizers(texts[:500]).items():
            if options.only and name not in options.only.split(","):
                continue
            folder = pathlib.Path(work) / name
            folder.mkdir()
            tokenizer.save(str(folder / "tokenizer.json"))
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            is_same &= compare(options.program, name, tokenizer, folder, hard + texts[:300],
                               tokenizer.normalizer is None and "small_alphabet" not in name and name not in ("no_unk", "subwords"))
            compare_speed(options.program, name, tokenizer, folder, texts)
    sys.exit(0 if is_same else 1)


if __name__ == "__main__":
    main()
