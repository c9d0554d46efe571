#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes torch_orders.txt beside it: the rows of each epoch and of each step as TRL's stack has them.

Lines `epoch NUM_ROWS SEED EPOCH SUM ROW ...` are of torch.randperm: SUM is the sum of (position + 1) x row modulo 2^64,
and the rows are the first 40. Lines `step NUM_ROWS SEED BATCH STEP ROW ...` are what transformers' Trainer, of which
SFTTrainer is one, trains on with its own sampler, on one process.

Needs torch, transformers and accelerate.
"""
import pathlib
import tempfile
import warnings

import numpy
import torch
import transformers

EPOCHS = [(num_rows, seed) for num_rows in (1, 2, 3, 10, 40, 257, 1000, 32768) for seed in (42, 7)]
EPOCHS += [(100, seed) for seed in (0, 2**32 - 1, 2**32 + 5, 2**63 + 3)]  # 32 bits of the seed count
EPOCHS += [(2**20 + 7, 42), (2**24, 42)]
# num_rows, rows of a micro-batch, micro-batches, seed, keys of TrainingArguments
RUNS = [(11, 2, 2, 42, {}), (12, 2, 2, 7, {"seed": 7}), (13, 3, 1, 9, {"seed": 5, "data_seed": 9}), (5, 2, 4, 42, {}),
        (10, 2, 3, 42, {})]


def order(num_rows, seed):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return torch.randperm(num_rows, generator=generator).numpy().astype(numpy.uint64)


def epoch_lines():
    for num_rows, seed in EPOCHS:
        for epoch in range(3):
            rows = order(num_rows, seed + epoch)
            with numpy.errstate(over="ignore"):
                check = int((numpy.arange(1, num_rows + 1, dtype=numpy.uint64) * rows).sum(dtype=numpy.uint64))
            yield f"epoch {num_rows} {seed} {epoch} {check} " + " ".join(str(row) for row in rows[:40])


class Rows(torch.utils.data.Dataset):
    """Row r is the token r."""

    def __init__(self, num_rows):
        self.num_rows = num_rows

    def __len__(self):
        return self.num_rows

    def __getitem__(self, row):
        return {"input_ids": torch.tensor([row] * 2), "labels": torch.tensor([row] * 2)}


class Recorder(transformers.Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        self.steps.setdefault(self.state.global_step, []).extend(inputs["input_ids"][:, 0].tolist())
        return super().training_step(model, inputs, num_items_in_batch)


def step_lines():
    for num_rows, micro_batch, accumulation, seed, keys in RUNS:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=64, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1))
        with tempfile.TemporaryDirectory() as folder:
            trainer = Recorder(model=model, train_dataset=Rows(num_rows), args=transformers.TrainingArguments(
                output_dir=folder, use_cpu=True, bf16=False, report_to="none", disable_tqdm=True, save_strategy="no",
                logging_strategy="no", per_device_train_batch_size=micro_batch, gradient_accumulation_steps=accumulation,
                num_train_epochs=3, **keys))
            trainer.steps = {}
            trainer.train()
        for step, rows in trainer.steps.items():
            yield f"step {num_rows} {seed} {micro_batch * accumulation} {step} " + " ".join(map(str, rows))


def main():
    warnings.simplefilter("ignore")
    lines = [f"# tests/unit/rows/make_torch_orders.py, torch {torch.__version__}, transformers {transformers.__version__}",
             *epoch_lines(), *step_lines()]
    pathlib.Path(__file__).with_name("torch_orders.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
