#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes one HTML file about a run that a browser shows without a network: curves, mesh, planned memory, timeline of the
profiled steps, texts of the model before and after, what the run's time went to, and which runs its checkpoints come
from.

    postprocess/report.py output/run -o report.html
    postprocess/report.py output/run --prompt "2 + 3 =" --prompts questions.txt -o report.html

Memory comes from `sft resolved.ini --dry-run --json`, texts from `sft-generate`: without these programs (--programs) the
report leaves them out and says so. Needs numpy, h5py and matplotlib (Debian: python3-h5py, python3-matplotlib).
"""

from __future__ import annotations

import argparse
import html
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

try:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.fonttype": "none", "font.family": "sans-serif", "axes.spines.top": False,
                            "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3}
    import matplotlib.pyplot as plt

    from sft_run import Run
except ImportError as error:
    sys.exit(f"report.py: error: {error}: apt install python3-matplotlib python3-h5py "
             "(of another python3 than Debian's: start it as /usr/bin/python3 postprocess/report.py)")

AXES = ("dp_replicate", "pp", "dp_shard", "ep", "sp", "tp")
MAX_RANKS_DRAWN = 256
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #ddd }
table { border-collapse: collapse } td, th { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums } svg { max-width: 100%; height: auto }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem } .hint { color: #666 }
pre { background: #f6f6f4; padding: .6rem; white-space: pre-wrap; overflow-wrap: anywhere }
@media (max-width: 45rem) { .pair { grid-template-columns: 1fr } }
"""


def escaped(text: Any) -> str:
    return html.escape(str(text))


def hint(text: str) -> str:
    return f'<p class="hint">{escaped(text)}</p>'


def svg_of(figure: Any, title: str) -> str:
    """The figure as an element of the page, with a name for those who cannot see it."""
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg"):].replace("<svg", f'<svg role="img" aria-label="{escaped(title)}"', 1)


def table(rows: list[tuple[Any, ...]], head: tuple[str, ...] = ()) -> str:
    def cell(value: Any) -> str:
        is_number = isinstance(value, (int, float))
        shown = f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if is_number else escaped(value)
        return f'<td class="number">{shown}</td>' if is_number else f"<td>{shown}</td>"

    lines = ["<tr>" + "".join(f"<th>{escaped(name)}</th>" for name in head) + "</tr>"] if head else []
    lines += ["<tr>" + "".join(cell(value) for value in row) + "</tr>" for row in rows]
    return "<table>" + "\n".join(lines) + "</table>"


