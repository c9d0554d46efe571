#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A model of several towers: its text tower is trained as the model that it is, and what a run leaves has the other towers
# as they were.
# The model is folders/mistral3, by make_folders.py.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
towers=$test_folder/folders/mistral3

export HF_HOME=$work/cache

make_data 60
short_run 2 >run.ini
train() { run "$1" run.ini "${@:2}"; }

# The text tower as a model of its own
cp -r "$towers/expected" text
python3 - "$towers/config.json" <<'PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))["text_config"]
config |= {"architectures": ["MistralForCausalLM"], "tie_word_embeddings": False}
json.dump(config, open("text/config.json", "w"))
PYTHON

# compare FOLDER TEXT [DTYPE]: the towers of FOLDER are those that the run began with, and its text tower is that of the
# folder TEXT; config.json is the same but for the dtype.
compare() {
  with_tensors "$towers" "$@" <<'PYTHON'
import json, pathlib, sys, tensor_files
start, made, text, dtype = *sys.argv[1:4], (sys.argv[4:] + ["float32"])[0]

def tensors(folder):
    return {name: tensor for path in pathlib.Path(folder).glob("*.safetensors") for name, tensor in tensor_files.read(path).items()}

before, after, alone = tensors(start), tensors(made), tensors(text)
assert before.keys() == after.keys(), before.keys() ^ after.keys()
others = {name for name in before if not name.startswith("language_model.")}
assert len(others) == 15, others
assert all(before[name] == after[name] for name in others)
assert {name: tensor for name, tensor in after.items() if name not in others} == {
    "language_model." + name: tensor for name, tensor in alone.items()}
assert any(before[name][2] != after[name][2] for name in before if name not in others)

config, new = (json.load(open(folder + "/config.json")) for folder in (start, made))
assert new.pop("dtype") == dtype and config.pop("dtype") == "bfloat16"
for name in "rope_theta", "rope_scaling":  # what older versions read
    assert name not in config["text_config"]
    new["text_config"].pop(name)
assert config == new, (config, new)
PYTHON
}

succeeds 'the text tower alone' train 1 --model.model_name_or_path text --train.output_dir alone
succeeds 'a run on the folder with all towers' train 1 --model.model_name_or_path "$towers" --train.output_dir one
succeeds 'is the same run' compare one/model alone/model
succeeds 'on a mesh' train 4 --model.model_name_or_path "$towers" --train.output_dir mesh --parallel.tp_size 2
succeeds 'on a mesh alone' train 4 --model.model_name_or_path text --train.output_dir mesh_alone --parallel.tp_size 2
succeeds 'and there' compare mesh/model mesh_alone/model
succeeds 'what it leaves can be trained again' train 2 --model.model_name_or_path one/model --train.output_dir again --train.max_steps 0
succeeds 'and is left as it is' compare again/model alone/model
succeeds 'its checkpoint becomes such a folder' "$sft_convert" one converted --dtype bfloat16
succeeds 'so does that of the text tower' "$sft_convert" alone converted_alone --dtype bfloat16
succeeds 'and they are the same' compare converted converted_alone bfloat16

# Adapters
succeeds 'adapters on the text tower' train 1 --model.model_name_or_path "$towers" --train.output_dir lora --lora.use_peft true
succeeds 'adapters on it alone' train 1 --model.model_name_or_path text --train.output_dir lora_alone --lora.use_peft true
succeeds 'have the names of transformers' grep -q 'base_model.model.model.language_model.layers.0.' lora/adapter/adapter_model.safetensors
succeeds 'and mean that tower' grep -qF 'model\\.language_model\\.' lora/adapter/adapter_config.json
succeeds 'they are merged' "$sft_convert" --merge "$towers" lora/adapter merged --dtype float32
succeeds 'and those' "$sft_convert" --merge text lora_alone/adapter merged_alone --dtype float32
succeeds 'and they are the same' compare merged merged_alone

# What is missing
cp -r "$towers" cut
rm cut/model-00001-of-00002.safetensors
refuses 3 'model-00001-of-00002.safetensors' "$mpiexec" -np 1 "$sft" run.ini --model.model_name_or_path "$PWD/cut" --train.output_dir none
finish_checks
