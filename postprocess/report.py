#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes one HTML file about a run that a browser shows without a network: curves, mesh, memory as planned and as measured,
timeline of the profiled steps, texts of the model before and after, what the run's time went to, and which runs its
checkpoints come from.

    postprocess/report.py output/run -o report.html
    postprocess/report.py output/run --prompt "2 + 3 =" --prompts questions.txt -o report.html

Memory comes from `sft resolved.ini --dry-run --json`, texts from `sft-generate`: without these programs (--programs) the
report leaves them out and says so. Start it where the run was started, so that relative paths of its configuration lead to
the data. Needs numpy, h5py and matplotlib (Debian: python3-h5py, python3-matplotlib).
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

try:
    from report_page import (COLORS, PAPER, bytes_text, cards, duration, escaped, hint, page, plt, svg_of, table)
    from run_state import read_lock
    from sft_inspect import status
    from sft_run import Run
except ImportError as error:
    sys.exit(f"report.py: error: {error}: apt install python3-matplotlib python3-h5py "
             "(of another python3 than Debian's: start it as /usr/bin/python3 postprocess/report.py)")

AXES = ("dp_replicate", "dp_shard", "ep", "sp", "tp")
DATA_AXES = ("dp_replicate", "dp_shard", "ep")  # their ranks read rows of their own
MAX_RANKS_DRAWN = 1024
CELL_FILLS = ("#cfe3fb", "#fde2c0", "#d3efd5", "#eadcf7", "#f9d4d6", "#d9eef0", "#f3eebf", "#e3e3e3")


def step_lines(run: Run) -> list[dict[str, Any]]:
    return [line for line in run.metrics() if "eval_loss" not in line]


def number(value: Any, form: str = ".5f") -> str:
    """JSON has null for what is not finite."""
    return "not finite" if value is None or not math.isfinite(value) else format(value, form)


# Sections: each returns HTML.


def state_of(run: Run) -> tuple[str, str]:
    """The end or state of the run: a class of the page, and words."""
    found = status(run.output_dir)
    _, end = read_lock(run.output_dir)
    if found["alive"]:
        return "runs", f"still runs: {found['state']}"
    if not end:
        return "lost", "ended without a word: it was killed, or its node was lost"
    return end.split(" ")[0], end


def overview(run: Run) -> str:
    steps = step_lines(run)
    evaluations = [line for line in run.metrics() if "eval_loss" in line]
    items: list[tuple[str, str]] = []
    if steps:
        last = steps[-1]
        items += [("steps", f"{last['step']:,}"), ("epochs", f"{last['epoch']:.2f}"),
                  ("tokens trained on", f"{last['num_tokens']:,}"),
                  ("loss", f"{number(steps[0]['loss'], '.4f')} → {number(last['loss'], '.4f')}")]
    if evaluations:
        finite = [line for line in evaluations if line["eval_loss"] is not None]
        items.append(("loss, evaluated", number(evaluations[-1]["eval_loss"], ".4f")))
        if finite:
            best = min(finite, key=lambda line: line["eval_loss"])
            items.append(("lowest", f"{best['eval_loss']:.4f} at step {best['step']:,}"))
    if steps:
        rates = sorted(line["tokens_per_second"] for line in steps[1:] or steps)
        items.append(("tokens a second, median", f"{rates[len(rates) // 2]:,.0f}"))
        if "goodput" in last:
            items += [("goodput", f"{100 * last['goodput']:.1f} %"), ("since the first start", duration(last["run_time_s"]))]
        items.append(("most memory of a rank", bytes_text(last["peak_memory_bytes_max"])))
    return cards(items) + hint(f"Folder: {run.output_dir.resolve()}")


def curve(run: Run, title: str, names: dict[str, str], log: bool = False) -> str:
    """`names`: metric to label. Empty where the run has none of them."""
    figure, axes = plt.subplots(figsize=(5.6, 2.9))
    found = False
    for color, (name, label) in zip(COLORS, names.items()):
        steps, values = run.steps(name), run.metric(name)
        if len(steps) == 0 or not (values == values).any():
            continue
        found = True
        few = "o-" if len(steps) < 25 or name.startswith("eval") else "-"
        axes.plot(steps, values, few, label=label, color=color, markersize=3.2, linewidth=1.3)
    if not found:
        plt.close(figure)
        return ""
    for line in run.metrics():
        if "resumed_step" in line:
            axes.axvline(line["resumed_step"], linestyle=":", color="#888888", linewidth=1.2)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("step")
    axes.xaxis.get_major_locator().set_params(integer=True)
    low, high = axes.get_xlim()
    if high - low < 2:
        axes.set_xlim(round((low + high) / 2) - 1, round((low + high) / 2) + 1)
    if log:
        axes.set_yscale("log")
    if len(axes.lines) > 1 and len(names) > 1:
        axes.legend(fontsize=8)
    return svg_of(figure, title)


