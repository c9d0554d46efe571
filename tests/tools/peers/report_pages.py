#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports of runs that are short, resumed, failed, of an adapter, with experts, and of 16 ranks, in headless Chromium.

usage: report_pages.py SFT_BIN_FOLDER PICTURES

Needs mpirun, chromium, python3-h5py and python3-matplotlib. Makes the runs and leaves their pages and pictures of them, light,
dark and narrow, in the folder PICTURES: look at them. What a program can see is checked: the browser reports no error, asks for
no other file, and shows every section.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
INI = """[model]
hidden_size = 64
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 96
vocab_size = 272
"""
REST = """[data]
train_files = data/train-*.h5
eval_files = data/eval-*.h5
[train]
per_device_train_batch_size = 1
precision = fp32
logging_steps = 1
eval_steps = 10
[optimizer]
learning_rate = 3e-3
[device]
backend = cpu
"""
RESUMED = ["--checkpoint.save_steps", "20", "--train.profile_steps", "25-26", "--checkpoint.save_hub_model", "true"]
# Name: ranks, .ini file and words of each start, and the status of the last.
RUNS = {
    "short": (1, "run.ini", [["--train.max_steps", "1"]], 0),
    "resumed": (2, "run.ini", [["--train.max_steps", "20", *RESUMED],
                               ["--train.max_steps", "40", "--checkpoint.resume_from_checkpoint", "auto", *RESUMED]], 0),
    "failed": (2, "run.ini", [["--train.max_steps", "20", "--optimizer.learning_rate", "1e30", "--optimizer.max_grad_norm", "0",
                               "--train.eval_strategy", "no"]], 4),
    "lora": (2, "rest.ini", [["--train.max_steps", "20", "--model.model_name_or_path", "out/resumed/model", "--use_peft"]], 0),
    "experts": (4, "run.ini", [["--train.max_steps", "20", "--num_experts", "4", "--num_experts_per_tok", "2",
                                "--moe_intermediate_size", "32", "--ep_size", "2", "--train.profile_steps", "5"]], 0),
    "sixteen": (16, "run.ini", [["--train.max_steps", "10", "--dp_replicate_size", "2", "--dp_shard_size", "2", "--sp_size", "2",
                                 "--tp_size", "2", "--train.profile_steps", "5"]], 0),
}
VIEWS = {"light": (1250, 3600, []), "dark": (1250, 3600, ["--blink-settings=preferredColorScheme=0"]), "narrow": (500, 5200, [])}
problems = []


def check(what, is_true):
    print(("ok      " if is_true else "WRONG   ") + what)
    if not is_true:
        problems.append(what)


def browse(url, *words):
    """What Chromium prints of the page, with its errors."""
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000",
                   f"--user-data-dir={profile}", *words, url]
        return subprocess.run(command, capture_output=True, text=True, timeout=180)


def requests_of(log):
    """The addresses of a NetLog that are no part of the browser's own start."""
    text = Path(log).read_text(encoding="utf-8", errors="replace").rstrip().removesuffix(",")
    events = json.loads(text if text.endswith("}") else text + "]}")["events"]
    found = {event.get("params", {}).get("url", "") for event in events}
    own = ("google", "gstatic", "chrome", "gvt1")
    return {url for url in found if url.startswith(("http", "file")) and not any(word in url for word in own)}


def main():
    programs, pictures = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    pictures.mkdir(parents=True, exist_ok=True)
    os.environ |= {"OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("pairs.jsonl", "w", encoding="utf-8") as file:
            for i in range(60):
                file.write(json.dumps({"prompt": f"What is number {i}?", "completion": f"the one after {i - 1}"}) + "\n")
        subprocess.run([programs / "sft-prepare", "--input", "pairs.jsonl", "--output", "data", "--max_length", "96", "--eval_split",
                        "0.2"], check=True, capture_output=True)
        Path("run.ini").write_text(INI + REST, encoding="utf-8")
        Path("rest.ini").write_text(REST, encoding="utf-8")
        for name, (ranks, ini, starts, status) in RUNS.items():
            for words in starts:
                done = subprocess.run(["mpirun", "-np", str(ranks), programs / "sft", ini, "--train.output_dir", f"out/{name}", *words],
                                      capture_output=True, text=True)
            if done.returncode != status:
                print(done.stdout[-2000:] + done.stderr[-2000:])
            check(f"{name}: the run ends with {status}", done.returncode == status)
            page = pictures / f"{name}.html"
            done = subprocess.run(["/usr/bin/python3", SOURCE / "postprocess/report.py", f"out/{name}", "--programs", programs,
                                   "--prompt", "What is number 7?", "-o", page], capture_output=True, text=True)
            check(f"{name}: the report is written {done.stderr}".strip(), done.returncode == 0)
            read = subprocess.run([SOURCE / "tests/trainer/read_report.py", page], capture_output=True, text=True)
            check(f"{name}: the page is whole {read.stderr}".strip(), read.returncode == 0)
            for view, (width, height, words) in VIEWS.items():
                done = browse(page.as_uri(), f"--screenshot={pictures / f'{name}-{view}.png'}", f"--window-size={width},{height}",
                              f"--log-net-log={folder}/net.json", "--enable-logging=stderr", *words)
                check(f"{name}: Chromium draws it, {view}", (pictures / f"{name}-{view}.png").is_file())
                check(f"{name}: without an error", "CONSOLE" not in done.stderr)
                check(f"{name}: and without a request", requests_of("net.json") <= {page.as_uri()})
            dom = browse(page.as_uri(), "--dump-dom").stdout
            check(f"{name}: every section is there", dom.count("<section ") == read.stdout.count("section "))
    print(f"pictures: {pictures}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
