#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The published files of Axolotl and LLaMA-Factory for supervised fine-tuning on text: each runs, or is refused with all
its keys that cannot be obeyed.

    framework_files.py LIST SFT_LAUNCH MODEL MODEL_WITH_EXPERTS
    framework_files.py LIST SFT_LAUNCH MODEL MODEL_WITH_EXPERTS --write AXOLOTL LLAMA_FACTORY

LIST (framework_files.txt) has the settings of each file; model and data are replaced by the folders MODEL and small files
of records, as a user does who tries one; the model has experts where that of the file has some. --write makes the list
anew, from the source folders of both projects (their sdists), with what the program says of each; it needs PyYAML. Fails where a file runs that the list has as refused or the
other way, where a refused key is not named, and where less than 60 % of a project's files run.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

LEAST_SHARE = 0.6
RECORDS = {"alpaca": {"instruction": "Add", "input": "1 2", "output": "3"},
           "chat": {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]},
           "text": {"text": "some words"}}
SIZES = ("dp_replicate_size", "dp_shard_size", "context_parallel_size", "tensor_parallel_size",
         "expert_parallel_size", "tensor_model_parallel_size", "expert_model_parallel_size")
# Names of published models that have experts, as they say it: 30B-A3B (active parameters), 8x7B, 16E, or by their families.
HAS_EXPERTS = re.compile(r"-A\d+B|\d+x\d+B|-\d+E-|MoE|dbrx|DeepSeek-V[234]|GLM-4\.5|GLM-4\.7|GLM-5|gpt-oss|"
                         r"granite-4\.0-tiny|Jamba|Kimi|Ling-|MiniMax|Mistral-Small-4|Nemotron-3|Qwen3-Next|Flash-Next|"
                         r"Trinity", re.IGNORECASE)

Example = collections.namedtuple("Example", "project name settings refused")


def is_of_text(settings):
    """Whether a file trains on answers or plain text, and on no pictures."""
    others = ("rl", "reward_model", "process_reward_model", "pretraining_dataset", "diffusion", "ebft", "num_labels",
              "processor_type", "skip_prepare_dataset", "do_predict", "image_max_pixels")
    if any(settings.get(name) for name in others):
        return False
    if "base_model" in settings:
        return bool(settings.get("datasets"))
    is_old = settings.get("stage") == "sft" and bool(settings.get("do_train"))
    return is_old or ("train_dataset" in settings and "model" in settings)


def published(folder):
    """Settings of each example below a project's folder, those without a value left out."""
    import yaml  # pylint: disable=import-outside-toplevel
    for path in sorted((folder / "examples").rglob("*.y*ml")):
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(settings, dict) and is_of_text(settings):
            yield str(path.relative_to(folder)), {name: value for name, value in settings.items() if value is not None
                                                  and not name.endswith("_description")}


