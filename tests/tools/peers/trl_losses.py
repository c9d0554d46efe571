#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Losses of `sft` beside those of TRL's SFTTrainer: the same model, the same records, the same options, 20 steps.

usage: trl_losses.py SFT_BIN_FOLDER MODEL_FOLDER RECORDS.jsonl [--models NAME ...] [--only TEXT ...] [--mesh R,F,S,T ...]

MODEL_FOLDER is a small model with a tokenizer and a chat template; RECORDS.jsonl has lines with `question` and `answer`.
Every case of the table below is trained twice: by SFTTrainer on the CPU (float32, sdpa attention, without cache), and by
`sft-prepare` and `sft` on each mesh. Both begin with MODEL_FOLDER or with a small random model of another family that has
its tokenizer. Most take the rows in file order; those named "own sampler" leave both programs their defaults: three epochs
in the order of torch's RandomSampler, whose last steps have the rows that are left. Compared are loss and gradient norm
and, where a step is one micro-batch, accuracy and entropy (TRL averages these two over micro-batches) of the first 20 steps,
and learning rate and number of tokens of all. What rounding did to the first steps grows with each further one, in both
programs; the largest difference of all steps is printed last.

What a document sees is the same on both sides. With bfd and bfd_split, SFTTrainer joins the rows of a micro-batch and lets
position_ids begin anew at each document; transformers then makes a mask that keeps documents apart. With wrapped, TRL has no
documents: a row is one text, whatever it was cut from, and sft-prepare writes such a row as one document. So nothing else has
to be made equal. One difference on purpose is kept out of the cases: in file order, which TRL is told by
`train_sampling_strategy="sequential"`, a pass is a whole number of steps here, as sft fills up the last step of a pass with
rows of the next one (row_order = endless) where TRL makes a shorter step.

