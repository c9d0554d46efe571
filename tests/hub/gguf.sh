#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-convert --gguf runs llama.cpp's converter, whose place another program takes here, and leaves a whole file or none.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_data 20
{ tiny_model intermediate_size=48 && model_run run | sed 's/^max_steps = .*/max_steps = 1/'; } >model.ini
succeeds 'a run' "$sft" model.ini
succeeds 'and one of adapters' "$sft" model.ini --lora.use_peft true --checkpoint.save_hub_model false --train.output_dir low

# converter NAME BODY: a converter in the folder of that name; its words go to the file `words`.
converter() {
  mkdir -p "$1"
  {
    echo '#!/usr/bin/env python3'
    echo 'import pathlib, sys'
    echo 'pathlib.Path("words").write_text(" ".join(sys.argv[1:]))'
    echo 'out = pathlib.Path(sys.argv[sys.argv.index("--outfile") + 1])'
    echo 'folder = pathlib.Path(sys.argv[1])'
    echo "$2"
  } >"$1/convert_hf_to_gguf.py"
}
converter good 'out.write_bytes(b"GGUF" + (folder / "model.safetensors").read_bytes())'
converter failing 'out.write_bytes(b"GGUF"); sys.exit(5)'
converter idle 'pass'
converter wrong 'out.write_bytes(b"PK")'
converter killed 'import os; os.kill(os.getpid(), 9)'
chmod +x good/convert_hf_to_gguf.py
good=good/convert_hf_to_gguf.py

succeeds 'a model folder becomes a file' env PATH="$work/good:$PATH" "$sft_convert" --gguf run/model chat.gguf
check 'by a converter on PATH' grep -q '^run/model --outfile chat\.gguf\.tmp --outtype auto$' words
check 'whose file it is' cmp <(tail -c +5 chat.gguf) run/model/model.safetensors
succeeds 'a run becomes one' "$sft_convert" --gguf run of-run.gguf --gguf_converter "$good" --gguf_type q8_0
check 'of the type that was asked for' grep -q -- '--outtype q8_0$' words
succeeds 'the folder of it' "$sft_convert" run from-run
check 'is what it was made of' cmp <(tail -c +5 of-run.gguf) from-run/model.safetensors
chmod -x "$good"
succeeds 'a converter that is not executable is run by Python' "$sft_convert" --gguf run/model plain.gguf --gguf_converter "$good"

# A tokenizer of transformers 5, which the converter's version 4 cannot read
cp -r run/model young
echo '{"backend": "tokenizers", "tokenizer_class": "TokenizersBackend", "extra_special_tokens": ["<a>"]}' >young/tokenizer_config.json
cp young/tokenizer_config.json as-it-was
converter reading 'out.write_bytes(b"GGUF" + (folder / "tokenizer_config.json").read_bytes() + (folder / "model.safetensors").read_bytes()[:8])'
succeeds 'a folder that transformers 5 saved' "$sft_convert" --gguf young young.gguf --gguf_converter reading/convert_hf_to_gguf.py
check 'is read by version 4' grep -qa '"PreTrainedTokenizerFast"' young.gguf
check 'with its tokens' grep -qa '"additional_special_tokens"' young.gguf
check 'under its name' grep -q '/young --outfile' words
check 'and stays as it was' cmp young/tokenizer_config.json as-it-was

refuses 3 'it is there already' "$sft_convert" --gguf run/model chat.gguf --gguf_converter "$good"
refuses 3 'ended with status 5' "$sft_convert" --gguf run/model x.gguf --gguf_converter failing/convert_hf_to_gguf.py
refuses 3 'ended with status 137' "$sft_convert" --gguf run x.gguf --gguf_converter killed/convert_hf_to_gguf.py
refuses 3 'does not begin as one' "$sft_convert" --gguf run/model x.gguf --gguf_converter idle/convert_hf_to_gguf.py
refuses 3 'does not begin as one' "$sft_convert" --gguf run/model x.gguf --gguf_converter wrong/convert_hf_to_gguf.py
refuses 2 'neither convert_hf_to_gguf.py nor convert-hf-to-gguf is on PATH' env PATH=/nowhere "$sft_convert" --gguf run/model x.gguf
refuses 2 'there is no GGUF converter nothing' "$sft_convert" --gguf run/model x.gguf --gguf_converter nothing
refuses 2 'checkpoint of adapters' "$sft_convert" --gguf low x.gguf --gguf_converter "$good"
refuses 2 'belong to --gguf' "$sft_convert" run x.gguf --gguf_type f16
refuses 2 'two conversions' "$sft_convert" --gguf --merge run/model low/adapter x.gguf
refuses 2 'do not go with the model folder' "$sft_convert" --gguf run/model x.gguf --dtype float16 --gguf_converter "$good"
check 'a refused conversion leaves nothing' test -z "$(compgen -G 'x.gguf*')"
check 'nor does one that was done' test -z "$(compgen -G '*.tmp')"

finish_checks