def curves(run: Run) -> str:
    drawn = [curve(run, "loss, nats a target token", {"loss": "training", "eval_loss": "evaluation"}),
             curve(run, "mean token accuracy", {"mean_token_accuracy": "training",
                                                "eval_mean_token_accuracy": "evaluation"}),
             curve(run, "gradient norm before clipping", {"grad_norm": "norm"}, log=True),
             curve(run, "learning rate", {"learning_rate": "rate"}),
             curve(run, "tokens a second", {"tokens_per_second": "tokens/s"}),
             curve(run, "slowest rank over the median of all", {"slowest_ratio": "ratio"}),
             curve(run, "communication that nothing hides, share of a step", {"exposed_communication": "share"}),
             curve(run, "busiest expert over the mean", {"expert_imbalance": "ratio"})]
    drawn = [svg for svg in drawn if svg]
    if not drawn:
        return hint("No step was logged.")
    is_resumed = any("resumed_step" in line for line in run.metrics())
    return ('<div class="pair">' + "".join(drawn) + "</div>"
            + (hint("Dotted lines: where the run was resumed.") if is_resumed else ""))


def mesh(run: Run) -> str:
    parallel = run.config["parallel"] if run.config.has_section("parallel") else {}
    sizes = {axis: int(parallel.get(f"{axis}_size", "1")) for axis in AXES}
    used = [axis for axis in AXES if sizes[axis] > 1]
    count = math.prod(sizes.values())
    words = f"<p>{' x '.join(f'{axis} {sizes[axis]}' for axis in used) or 'one rank'}{f': {count} ranks' if used else ''}.</p>"
    if not used:
        return words
    if count > MAX_RANKS_DRAWN:
        return words + hint(f"{count} ranks are too many to draw.")
    last = (step_lines(run) or [{}])[-1]
    inner = used[-2:] if count // math.prod(sizes[axis] for axis in used[-2:]) > 1 or len(used) > 1 else used
    if len(used) == 2 and sizes[used[0]] > 4:
        inner = used[-1:]
    columns = math.prod(sizes[axis] for axis in inner)
    outer = [axis for axis in used if axis not in inner]
    if not outer and columns > 16:  # one axis: broken into lines
        columns = 16
    cell, left = 46, 26 + 8 * max([len(f"{axis} {sizes[axis] - 1}, ") for axis in outer] or [0]) * len(outer)
    rows = -(-count // columns)

    def place(rank: int) -> dict[str, int]:
        coordinates = {}
        for axis in reversed(AXES):
            coordinates[axis], rank = rank % sizes[axis], rank // sizes[axis]
        return coordinates

    parts = []
    for rank in range(count):
        at = place(rank)
        x, y = left + (rank % columns) * cell, 8 + (rank // columns) * cell
        reader = 0
        for axis in DATA_AXES:
            reader = reader * sizes[axis] + at[axis]
        name = ", ".join(f"{axis} {at[axis]}" for axis in used)
        parts.append(f'<g class="rank"><title>rank {rank}: {name}</title><rect x="{x}" y="{y}" width="{cell - 5}" '
                     f'height="{cell - 5}" rx="4" fill="{CELL_FILLS[reader % len(CELL_FILLS)]}"/>'
                     f'<text x="{x + (cell - 5) / 2}" y="{y + 26}" text-anchor="middle" font-size="13">{rank}</text></g>')
        if rank == last.get("slowest_rank"):
            parts.append(f'<rect class="mark" x="{x + 1.5}" y="{y + 1.5}" width="{cell - 8}" height="{cell - 8}" rx="3"/>')
        if rank == last.get("fullest_rank", last.get("peak_memory_rank")):
            parts.append(f'<rect class="mark" stroke-dasharray="4 3" x="{x + 5}" y="{y + 5}" width="{cell - 15}" '
                         f'height="{cell - 15}" rx="2"/>')
        if rank % columns == 0 and outer:
            parts.append(f'<text x="{left - 10}" y="{y + 26}" text-anchor="end" font-size="12">'
                         + ", ".join(f"{axis} {at[axis]}" for axis in outer) + "</text>")
    width, height = left + columns * cell + 8, rows * cell + 16
    parts.insert(0, f'<svg role="img" aria-label="mesh of ranks" viewBox="0 0 {width} {height}" width="{width}" '
                    f'height="{height}">')
    across = " then ".join(inner)
    said = [f"Across: {across}. One colour: ranks that read the same rows."]
    if "slowest_rank" in last:
        said.append(f"Framed: rank {last['slowest_rank']}, the slowest of the last logged steps "
                    f"({last['slowest_ratio']:.2f} x the median).")
    if "fullest_rank" in last:
        said.append(f"Dashed: rank {last['fullest_rank']}, the fullest.")
    return words + '<div class="scroll">' + "".join(parts) + "</svg></div>" + hint(" ".join(said))


def planned(run: Run, programs: Path | None) -> tuple[dict[str, Any], str]:
    """The dry run's JSON; or, empty, why there is none."""
    sft = program("sft", programs)
    if sft is None:
        return {}, "The program sft was not found (--programs FOLDER), so its plan is not shown."
    ranks = math.prod(int(run.config["parallel"].get(f"{axis}_size", "1")) for axis in AXES)
    command = [sft, run.output_dir / "resolved.ini", "--dry-run", "--json", "--num_ranks", str(ranks)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout), ""
    return {}, "The plan could not be made: " + (done.stderr.strip().splitlines() or ["no word why"])[-1]


def memory(run: Run, programs: Path | None) -> str:
    plan, why = planned(run, programs)
    steps = [line for line in step_lines(run) if "peak_memory_bytes_max" in line]
    rows: list[tuple[Any, ...]] = []
    drawn = hint(why) if why else ""
    peak = steps[-1]["peak_memory_bytes_max"] if steps else 0
    if plan:
        parts = {label: entry["most_bytes"] for label, entry in plan["memory_per_rank"].items()}
        total = parts.pop("total")
        figure, axes = plt.subplots(figsize=(6.2, 0.27 * len(parts) + 1.2))
        shown = {label: size for label, size in parts.items() if size > 0}
        left = 0.0
        unit = 2**30 if total >= 2**30 else 2**20
        for color, (label, size) in zip(COLORS * 2, shown.items()):
            axes.barh(label, size / unit, left=left / unit, color=color, height=0.7)
            left += size
        if peak:
            axes.axvline(peak / unit, color="#d9534f", linewidth=1.4)
            axes.text(peak / unit, -1.0, "measured", color="#d9534f", ha="center", fontsize=8)
        axes.invert_yaxis()
        axes.grid(axis="y")
        axes.set_xlabel(f"{'GiB' if unit == 2**30 else 'MiB'} on the fullest rank, added up")
        drawn = svg_of(figure, "planned memory")
        rows = [(label, bytes_text(size)) for label, size in parts.items()] + [("planned", bytes_text(total))]
        if peak:
            rows.append(("measured peak", f"{bytes_text(peak)}, {100 * peak / total:.1f} % of the plan"))
    elif peak:
        rows.append(("measured peak", bytes_text(peak)))
    if steps:
        last = steps[-1]
        rows.append(("least and mean of the ranks", f"{bytes_text(last['peak_memory_bytes_min'])}, "
                                                    f"{bytes_text(last['peak_memory_bytes_mean'])}"))
        if "fullest_rank" in last:
            limit = last["fullest_memory_limit_bytes"]
            rows.append((f"there, at rank {last['fullest_rank']}", f"{bytes_text(last['fullest_memory_bytes'])} of "
                         f"{bytes_text(limit)} in use, {100 * last['fullest_memory_bytes'] / limit:.1f} %"))
    text = f'<div class="pair"><div>{drawn}</div><div>{table(rows)}</div></div>'
    if sent := plan.get("sent_bytes_per_step"):
        text += "<h3>Sent by a rank in a step of full rows</h3>" + table(
            [(group, bytes_text(size)) for group, size in sent.items()])
    return text


def timeline(run: Run) -> str:
    path = run.output_dir / "trace.json"
    if not path.is_file():
        return hint("No step was profiled: train.profile_steps = 5-6 writes a timeline.")
    trace = json.loads(path.read_text(encoding="utf-8"))
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"]
             if event["ph"] == "M" and event["name"] == "thread_name" and event["pid"] == 0}
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 0]
    if not spans:
        return hint("The timeline is empty.")
    begin, end = min(event["ts"] for event in spans), max(event["ts"] + event["dur"] for event in spans)
    # Outer spans first, so that what lies within them is drawn above.
    order = ["step", "micro-batch", "unit", "model", "data", "checkpoint", "evaluation", "collective", "wait"]
    categories = sorted({event.get("cat", "") for event in spans},
                        key=lambda name: (order.index(name) if name in order else 3, name))
    rows = [tid for tid in sorted(names) if any(event["tid"] == tid for event in spans)]
    figure, axes = plt.subplots(figsize=(11, 0.44 * len(rows) + 0.9))
    for color, category in zip(COLORS * 2, categories):
        for row, tid in enumerate(rows):
            bars = [((event["ts"] - begin) / 1e3, max(event["dur"], (end - begin) / 4000) / 1e3) for event in spans
                    if event["tid"] == tid and event.get("cat", "") == category]
            height = 0.8 if category == "step" else 0.56
            axes.broken_barh(bars, (row - height / 2, height), facecolors=color, edgecolors=PAPER, linewidth=0.4)
    axes.set_yticks(range(len(rows)), [names[tid] for tid in rows])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("ms")
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color, _ in zip(COLORS * 2, categories)]
    axes.legend(handles, categories, fontsize=8, ncol=len(categories), loc="lower left", bbox_to_anchor=(0, 1))
    waits: dict[str, float] = {}
    for event in spans:
        if event.get("cat") == "wait" and names.get(event["tid"]) == "compute":
            kind = event["name"][event["name"].index("wait for"):]
            waits[kind] = waits.get(kind, 0.0) + event["dur"]
    steps = [event for event in spans if event["name"].startswith("step ")]
    whole = sum(event["dur"] for event in steps)
    text = (f"<p>{escaped(trace.get('otherData', {}).get('description', ''))}; rank 0 is shown.</p>"
            f'<div class="scroll wide">{svg_of(figure, "timeline of rank 0")}</div>')
    if waits and whole:
        text += "<h3>What its compute waited for</h3>" + table(
            [(kind, f"{time_us / 1e3 / len(steps):.2f} ms", f"{100 * time_us / whole:.1f} %")
             for kind, time_us in sorted(waits.items(), key=lambda item: -item[1])], ("", "a step", "of its time"))
    return text + hint(f"All ranks and the names of all spans: open {path.name} in Perfetto or chrome://tracing.")


