#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run tells other programs, read by these: TensorBoard, tbparse, W&B and SwanLab (offline), MLflow,
trackio, Prometheus' parser.

usage: watching.py SFT_BIN_FOLDER

Needs tensorboard, tbparse, wandb, mlflow, trackio, swanlab, prometheus_client (pip install), mpirun, and promtool where there is one. A run on
two ranks is stopped halfway, sent, resumed and sent again while it trains: each logged step and each evaluation has to be
there once, with the numbers of metrics.jsonl.
"""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

TRACK = Path(__file__).resolve().parents[3] / "postprocess/track.py"
STEPS, EVERY = 24, 6
SERVICES = ("wandb", "mlflow", "trackio", "swanlab")
problems = []


def check(what, is_true):
    print(("ok      " if is_true else "WRONG   ") + what)
    if not is_true:
        problems.append(what)


def run(bin_folder, steps, *words):
    command = ["mpirun", "-np", "2", f"{bin_folder}/sft", "run.ini", "--train.max_steps", str(steps), "--train.report_to",
               "tensorboard,prometheus," + ",".join(SERVICES), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def lines():
    with open("out/metrics.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def losses():
    """By tag of transformers: steps and values."""
    return {"train/loss": [(line["step"], line["loss"]) for line in lines() if "loss" in line],
            "eval/loss": [(line["step"], line["eval_loss"]) for line in lines() if "eval_loss" in line]}


def same(found, wanted, tolerance=0.0):
    found = sorted(found)
    return [step for step, _ in found] == [step for step, _ in wanted] and all(
        abs(a - b) <= tolerance * abs(b) for (_, a), (_, b) in zip(found, wanted))


def track(service, *words):
    done = subprocess.run([sys.executable, TRACK, "out", "--to", service, *words], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr)
    return done.returncode == 0


def other_readers_of_events(folder):
    """Readers that know no sessions: each finds a point of every event file."""
    from tbparse import SummaryReader
    from trackio.sqlite_storage import SQLiteStorage
    import trackio as package

    frame = SummaryReader(folder).scalars
    package.import_tf_events(folder, project="events")
    logs = SQLiteStorage.get_logs("events", SQLiteStorage.get_runs("events")[0])
    for tag, wanted in losses().items():
        of_tag = frame[frame.tag == tag]
        check(f"tbparse: {tag} has each of {len(wanted)} points once", same(list(zip(of_tag.step, of_tag.value)), wanted, 1e-7))
        found = [(log["step"], log[tag]) for log in logs if tag in log]
        check(f"trackio.import_tf_events: {tag} has each of {len(wanted)} points once", same(found, wanted, 1e-7))


def tensorboard(reader):
    reader.Reload()
    float32 = 1e-7
    for tag, wanted in losses().items():
        found = [(event.step, event.value) for event in reader.Scalars(tag)]
        check(f"tensorboard: {tag} has each of {len(wanted)} points once", same(found, wanted, float32))


def wandb_records(path):
    """Those of a .wandb file: blocks of 32 KiB as LevelDB's log has them, behind a header of 7 bytes."""
    data, parts = Path(path).read_bytes(), []
    at = 7
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        parts.append(data[at + 7:at + 7 + length])
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield b"".join(parts)
            parts = []


