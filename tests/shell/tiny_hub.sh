# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A model with a tokenizer that trains in milliseconds, and a hub cache to find it in. frame.sh comes first.

export HF_HOME=${work:?}/hub

# make_tiny_model: the folder tiny/model. Each byte is a token, `<end>` ends texts, and `<|im_end|>` is one token too; what is
# left of its 272 ids is not used.
make_tiny_model() {
  make_data 40
  { tiny_model hidden_size=64 intermediate_size=64 && model_run tiny; } >tiny.ini # whole blocks of 4 bits
  "${sft:?}" tiny.ini >out 2>err || wrong 'no model folder'
  python3 - tiny/model <<'PY'
import json, sys
letters = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
others = [byte for byte in range(256) if byte not in letters]
vocab = {chr(byte): byte for byte in letters} | {chr(256 + i): byte for i, byte in enumerate(others)}
special = [{"id": 256 + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True} for i, text in enumerate(["<end>", "<|im_end|>"])]
level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
           "pre_tokenizer": level, "post_processor": None, "decoder": level,
           "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                     "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab,
                     "merges": []}}, open(f"{sys.argv[1]}/tokenizer.json", "w"))
json.dump({"eos_token": "<end>", "tokenizer_class": "PreTrainedTokenizerFast"},
          open(f"{sys.argv[1]}/tokenizer_config.json", "w"))
PY
}

# put_into_hub KIND ORG/NAME FILE...: as huggingface_hub does it, by links. KIND is model or dataset.
put_into_hub() {
  local folder=$HF_HOME/hub/$1s--${2/\//--} file
  mkdir -p "$folder/snapshots/0000" "$folder/refs" "$folder/blobs"
  printf 0000 >"$folder/refs/main"
  for file in "${@:3}"; do
    cp "$file" "$folder/blobs/of-$(basename "$file" | tr . -)"
    ln -sf "../../blobs/of-$(basename "$file" | tr . -)" "$folder/snapshots/0000/$(basename "$file")"
  done
}