def goodput(run: Run) -> str:
    noted = [line for line in run.metrics() if "goodput" in line]
    if not noted:
        return hint("The run noted no times.")
    last = noted[-1]
    total = last["run_time_s"]
    if total <= 0:
        return hint("The run noted no times.")
    parts = {"useful steps": last["useful_time_s"], "saves": last["save_time_s"], "evaluations": last["eval_time_s"],
             "starts and time between": last["restart_time_s"], "repeated steps": last["repeated_time_s"]}
    parts["other"] = max(0.0, total - sum(parts.values()))
    colors = (COLORS[2], COLORS[0], COLORS[3], COLORS[1], COLORS[4], COLORS[5])
    figure, axes = plt.subplots(figsize=(11, 0.5))
    left = 0.0
    for color, (label, seconds) in zip(colors, parts.items()):
        axes.barh(0, seconds / total, left=left, color=color, label=label)
        left += seconds / total
    axes.set_xlim(0, 1)
    axes.axis("off")
    axes.legend(fontsize=8, ncol=len(parts), loc="lower left", bbox_to_anchor=(0, 1))
    rows = [(label, duration(seconds), f"{100 * seconds / total:.1f} %") for label, seconds in parts.items()]
    rows += [("since the first start, to the last logged step", duration(total), ""), ("restarts", str(last["restarts"]), ""),
             ("steps repeated", str(last["repeated_steps"]), "")]
    return f'<div class="scroll wide">{svg_of(figure, "what the time went to")}</div>' + table(rows)