Needs trl 1.16, transformers, datasets, torch, h5py, and mpirun; run by hand.
"""
import argparse
import contextlib
import dataclasses
import io
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import datasets
import transformers

import hub_models
import trl_data

LOSS_TOLERANCE = 1e-4
NORM_TOLERANCE = 1e-3  # relative
STEPS = 20
ROWS_A_STEP = 4
MAX_LENGTH = 128
SHAPES = {"language modelling": trl_data.text, "prompt-completion": trl_data.pair, "messages": trl_data.chat,
          "chat completion": trl_data.chat_pair}
STRATEGIES = {"not packed": {"packing": False}, "bfd": {"packing": True},
              "bfd_split": {"packing": True, "packing_strategy": "bfd_split"},
              "wrapped": {"packing": True, "packing_strategy": "wrapped"}}
RATES = {"given": 1e-4, "random": 3e-3}
OPTIMIZER = {"lr_scheduler_type": "linear", "warmup_steps": 3, "weight_decay": 0.1, "adam_beta2": 0.95,
             "max_grad_norm": 1.0}
# Random models, each with the fields that only its family has.
FAMILIES = {"llama": ("Llama", dict(attention_bias=True, mlp_bias=True)), "mistral": ("Mistral", dict(sliding_window=None)),
            "qwen2": ("Qwen2", dict(tie_word_embeddings=True)), "qwen3": ("Qwen3", dict(head_dim=16))}


@dataclasses.dataclass
class Case:
    shape: object
    data: dict  # options of SFTConfig and of sft-prepare, which have the same names
    optimizer: dict = dataclasses.field(default_factory=dict)
    accumulation: int = 1
    num_records: int = 300
    sampler: dict = None  # options of SFTConfig and sft, where rows are shuffled; None: 20 steps in file order

    def is_shuffled(self):
        return self.sampler is not None


CASES = {f"{shape}, {strategy}": Case(SHAPES[shape], STRATEGIES[strategy], accumulation=2 if (s + p) % 2 else 1)
         for s, shape in enumerate(SHAPES) for p, strategy in enumerate(STRATEGIES)}
CASES.update({
    "prompts trained too": Case(trl_data.pair, {**STRATEGIES["bfd"], "completion_only_loss": False}, accumulation=4),
    "assistant alone": Case(trl_data.chat, {**STRATEGIES["bfd"], "assistant_only_loss": True,
                                            "chat_template_path": trl_data.MARKED}),
    "shuffled documents": Case(trl_data.pair, {**STRATEGIES["bfd"], "shuffle_dataset": True}),
    "five passes, cosine, no clipping": Case(trl_data.text, STRATEGIES["not packed"],
                                             {"lr_scheduler_type": "cosine", "max_grad_norm": 0.0}, num_records=16),
    "clipped hard, constant rate": Case(trl_data.chat_pair, STRATEGIES["bfd"],
                                        {"lr_scheduler_type": "constant", "warmup_steps": 0, "max_grad_norm": 0.05}),
    "stable, then a decay": Case(trl_data.pair, STRATEGIES["bfd"],
                                 {"lr_scheduler_type": "warmup_stable_decay", "warmup_steps": 0.12, "lr_scheduler_kwargs":
                                  '{"num_decay_steps": 8, "warmup_type": "cosine", "decay_type": "1-sqrt"}'}),
    "restarts": Case(trl_data.text, STRATEGIES["not packed"],
                     {"lr_scheduler_type": "cosine_with_restarts", "lr_scheduler_kwargs": '{"num_cycles": 3}'}),
    "dynamic fine-tuning": Case(trl_data.pair, STRATEGIES["bfd"], {"loss_type": "dft"}, accumulation=2),
    "smoothed labels": Case(trl_data.chat_pair, STRATEGIES["bfd"], {"label_smoothing_factor": 0.1}, accumulation=2),
    # Rows that do not fill the last step of an epoch.
    "own sampler": Case(trl_data.pair, STRATEGIES["not packed"], num_records=27, sampler={"num_train_epochs": 3}),
    "own sampler, accumulated": Case(trl_data.chat, STRATEGIES["not packed"], accumulation=2, num_records=27,
                                     sampler={"num_train_epochs": 3}),
    "own sampler, packed": Case(trl_data.chat_pair, STRATEGIES["bfd"], num_records=110, sampler={"num_train_epochs": 3}),
    "own sampler, another seed": Case(trl_data.pair, STRATEGIES["bfd"], accumulation=4, num_records=90,
                                      sampler={"max_steps": 20, "data_seed": 7}),
})


def make_models(names, folder, work):
    """Name and folder of each model: `given`, and random ones that have the tokenizer of `folder`."""
    models = {}
    vocab_size = json.loads((folder / "config.json").read_text())["vocab_size"]
    for name in names:
        if name == "given":
            models[name] = folder
            continue
        family, fields = FAMILIES[name]
        hub_models.CASES[name] = (family, {**fields, "vocab_size": vocab_size})
        models[name] = hub_models.make_model(name, work / name)
        for path in folder.glob("*token*.json"):
            shutil.copy(path, models[name])
        for path in folder.glob("chat_template*"):
            shutil.copy(path, models[name])
    return models


def train_trl(model, file, case, work):
    from trl import SFTConfig, SFTTrainer
    config = SFTConfig(
        output_dir=str(work / "trl"), use_cpu=True, bf16=False, report_to="none", disable_tqdm=True, save_strategy="no",
        logging_steps=1, gradient_checkpointing=False,
        **(case.sampler if case.is_shuffled() else {"train_sampling_strategy": "sequential", "max_steps": STEPS}),
        model_init_kwargs={"dtype": "float32", "attn_implementation": "sdpa"}, max_length=MAX_LENGTH,
        per_device_train_batch_size=ROWS_A_STEP // case.accumulation, gradient_accumulation_steps=case.accumulation,
        **{**OPTIMIZER, **case.optimizer}, **case.data)
    # The tokenizer.json as it stands; for a config.json of Qwen2, AutoTokenizer would build another one from its vocabulary.
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model)
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = SFTTrainer(model=str(model), args=config, processing_class=tokenizer, train_dataset=datasets.load_dataset(
            "json", data_files=str(file), split="train", cache_dir=str(work / "cache")))
        trainer.train()
    lines = [line for line in trainer.state.log_history if "loss" in line]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1)) and len(lines) >= 16
    return lines


def words(options):
    values = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    return [f"--{name}={value}" for name, value in values.items()]


def prepare(binaries, model, file, case, work):
    data = {"max_length": MAX_LENGTH, "model_name_or_path": model, **case.data}
    subprocess.run([binaries / "sft-prepare", "--input", file, "--output", work / "rows", *words(data)], check=True,
                   capture_output=True)
    return work / "rows" / "train-*.h5"


def train_sft(binaries, model, rows, case, mesh, output):
    data_ranks = mesh[0] * mesh[1]
    micro_batch = ROWS_A_STEP // case.accumulation
    if micro_batch % data_ranks:
        return None
    options = {**OPTIMIZER, **case.optimizer, "precision": "fp32", "logging_steps": 1,
               **(case.sampler if case.is_shuffled() else {"shuffle": False, "max_steps": STEPS}),
               "per_device_train_batch_size": micro_batch // data_ranks, "gradient_accumulation_steps": case.accumulation,
               "train_files": rows, "output_dir": output, "model_name_or_path": model, "save_hub_model": False,
               **dict(zip(("dp_replicate_size", "dp_shard_size", "sp_size", "tp_size"), mesh))}
    environment = {**os.environ, **hub_models.MPI_ENVIRONMENT}
    result = subprocess.run(["mpirun", "-np", str(math.prod(mesh)), binaries / "sft", *words(options)], capture_output=True,
                            text=True, env=environment)
    if result.returncode != 0:
        raise RuntimeError(f"sft failed with {result.returncode}: {result.stderr}")
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    shutil.rmtree(output)
    return lines


@dataclasses.dataclass
class Difference:
    """The largest over the first steps, and that of losses over all."""
    loss: float = 0.0
    norm: float = 0.0  # relative
    accuracy: float = 0.0
    entropy: float = 0.0
    loss_of_all: float = 0.0
    others: set = dataclasses.field(default_factory=set)  # names of numbers that must be the same and are not

    def add(self, trl, sft, is_one_micro_batch):
        self.loss_of_all = max(self.loss_of_all, abs(trl["loss"] - sft["loss"]))
        if trl["step"] <= STEPS:
            self.loss = self.loss_of_all
            self.norm = max(self.norm, abs(trl["grad_norm"] - sft["grad_norm"]) / trl["grad_norm"])
            if is_one_micro_batch:
                self.accuracy = max(self.accuracy, abs(trl["mean_token_accuracy"] - sft["mean_token_accuracy"]))
                self.entropy = max(self.entropy, abs(trl["entropy"] - sft["entropy"]))
        if trl["num_tokens"] != sft["num_tokens"]:
            self.others.add("num_tokens")
        if not math.isclose(trl["learning_rate"], sft["learning_rate"], rel_tol=1e-12):
            self.others.add("learning_rate")

    def is_small(self):
        return max(self.loss, self.entropy) < LOSS_TOLERANCE and self.norm < NORM_TOLERANCE and not self.others


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("records", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=["given", *FAMILIES], choices=["given", *FAMILIES])
    parser.add_argument("--only", nargs="+", default=[""], help="cases whose name has one of these texts")
    parser.add_argument("--mesh", nargs="+", default=["1,1,1,1", "2,2,1,1", "1,2,2,2"],
                        help="sizes of dp_replicate, dp_shard, sp, tp; a mesh is left out where its data ranks do not divide "
                        "the micro-batch")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    warnings.simplefilter("ignore", FutureWarning)
    records = [json.loads(line) for line in options.records.read_text(encoding="utf-8").splitlines()]
    num_wrong, num_runs = 0, 0
    with tempfile.TemporaryDirectory(prefix="trl-losses-") as top:
        models = make_models(options.models, options.model, pathlib.Path(top))
        print(f"{'':6}{'model':9}{'case':36}{'mesh':10}{'loss of step 1':>15}{'of the last':>12}  largest difference "
              "of loss / norm (relative) / entropy / accuracy")
        for model_name, model in models.items():
            for name, case in CASES.items():
                if not any(text in name for text in options.only):
                    continue
                case.optimizer["learning_rate"] = RATES["given" if model_name == "given" else "random"]
                work = pathlib.Path(top) / "case"
                work.mkdir()
                file = work / "records.jsonl"
                file.write_text("".join(json.dumps(case.shape(record), ensure_ascii=False) + "\n"
                                        for record in records[:case.num_records]), encoding="utf-8")
                expected = train_trl(model, file, case, work)
                rows = prepare(options.binaries, model, file, case, work)
                for mesh in options.mesh:
                    lines = train_sft(options.binaries, model, rows, case, [int(size) for size in mesh.split(",")],
                                      work / "output")
                    if lines is None:
                        continue
                    difference = Difference()
                    if len(lines) != len(expected):
                        difference.others.add("steps")
                    for trl, sft in zip(expected, lines):
                        difference.add(trl, sft, case.accumulation == 1)
                    num_runs += 1
                    num_wrong += not difference.is_small()
                    metrics = (f"{difference.entropy:.1e} / {difference.accuracy:.1e}" if case.accumulation == 1 else
                               f"{case.accumulation} micro-batches a step")
                    print(f"{'ok' if difference.is_small() else 'WRONG':6}{model_name:9}{name:36}{mesh:10}"
                          f"{expected[0]['loss']:15.6f}{expected[-1]['loss']:12.6f}  {difference.loss:.1e} / "
                          f"{difference.norm:.1e} / {metrics}; loss of {len(lines)} steps {difference.loss_of_all:.1e} "
                          f"{' '.join(sorted(difference.others))}", flush=True)
                shutil.rmtree(work)
    print(f"{num_runs - num_wrong} of {num_runs} runs agree")
    return 0 if num_wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