def read_list(path):
    examples, files = [], {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            kind, _, rest = line.rstrip("\n").partition(" ")
            if kind == "file":
                name, _, text = rest.partition(" ")
                files[name] = json.loads(text)
            elif kind in ("axolotl", "llama_factory"):
                name, _, text = rest.partition(" ")
                examples.append(Example(kind, name, json.loads(text), []))
            elif kind == "!":
                examples[-1].refused.extend(rest.split())
    return examples, files


def with_own_data(settings, model, folder):
    """The settings with another model and other data."""
    own = dict(settings)
    for name in ("base_model", "model_name_or_path", "model"):
        if name in own:
            own[name] = model
    own["output_dir"] = f"{folder}/out"
    for dataset in own.get("datasets", []) + own.get("test_datasets", []):
        kind = str(dataset.get("type"))
        shape = "alpaca" if "alpaca" in kind else "text" if kind == "completion" else "chat"
        dataset["path"] = f"{folder}/{shape}.jsonl"
        for name in ("name", "data_files"):
            dataset.pop(name, None)
    if "dataset" in own:
        own.update(dataset="mine", dataset_dir=str(folder))
    if "train_dataset" in own:
        own["train_dataset"] = f"{folder}/alpaca.jsonl"
    return own


def keys_in(text):
    """The keys that a refusal names first in each of its lines."""
    lines = [line for line in text.splitlines() if not line.startswith("warning:")]
    found = [re.search(r"`([\w.\[\]]+)", line) for line in lines]
    return sorted({match[1] for match in found if match})


def ranks_of(settings):
    product = int(settings.get("dist_config", {}).get("cp_size", 1))
    for name in SIZES:
        product *= int(settings.get(name) or 1)
    return product


def launch(program, models, example, folder, *words):
    named = [example.settings.get(name) for name in ("base_model", "model_name_or_path", "model")]
    has_experts = any(name and HAS_EXPERTS.search(name) for name in named)
    settings = with_own_data(example.settings, models[1 if has_experts else 0], folder)
    file = folder / "example.yaml"
    file.write_text(json.dumps(settings), encoding="utf-8")
    command = [program, "sft", "--config", str(file), "--num_processes", str(ranks_of(settings)), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def write_list(path, program, models, folders, work):
    with open(path, encoding="utf-8") as old:
        head = [line for line in old if line.startswith("#")]
    lines = []
    for project, folder, configs in (("axolotl", folders[0], "deepspeed_configs"),
                                     ("llama_factory", folders[1], "examples/deepspeed")):
        for config in sorted((folder / configs).glob("*.json")):
            lines.append(f"file {config.relative_to(folder)} {json.dumps(json.loads(config.read_text('utf-8')))}")
            write_file(work, str(config.relative_to(folder)), json.loads(config.read_text("utf-8")))
        for name, settings in published(folder):
            lines.append(f"{project} {name} {json.dumps(settings, ensure_ascii=False)}")
            ended = launch(program, models, Example(project, name, json.loads(json.dumps(settings)), []), work, "--print")
            if ended.returncode != 0:
                lines.append("! " + " ".join(keys_in(ended.stderr)))
    pathlib.Path(path).write_text("".join(head) + "\n".join(lines) + "\n", encoding="utf-8")


def write_file(work, name, content):
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (work / name).write_text(json.dumps(content), encoding="utf-8")


def problem_of(example, ended):
    """What is wrong with how the example ended; empty: nothing."""
    if not example.refused:
        return "" if ended.returncode == 0 else f"is refused: {ended.stderr}"
    if ended.returncode != 2:
        return f"ends with {ended.returncode} and not 2: {ended.stderr}"
    missing = set(example.refused) - set(keys_in(ended.stderr))
    return f"does not name {' '.join(sorted(missing))}: {ended.stderr}" if missing else ""


def main():
    path, program, models, rest = sys.argv[1], sys.argv[2], sys.argv[3:5], sys.argv[5:]
    num_wrong = 0
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        for shape, record in RECORDS.items():
            (work / f"{shape}.jsonl").write_text((json.dumps(record) + "\n") * 40, encoding="utf-8")
        write_file(work, "dataset_info.json", {"mine": {"file_name": "alpaca.jsonl"}})
        if rest:
            return write_list(path, program, models, [pathlib.Path(folder) for folder in rest[1:]], work)
        examples, files = read_list(path)
        for file, content in files.items():
            write_file(work, file, content)
        num_run, num_all = collections.Counter(), collections.Counter()
        for example in examples:
            problem = problem_of(example, launch(program, models, example, work, "--print"))
            num_wrong += bool(problem)
            if problem:
                print(f"{example.project} {example.name} {problem}")
            num_all[example.project] += 1
            num_run[example.project] += not problem and not example.refused
        for project, count in num_all.items():
            share = num_run[project] / count
            num_wrong += share < LEAST_SHARE
            print(f"{project}: {num_run[project]} of {count} files run ({100 * share:.1f} %)")
    return num_wrong > 0


if __name__ == "__main__":
    sys.exit(main())