def is_byte(run: Run) -> bool:
    """Whether the run's tokens are bytes: a model folder has no file that says so."""
    with run.checkpoint() as checkpoint:
        return checkpoint.attributes.get("tokenizer") == "byte"


def samples(run: Run, prompts: list[str], programs: Path | None, chat: bool) -> str:
    if not prompts:
        return hint("No prompt was given: --prompt TEXT or --prompts FILE shows texts of the model before and after.")
    generate = program("sft-generate", programs)
    if generate is None:
        return hint("The program sft-generate was not found (--programs FOLDER).")
    before = run.config["model"].get("model_name_or_path", "") if run.config.has_section("model") else ""
    models = ([("before", before)] if before and before != "none" else []) + [("after", str(run.output_dir))]
    byte = ["--tokenizer", "byte"] if run.checkpoints() and is_byte(run) else []
    parts = [] if len(models) == 2 else [hint("The run began with random weights, so there is no text before it.")]
    for prompt in prompts:
        cells = []
        for label, model in models:
            command = [generate, model, "--prompt", prompt, *byte] + (["--chat"] if chat else [])
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            text = done.stdout if done.returncode == 0 else done.stderr
            cells.append(f"<div>{label}<pre>{escaped(text.strip())}</pre></div>")
        parts.append(f"<h3>{escaped(prompt)}</h3>" + '<div class="pair">' + "".join(cells) + "</div>")
    return "".join(parts)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, as far as they are whole."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def lineage(run: Run) -> str:
    starts = lines_of(run.output_dir / "starts.jsonl")
    text = ""
    if starts:
        own = starts[-1].get("run_id")
        text += "<h3>Starts</h3>" + table(
            [(time_text(line["time"]), f"step {line['step']}", "" if line.get("run_id") == own else f"run {line['run_id']}")
             for line in starts], ("when", "from", ""))
    if ends := lines_of(run.output_dir / "restarts.jsonl"):
        text += "<h3>Restarts by sft-run</h3>" + table(
            [(time_text(line["time"]), f"step {line.get('step')}", f"status {line.get('status')}", line.get("node") or "")
             for line in ends], ("when", "after", "ended with", "without node"))
    folders = run.checkpoints()
    if not folders:
        return text + hint("No checkpoint is left.")
    with run.checkpoint() as checkpoint:
        newest = checkpoint.attributes
    text += "<h3>Run</h3>" + table([("id", newest.get("run_id", ""))])
    if ancestors := [line.split() for line in str(newest.get("ancestors", "")).splitlines()]:
        text += "<h3>It goes on from</h3>" + table([(run_id, int(step)) for run_id, step in ancestors], ("run", "step"))
    if origin := newest.get("frozen_origin"):
        text += "<h3>The frozen weights are those of</h3>" + table([("", origin)])
    if writers := [line.split(" ", 4) for line in str(newest.get("writers", "")).splitlines()]:
        text += "<h3>Who trained it</h3>" + table(
            [(int(words[0]), words[1][:8], words[2], words[4] if len(words) > 4 else "") for words in writers],
            ("from step", "run", "sft", "mesh"))
    rows = []
    for folder in folders:
        with run.checkpoint(int(folder.name.rsplit("-", 1)[1])) as checkpoint:
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            rows.append((folder.name, checkpoint.attributes["date"][:19].replace("T", " "), bytes_text(size)))
    return text + "<h3>Checkpoints that are left</h3>" + table(rows, ("folder", "written, UTC", "size"))


