#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the fixtures of tests/reference: what PyTorch says loss, logits and gradients are.

usage: make_reference.py [FOLDER [NAME ...]]   (needs torch, transformers >= 5, h5py; only to make the fixtures anew)

Each fixture is one small model and one batch of packed rows with awkward documents (odd lengths, length 1, padding
of more than half a row, weights of 0 and fractions, a row without a target). Everything is computed in float64 by the
plain implementation of decoder.py, one document at a time, so that nothing can leak between documents. transformers' own model
of the family is the second witness (second_witness.py): it must agree before a file is written (to 1e-5: it computes rotary angles, norms
and softmax in float32 even in a float64 model).

A fixture is a packed data shard (docs: packed data) with further objects:
  attribute `config`     the model section of the .ini file
  /parameters/NAME       float32
  /gradients/NAME        float32, of the loss below and the auxiliary loss of experts, rounded from float64
  attribute `loss`       sum of w * nll / sum of w over the batch
  /logits (T, V)         float64, of the first T tokens of the document `logits_document` of row 0
"""
import json
import pathlib
import sys

import h5py
import numpy as np
import torch

from decoder import auxiliary_loss, batch_loss, document_logits
from models import (CORRECTION, LOGITS_DOCUMENT, MAX_LENGTH, MODELS, SEEDS, VOCAB_SIZE, draw_parameters, draw_rows,
                    vocab_size_of)
from second_witness import check_second_witness


def model_ini(model):
    def text(value):
        if isinstance(value, list):
            return " ".join(map(str, value))
        return json.dumps(value) if isinstance(value, (dict, bool)) else str(value)
    return "[model]\n" + "".join(f"{k} = {text(v)}\n" for k, v in (dict(vocab_size=VOCAB_SIZE) | model).items())


def write_fixture(path, model, parameters, rows, loss, logits, gradients):
    tokens, weights = (np.stack([row[i] for row in rows]) for i in range(2))
    lengths = [length for row in rows for length in row[2]]
    offsets = np.cumsum([0] + [len(row[2]) for row in rows])
    with h5py.File(path, "w") as file:
        file["tokens"], file["loss_weight"] = tokens, weights
        file["document_lengths"], file["document_offsets"] = np.array(lengths, np.int32), offsets.astype(np.int64)
        file.attrs.update(dict(
            format="sft-packed", format_version=1, max_length=MAX_LENGTH, vocab_size=vocab_size_of(model), pad_token_id=0,
            eos_token_id=0, tokenizer="none", num_rows=len(rows), num_documents=len(lengths), num_tokens=sum(lengths),
            num_target_tokens=int((weights > 0).sum()), packing_strategy="bfd", source="make_reference.py",
            config=model_ini(model), loss=loss.item(), logits_document=LOGITS_DOCUMENT))
        file["logits"] = logits.detach().numpy()
        for name, value in parameters.items():
            file["parameters/" + name] = value
            if name in gradients:
                file["gradients/" + name] = gradients[name].numpy().astype(np.float32)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "fixtures")
    folder.mkdir(parents=True, exist_ok=True)
    for family, model in MODELS.items():
        if len(sys.argv) > 2 and family not in sys.argv[2:]:
            continue
        rng = np.random.default_rng(SEEDS[family])
        values, rows = draw_parameters(model, rng), draw_rows(rng, vocab_size_of(model))
        parameters = {name: torch.from_numpy(value).double().requires_grad_() for name, value in values.items()}
        routing = []
        loss = batch_loss(lambda document: document_logits(parameters, model, document, routing), rows)
        added = auxiliary_loss(model, routing) if routing else 0.0
        trained = [name for name in parameters if not name.endswith(CORRECTION)]
        gradients = dict(zip(trained, torch.autograd.grad(loss + added, [parameters[name] for name in trained])))
        check_second_witness(family, model, values, rows, loss, gradients)
        begin = sum(rows[0][2][:LOGITS_DOCUMENT])
        document = torch.from_numpy(rows[0][0][begin:begin + rows[0][2][LOGITS_DOCUMENT]]).long()
        logits = document_logits(parameters, model, document, [])
        write_fixture(folder / f"{family}.h5", model, values, rows, loss, logits, gradients)


if __name__ == "__main__":
    main()