def wandb():
    from wandb.proto import wandb_internal_pb2

    found, ids, keys, times, exits = {tag: [] for tag in losses()}, set(), {}, {}, []
    for path in sorted(glob.glob("out/wandb/offline-run-*/run-*.wandb")):
        for data in wandb_records(path):
            record = wandb_internal_pb2.Record.FromString(data)
            if record.WhichOneof("record_type") == "run":
                ids.add(record.run.run_id)
                keys |= {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.run.config.update}
            if record.WhichOneof("record_type") == "exit":
                exits.append(record.exit.exit_code)
            if record.WhichOneof("record_type") != "history":
                continue
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for tag in found:
                if tag in items:
                    found[tag].append((int(items["train/global_step"]), items[tag]))
                    times[int(items["train/global_step"])] = items["_timestamp"]
    for tag, wanted in losses().items():
        check(f"wandb: {tag} has each of {len(wanted)} points once", same(found[tag], wanted))
    check("wandb: it is one run, with the configuration", len(ids) == 1 and len(keys) > 100)
    check("wandb: values of the configuration are numbers and booleans where they are",
          keys["train.max_steps"] == STEPS and keys["optimizer.learning_rate"] == 2e-5 and keys["data.shuffle"] is True)
    check("wandb: points have the times of their lines",  # steps that came again were sent before
          all(times[line["step"]] == line["time"] for line in lines() if "time" in line and line["step"] > STEPS // 2 + EVERY))
    check("wandb: the ends are told", exits[0] == 75 and exits[-1] == 0)



def mlflow_run():
    import mlflow as package

    client = package.MlflowClient()
    runs = client.search_runs([client.get_experiment_by_name("sft").experiment_id])
    check("mlflow: it is one run", len(runs) == 1)
    return runs[0]


def mlflow():
    import mlflow as package

    client, run = package.MlflowClient(), mlflow_run()
    check("mlflow: it has ended, with the configuration", run.info.status == "FINISHED" and len(run.data.params) > 100)
    info, ends = run.info, [line["time"] for line in lines() if "time" in line]
    check("mlflow: it began before its first point and ended after its last",
          info.start_time <= 1000 * ends[0] and 1000 * ends[-1] <= info.end_time + 1 <= 1000 * (ends[-1] + 60))
    for tag, wanted in losses().items():
        found = [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, tag)]
        check(f"mlflow: {tag} has each of {len(wanted)} points once", same(found, wanted))


def trackio():
    from trackio.sqlite_storage import SQLiteStorage

    runs = SQLiteStorage.get_runs("sft")
    check("trackio: it is one run", len(runs) == 1)
    logs = SQLiteStorage.get_logs("sft", runs[0])
    for tag, wanted in losses().items():
        check(f"trackio: {tag} has each of {len(wanted)} points once",
              same([(log["step"], log[tag]) for log in logs if tag in log], wanted))


def swanlab():
    from swanlab.proto.swanlab.record.v1 import record_pb2
    from swanlab.sdk.internal.core_python.store import DataStoreReader

    found, ids, ends = {tag: [] for tag in losses()}, set(), []
    for path in sorted(glob.glob("out/swanlog/run-*/run-*.swanlab")):
        reader = DataStoreReader()
        reader.open(path)
        for data in reader:
            record = record_pb2.Record.FromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "start":
                ids.add(record.start.id)
            if kind == "finish":
                ends.append(record.finish.state)
            if kind == "scalar" and record.scalar.key in found:
                found[record.scalar.key].append((record.scalar.step, record.scalar.value.number))
    check("swanlab: it is one run, which was aborted and then finished", len(ids) == 1 and ends[0] != ends[-1])
    for tag, wanted in losses().items():
        check(f"swanlab: {tag} has each of {len(wanted)} points once", same(found[tag], wanted, 1e-6))


def prometheus():
    from prometheus_client.parser import text_string_to_metric_families

    text = Path("out/metrics.prom").read_text(encoding="utf-8")
    gauges = {family.name: family for family in text_string_to_metric_families(text)}
    last = [line for line in lines() if "loss" in line][-1]
    value = {name: family.samples[0].value for name, family in gauges.items()}
    check("prometheus: step and loss are those of the last line",
          value["sft_step"] == last["step"] and value["sft_loss"] == last["loss"])
    check("prometheus: memory, the slowest rank, evaluations and times are there", all(
        f"sft_{name}" in value for name in ("fullest_memory_bytes", "fullest_memory_limit_bytes", "slowest_ratio", "eval_loss",
                                            "exposed_communication", "step_time_seconds", "last_line_timestamp_seconds")))
    check("prometheus: each has one sample, a help and a type", all(
        len(family.samples) == 1 and family.documentation and family.type == "gauge" for family in gauges.values()))
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        check(f"promtool has nothing to object {done.stdout + done.stderr}".strip(), done.stdout + done.stderr == "")
        Path("rules.yml").write_text("groups:\n- name: sft\n  rules:\n" + alert_of_the_page(), encoding="utf-8")
        done = subprocess.run(["promtool", "check", "rules", "rules.yml"], capture_output=True, text=True)
        check("promtool takes the alert of docs/watching.md", done.returncode == 0 and "1 rules found" in done.stdout)


def alert_of_the_page():
    page = (TRACK.parents[1] / "docs/watching.md").read_text(encoding="utf-8")
    return "".join(f"  {line}\n" for line in page.split("```yaml\n")[1].split("```")[0].splitlines())


def main():
    bin_folder = Path(sys.argv[1]).resolve()
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": "out", "SWANLAB_MODE": "offline", "TRACKIO_DIR": f"{folder}/trackio",
                   "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db", "OMP_NUM_THREADS": "1"}
    with open("pairs.jsonl", "w", encoding="utf-8") as file:
        for i in range(60):
            file.write(json.dumps({"prompt": f"What is number {i}?", "completion": f"the one after {i - 1}"}) + "\n")
    subprocess.run([f"{bin_folder}/sft-prepare", "--input", "pairs.jsonl", "--output", "data", "--max_length", "96",
                    "--eval_split", "0.2"], check=True, capture_output=True)
    Path("run.ini").write_text(f"""[model]
hidden_size = 32
num_hidden_layers = 1
num_attention_heads = 4
intermediate_size = 48
vocab_size = 272
[data]
train_files = data/train-*.h5
eval_files = data/eval-*.h5
[optimizer]
lr_scheduler_type = constant
[train]
output_dir = out
precision = fp32
logging_steps = 1
eval_steps = {EVERY}
[checkpoint]
save_steps = {EVERY}
[device]
backend = cpu
""", encoding="utf-8")

    first = run(bin_folder, STEPS // 2 + EVERY)
    said = first.communicate()[0]
    holder = Path("out/run.lock").read_text(encoding="utf-8").splitlines()[0]
    Path("out/run.lock").write_text(f"{holder}\nstopped after step {STEPS // 2 + EVERY} of {STEPS}\n", encoding="utf-8")
    for service in SERVICES:
        check(f"the start names the command for {service}", f"track.py out --to {service} --follow" in said)
        check(f"{service} takes the first half", track(service))
    check("mlflow: a run that was stopped is KILLED", mlflow_run().info.status == "KILLED")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    event_folder = glob.glob("out/tensorboard/*")[0]
    reader = EventAccumulator(event_folder, size_guidance={"scalars": 0})
    tensorboard(reader)
    check("tensorboard: the configuration is a text", "configuration" in reader.Tags()["tensors"])

    # It goes on from step 12: the steps behind it come again.
    shutil.rmtree(sorted(glob.glob("out/checkpoint-*"))[-1])
    second = run(bin_folder, STEPS, "--checkpoint.resume_from_checkpoint", "auto")
    followers = [subprocess.Popen([sys.executable, TRACK, "out", "--to", service, "--follow", "--interval", "1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for service in SERVICES]
    second.communicate()
    for service, follower in zip(SERVICES, followers):
        follower.communicate()
        check(f"{service} takes the rest", follower.returncode == 0 and track(service))
    check("the run has all steps", [step for step, _ in losses()["train/loss"]] == list(range(1, STEPS + 1)))
    tensorboard(reader)
    tensorboard(EventAccumulator(event_folder, size_guidance={"scalars": 0}))
    other_readers_of_events("out/tensorboard")
    wandb()
    note = Path("out/.track-mlflow.json")
    note.write_text(json.dumps(json.loads(note.read_text(encoding="utf-8")) | {"train": STEPS - 3, "eval": STEPS - EVERY}),
                    encoding="utf-8")
    check("mlflow takes lines again, as after a kill before they were noted", track("mlflow"))
    mlflow()
    trackio()
    swanlab()
    prometheus()
    if problems:
        print(f"{len(problems)} wrong; the run is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