def program(name: str, folder: Path | None) -> str | None:
    """Where the program lies: in the folder, next to this script's folder, or on PATH."""
    places = [folder / name] if folder else [Path(__file__).resolve().parent.parent / name]
    return next((str(place) for place in places if place.is_file()), None if folder else shutil.which(name))


def report(run: Run, prompts: list[str], programs: Path | None, chat: bool) -> str:
    sections = [("Run", overview(run)), ("Curves", curves(run)), ("Mesh", mesh(run)),
                ("Memory and traffic", memory(run, programs)), ("Timeline", timeline(run)),
                ("Texts", samples(run, prompts, programs, chat)), ("Goodput", goodput(run)), ("Lineage", lineage(run))]
    ini = (run.output_dir / "resolved.ini").read_text(encoding="utf-8")
    sections.append(("Configuration", f"<details><summary>resolved.ini</summary><pre>{escaped(ini)}</pre></details>"))
    return page(run.output_dir.resolve().name, state_of(run), sections)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="output_dir of the run")
    parser.add_argument("-o", "--output", type=Path, help="the file to write; without it report.html in the folder")
    parser.add_argument("--prompt", action="append", default=[], help="a text that the model continues; repeatable")
    parser.add_argument("--prompts", type=Path, help="a file of prompts, a line each")
    parser.add_argument("--chat", action="store_true", help="prompts are messages of a user")
    parser.add_argument("--programs", type=Path, help="folder of sft and sft-generate")
    options = parser.parse_args()
    missing = [name for name in ("metrics.jsonl", "resolved.ini") if not (options.run / name).is_file()]
    if missing:
        sys.exit(f"report.py: error: {options.run} is no output_dir of a run (it holds no {missing[0]}): give the "
                 "folder that train.output_dir names")
    prompts = list(options.prompt)
    if options.prompts:
        prompts += [line for line in options.prompts.read_text(encoding="utf-8").splitlines() if line.strip()]
    output = options.output or options.run / "report.html"
    output.write_text(report(Run(options.run), prompts, options.programs, options.chat), encoding="utf-8")
    print(f"wrote {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