def bytes_text(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


# Sections: each returns HTML.


def overview(run: Run) -> str:
    lines = run.metrics()
    steps = [line for line in lines if "eval_loss" not in line]
    evaluations = [line for line in lines if "eval_loss" in line]
    rows: list[tuple[Any, ...]] = [("folder", run.output_dir.resolve())]
    if steps:
        last = steps[-1]
        rows += [("steps", f"{last['step']:,}"), ("epochs", f"{last['epoch']:.3f}"),
                 ("tokens", f"{last['num_tokens']:,}"), ("loss", f"{steps[0]['loss']:.5f} to {last['loss']:.5f}")]
    if evaluations:
        best = min(evaluations, key=lambda line: line["eval_loss"])
        rows += [("evaluated", f"{evaluations[0]['eval_loss']:.5f} to {evaluations[-1]['eval_loss']:.5f}, "
                               f"lowest {best['eval_loss']:.5f} at step {best['step']}")]
    lock = run.output_dir / "run.lock"
    words = lock.read_text(encoding="utf-8").splitlines() if lock.is_file() else []
    rows.append(("end", words[1] if len(words) > 1 else "none noted: it runs, or was killed"))
    return table(rows)


def curve(run: Run, title: str, names: dict[str, str], log: bool = False) -> str:
    """`names`: metric to label."""
    figure, axes = plt.subplots(figsize=(5.6, 3.0))
    found = False
    for name, label in names.items():
        steps, values = run.steps(name), run.metric(name)
        if len(steps) == 0 or not (values == values).any():
            continue
        found = True
        few = "o-" if len(steps) < 20 else "-"
        axes.plot(steps, values, few, label=label, markersize=3, linewidth=1.2)
    for line in run.metrics():
        if "resumed_step" in line:
            axes.axvline(line["resumed_step"], linestyle=":", color="#888", linewidth=1)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("step", fontsize=9)
    if log:
        axes.set_yscale("log")
    if len(names) > 1:
        axes.legend(fontsize=8, frameon=False)
    if found:
        return svg_of(figure, title)
    plt.close(figure)
    return ""


def curves(run: Run) -> str:
    drawn = [curve(run, "loss (nats a target token)", {"loss": "training", "eval_loss": "evaluation"}),
             curve(run, "mean token accuracy", {"mean_token_accuracy": "training",
                                                "eval_mean_token_accuracy": "evaluation"}),
             curve(run, "gradient norm", {"grad_norm": "norm"}, log=True),
             curve(run, "learning rate", {"learning_rate": "rate"}),
             curve(run, "tokens a second", {"tokens_per_second": "tokens/s"}),
             curve(run, "slowest rank over the median", {"slowest_ratio": "ratio"})]
    return ('<div class="pair">' + "".join(f"<div>{svg}</div>" for svg in drawn if svg) + "</div>"
            + hint("Dotted lines: where the run was resumed."))


def mesh(run: Run) -> str:
    parallel = run.config["parallel"] if run.config.has_section("parallel") else {}
    sizes = {axis: int(parallel.get(f"{axis}_size", "1")) for axis in AXES}
    used = [axis for axis in AXES if sizes[axis] > 1]
    count = 1
    for axis in AXES:
        count *= sizes[axis]
    words = table([(axis, sizes[axis]) for axis in used] + [("ranks", count)])
    if not used:
        return words
    if count > MAX_RANKS_DRAWN:
        return words + hint(f"{count} ranks are too many to draw.")
    # Columns: the two innermost axes in use, which lie on one node; rows: the others.
    inner = used[-2:]
    columns = 1
    for axis in inner:
        columns *= sizes[axis]
    figure, axes = plt.subplots(figsize=(0.55 * columns + 2.2, 0.42 * (count // columns) + 0.8))
    colors = plt.get_cmap("tab20").colors
    for rank in range(count):
        column, row = rank % columns, rank // columns
        group = column // sizes[inner[-1]]
        axes.add_patch(plt.Rectangle((column + 0.04, -row - 0.96), 0.92, 0.92, color=colors[2 * (group % 10) + 1]))
        axes.text(column + 0.5, -row - 0.5, str(rank), ha="center", va="center", fontsize=8)
    outer = [axis for axis in used if axis not in inner]
    for row in range(count // columns):
        rest, place = row, []
        for axis in reversed(outer):
            place.append(f"{axis} {rest % sizes[axis]}")
            rest //= sizes[axis]
        axes.text(-0.15, -row - 0.5, ", ".join(reversed(place)), ha="right", va="center", fontsize=8)
    axes.set_xlim(-0.1, columns)
    axes.set_ylim(-count // columns - 0.05, 0.1)
    axes.set_title("ranks; one colour: ranks of one " + inner[-1] + " group", loc="left", fontsize=9)
    axes.axis("off")
    return words + svg_of(figure, "mesh of ranks")


def memory(run: Run, programs: Path | None) -> str:
    sft = program("sft", programs)
    if sft is None:
        return hint("The program sft was not found (--programs FOLDER), so its plan is not shown.")
    done = subprocess.run([sft, run.output_dir / "resolved.ini", "--dry-run", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        return hint("The plan could not be made: " + done.stderr.strip().splitlines()[-1] if done.stderr else "no plan")
    plan = json.loads(done.stdout)
    parts = {label: entry["most_bytes"] for label, entry in plan["memory_per_rank"].items()}
    total = parts.pop("total")
    figure, axes = plt.subplots(figsize=(7, 0.28 * len(parts) + 0.6))
    labels = list(parts)[::-1]
    axes.barh(labels, [parts[label] / 2**20 for label in labels], color="#4c78a8")
    axes.set_xlabel("MiB on the fullest rank", fontsize=9)
    axes.tick_params(labelsize=8)
    rows = [(label, bytes_text(size)) for label, size in parts.items()] + [("total", bytes_text(total))]
    peaks = run.metric("peak_memory_bytes_max")
    if len(peaks):
        rows.append(("highest measured", f"{bytes_text(peaks[-1])}, {peaks[-1] / total:.3f} of the plan"))
    sent = plan.get("sent_bytes_per_step", {})
    rows += [(f"sent over {group} in a step", bytes_text(size)) for group, size in sent.items()]
    return f'<div class="pair"><div>{svg_of(figure, "planned memory")}</div><div>{table(rows)}</div></div>'


def timeline(run: Run) -> str:
    path = run.output_dir / "trace.json"
    if not path.is_file():
        return hint("No step was profiled: train.profile_steps = 5-6 writes a timeline.")
    trace = json.loads(path.read_text(encoding="utf-8"))
    events = trace["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events
             if event["ph"] == "M" and event["name"] == "thread_name" and event["pid"] == 0}
    spans = [event for event in events if event["ph"] == "X" and event["pid"] == 0]
    if not spans:
        return hint("The timeline is empty.")
    begin = min(event["ts"] for event in spans)
    categories = sorted({event.get("cat", "") for event in spans})
    colors = plt.get_cmap("tab10").colors
    figure, axes = plt.subplots(figsize=(11, 0.5 * len(names) + 1.0))
    for i, category in enumerate(categories):
        for row, tid in enumerate(sorted(names)):
            bars = [((event["ts"] - begin) / 1e3, max(event["dur"], 1) / 1e3) for event in spans
                    if event["tid"] == tid and event.get("cat", "") == category]
            axes.broken_barh(bars, (-row - 0.4, 0.8), color=colors[i % 10], label=category if row == 0 else None)
    axes.set_yticks([-row for row in range(len(names))], [names[tid] for tid in sorted(names)], fontsize=8)
    axes.set_xlabel("ms", fontsize=9)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colors[i % 10]) for i in range(len(categories))]
    axes.legend(handles, categories, fontsize=7, ncol=len(categories), frameon=False, loc="lower left",
                bbox_to_anchor=(0, 1))
    return (f"<p>{escaped(trace.get('otherData', {}).get('description', ''))}; rank 0 is shown.</p>"
            + svg_of(figure, "timeline of rank 0")
            + hint(f"All ranks and the names of all spans: open {path.name} in https://ui.perfetto.dev"))


def goodput(run: Run) -> str:
    noted = [line for line in run.metrics() if "goodput" in line]
    if not noted:
        return hint("The run noted no times.")
    last = noted[-1]
    total = last["run_time_s"]
    parts = {"useful steps": last["useful_time_s"], "saves": last["save_time_s"], "evaluations": last["eval_time_s"],
             "restarts and starts": last["restart_time_s"], "repeated steps": last["repeated_time_s"]}
    parts["other"] = max(0.0, total - sum(parts.values()))
    figure, axes = plt.subplots(figsize=(10, 0.7))
    left = 0.0
    for i, (label, seconds) in enumerate(parts.items()):
        axes.barh(0, seconds / total, left=left, color=plt.get_cmap("tab10").colors[i], label=label)
        left += seconds / total
    axes.axis("off")
    axes.legend(fontsize=8, ncol=len(parts), frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    rows = [(label, duration(seconds), f"{100 * seconds / total:.1f} %") for label, seconds in parts.items()]
    rows += [("since the first start", duration(total), ""), ("restarts", str(last["restarts"]), ""),
             ("steps repeated", str(last["repeated_steps"]), "")]
    return svg_of(figure, "what the time went to") + table(rows)


def samples(run: Run, prompts: list[str], programs: Path | None, chat: bool) -> str:
    if not prompts:
        return hint("No prompt was given: --prompt TEXT or --prompts FILE shows texts of the model before and after.")
    generate = program("sft-generate", programs)
    if generate is None:
        return hint("The program sft-generate was not found (--programs FOLDER).")
    before = run.config["model"].get("model_name_or_path", "") if run.config.has_section("model") else ""
    models = ([("before", before)] if before and before != "none" else []) + [("after", str(run.output_dir))]
    parts = []
    for prompt in prompts:
        cells = []
        for label, model in models:
            command = [generate, model, "--prompt", prompt] + (["--chat"] if chat else [])
            done = subprocess.run(command, capture_output=True, text=True)
            text = done.stdout if done.returncode == 0 else done.stderr
            cells.append(f"<div><b>{label}</b><pre>{escaped(text.strip())}</pre></div>")
        parts.append(f"<h3>{escaped(prompt)}</h3>" + '<div class="pair">' + "".join(cells) + "</div>")
    return "".join(parts)


def lineage(run: Run) -> str:
    folders = run.checkpoints()
    if not folders:
        return hint("No checkpoint is left.")
    with run.checkpoint() as checkpoint:
        attributes = checkpoint.attributes
        rows = [("checkpoint", checkpoint.folder.name), ("run", attributes.get("run_id", ""))]
        rows += [(name, attributes[name]) for name in ("ancestors", "writers", "date") if attributes.get(name)]
    rows.append(("kept", ", ".join(folder.name for folder in folders)))
    return "<table>" + "".join(f"<tr><td>{escaped(name)}</td><td><pre>{escaped(value)}</pre></td></tr>"
                               for name, value in rows) + "</table>"


def program(name: str, folder: Path | None) -> str | None:
    """Where the program lies: in the folder, beside this script's folder, or on PATH."""
    places = [folder / name] if folder else [Path(__file__).resolve().parent.parent / name]
    return next((str(place) for place in places if place.is_file()), None if folder else shutil.which(name))


def page(run: Run, prompts: list[str], programs: Path | None, chat: bool) -> str:
    sections = [("Run", overview(run)), ("Curves", curves(run)), ("Mesh", mesh(run)),
                ("Memory and traffic, as planned", memory(run, programs)), ("Timeline", timeline(run)),
                ("Texts", samples(run, prompts, programs, chat)), ("Goodput", goodput(run)),
                ("Lineage", lineage(run))]
    ini = (run.output_dir / "resolved.ini").read_text(encoding="utf-8")
    sections.append(("Configuration", f"<details><summary>resolved.ini</summary><pre>{escaped(ini)}</pre></details>"))
    name = escaped(run.output_dir.resolve().name)
    body = "".join(f"<section><h2>{escaped(title)}</h2>{text}</section>" for title, text in sections)
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
            f"<body><h1>{name}</h1>{body}</body></html>\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="output_dir of the run")
    parser.add_argument("-o", "--output", type=Path, help="the file to write; without it report.html in the folder")
    parser.add_argument("--prompt", action="append", default=[], help="a text that the model continues; repeatable")
    parser.add_argument("--prompts", type=Path, help="a file of prompts, a line each")
    parser.add_argument("--chat", action="store_true", help="prompts are messages of a user")
    parser.add_argument("--programs", type=Path, help="folder of sft and sft-generate")
    options = parser.parse_args()
    if not (options.run / "metrics.jsonl").is_file():
        sys.exit(f"report.py: error: {options.run} is no output_dir of a run (it holds no metrics.jsonl): give the "
                 "folder that train.output_dir names")
    prompts = list(options.prompt)
    if options.prompts:
        prompts += [line for line in options.prompts.read_text(encoding="utf-8").splitlines() if line.strip()]
    output = options.output or options.run / "report.html"
    output.write_text(page(Run(options.run), prompts, options.programs, options.chat), encoding="utf-8")
    print(f"wrote {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
