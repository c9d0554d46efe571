#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctranslate2 converts a model with rope_type "llama3" (Llama 3.1 and later) without a warning, and computes it as if it had
# no rope scaling; converted with transformers 4 it also gets rope_theta 10000, whatever config.json says.
#
# The runtime scales frequencies rightly if the converted model holds `rotary_scaling_factor` and
# `original_max_position_embeddings`. The converter writes neither for this type: AttentionSpec stores the factor for "linear"
# alone, and LlamaLoader adds only low_freq_factor and high_freq_factor, so the runtime divides by its default factor of 1.
# The theta: get_rotary_params() takes `rope_theta` from the rope_scaling dict wherever there is one. transformers 5 has it in
# that dict. transformers 4 has it beside the dict, where it is then not looked for ("linear" loses it in the same way).
# A random model of two layers is scored with each: "same" is a largest difference of logits below 0.01 where logits are up to
# 14; the others differ by more than 10. "mended" adds the two values to the converter's result.
#
# Seen with ctranslate2 4.8.5, transformers 5.24.0 and 4.57.6, torch 2.15.0 on 2026-11-29:
#   transformers 5.24.0: same as without scaling, rope_theta 500000
#   transformers 5.24.0, mended: same as transformers
#   transformers 4.57.6: same as without scaling, rope_theta 10000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
cat >score.py <<'PY'
import shutil
import sys
import ctranslate2
import numpy as np
import torch
import transformers
from ctranslate2.converters import TransformersConverter
from tokenizers import Tokenizer, models

ROWS, THETA = 64, 500000.0
SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 32}
IS_5 = transformers.__version__.startswith("5")


def model(scaling, theta):
    rope = {"rope_parameters": (scaling or {"rope_type": "default"}) | {"rope_theta": theta}} if IS_5 else {
        "rope_scaling": scaling, "rope_theta": theta}
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=ROWS, hidden_size=128, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=256, initializer_range=0.3, **rope)).float().eval()


class Mended(TransformersConverter):
    def _load(self):
        spec = super()._load()
        for layer in spec.decoder.layer:
            object.__setattr__(layer.self_attention, "rotary_scaling_factor", np.float32(SCALING["factor"]))
            object.__setattr__(layer.self_attention, "original_max_position_embeddings",
                               np.int32(SCALING["original_max_position_embeddings"]))
        return spec


def converted(converter):
    converter("model").convert("converted", force=True)
    scored = ctranslate2.Generator("converted").forward_batch([[f"t{i}" for i in ids[0].tolist()]])
    return torch.from_numpy(np.array(scored)[0])


@torch.no_grad()
def compare(what, logits):
    kinds = {"transformers": model(SCALING, THETA), "without scaling, rope_theta 500000": model(None, THETA),
             "without scaling, rope_theta 10000": model(None, 10000.0)}
    off = {kind: (of(ids).logits[0] - logits).abs().max().item() for kind, of in kinds.items()}
    print({kind: f"{value:.1e}" for kind, value in off.items()}, file=sys.stderr)
    same = [kind for kind, value in off.items() if value < 0.01]
    print(f"{what}: same as {', '.join(same)}" if all(v < 0.01 or v > 5 for v in off.values()) else f"{what}: {off}")


ids = torch.randint(3, ROWS, (1, 200), generator=torch.Generator().manual_seed(1))
model(SCALING, THETA).save_pretrained("model")
transformers.PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel({f"t{i}": i for i in range(ROWS)}, unk_token="t0")), unk_token="t0",
    bos_token="t1", eos_token="t2").save_pretrained("model")
compare(f"transformers {transformers.__version__}", converted(TransformersConverter))
if IS_5:
    compare(f"transformers {transformers.__version__}, mended", converted(Mended))
shutil.rmtree("model")
PY
for version in 5.24.0 4.57.6; do
  venv/bin/pip install --quiet ctranslate2==4.8.5 "transformers==$version" torch==2.15.0 numpy==2.4.6
  venv/bin/python score.py 2>>log | tee -a out
done
cmp - out <<'END'
transformers 5.24.0: same as without scaling, rope_theta 500000
transformers 5.24.0, mended: same as transformers
transformers 4.57.6: same as without scaling, rope_theta 10000
END
