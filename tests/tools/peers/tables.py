#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tables with the libraries that people use and compares the JSON lines made of them with the rows written.

    tests/tools/peers/tables.py

Tables are Parquet files of `datasets`, DuckDB, fastparquet, polars and pyarrow, both forms of Arrow files, Feather, and
folders of save_to_disk. Their columns hold JSON at several depths, maps, times, values that JSON has no form for, and
NaN. Needs Python with pyarrow; a library that is missing is left out, with a line that says so.
"""
import datetime
import decimal
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import pyarrow
import pyarrow.feather
import pyarrow.parquet

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "postprocess" / "parquet_to_jsonl.py"

CHATS = [
    {"messages": [{"role": "user", "content": "Say\nHi"}, {"role": "assistant", "content": "Yo"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "look"}]}, {"role": "assistant", "content": "Yo"}]},
]
PAIRS = [
    {"prompt": "q", "completion": "a"},
    {"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]},
]


def tool(name, properties, arguments):
    return {
        "tools": [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}],
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]},
        ],
    }


TOOLS = [tool("f", {"city": {"type": "string"}}, {"city": "Bern"}), tool("g", {"n": {"type": "integer"}}, {"n": 5})]
SETS = {"chats": CHATS, "pairs": PAIRS, "tools": TOOLS}


def without_nulls(value):
    """DuckDB joins objects of different keys into one type, whose missing keys are null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def lines_of(path, *options):
    run = subprocess.run([sys.executable, SCRIPT, path, *options], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return run.stderr.strip()
    return [json.loads(line) for line in run.stdout.splitlines()]


class Comparison:
    def __init__(self):
        self.num_wrong = 0

    def same(self, name, found, expected):
        if found == expected:
            print(f"ok    {name}")
        else:
            self.num_wrong += 1
            print(f"WRONG {name}\n      found    {found}\n      expected {expected}")


def of_libraries(compare):
    for name, rows in SETS.items():
        pathlib.Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        for library, write in (("datasets", datasets_writes), ("duckdb", duckdb_writes), ("fastparquet", fastparquet_writes)):
            try:
                importlib.import_module(library)
            except ImportError:
                print(f"left out: {library} is not installed")
                continue
            for path in write(name, rows):
                compare.same(path, without_nulls(lines_of(path)), rows)


def datasets_writes(name, _rows):
    import datasets

    datasets.disable_progress_bars()
    records = datasets.load_dataset("json", data_files=f"{name}.jsonl", split="train", cache_dir="cache")
    records.to_parquet(f"{name}.datasets.parquet")
    records.save_to_disk(f"{name}.saved")
    return [f"{name}.datasets.parquet", f"{name}.saved"]


def duckdb_writes(name, _rows):
    import duckdb

    duckdb.connect().execute(f"copy (from read_json('{name}.jsonl')) to '{name}.duckdb.parquet'")
    return [f"{name}.duckdb.parquet"]


def fastparquet_writes(name, rows):
    import fastparquet
    import pandas

    fastparquet.write(f"{name}.fastparquet.parquet", pandas.DataFrame(rows), object_encoding="json")
    return [f"{name}.fastparquet.parquet"]


def formless(kind):
    return {"no form in JSON": kind}


def of_arrow(compare):
    text = pyarrow.string()
    table = pyarrow.table({
        "prompt": pyarrow.array(["q", "r"], pyarrow.large_string()),
        "completion": pyarrow.array(["a", "b"]).dictionary_encode(),
        "score": pyarrow.array([float("inf"), 0.5]),
        "half": pyarrow.array([numpy.float16(1.5), None], pyarrow.float16()),
        "big": pyarrow.array([2**64 - 1, 2**53 + 1], pyarrow.uint64()),
        "day": pyarrow.array([datetime.date(2026, 11, 28)] * 2),
        "price": pyarrow.array([decimal.Decimal("1.50")] * 2),
        "raw": pyarrow.array([b"\xff", None]),
        "took": pyarrow.array([datetime.timedelta(seconds=3)] * 2),
        "images": pyarrow.array([[{"bytes": b"x", "path": "p"}], None]),
        "tags": pyarrow.array([[("k", [b"v"])], []], pyarrow.map_(text, pyarrow.list_(pyarrow.binary()))),
        "names": pyarrow.array([[("k", "v")], None], pyarrow.map_(text, text)),
        "ranks": pyarrow.array([[(1, "v")], []], pyarrow.map_(pyarrow.int64(), text)),
        "nothing": pyarrow.nulls(2),
        "args": pyarrow.array(['{"n": 12345678901234567890123}', None]),
    })
    as_json = table.schema.field("args").with_metadata({"ARROW:extension:name": "arrow.json", "ARROW:extension:metadata": ""})
    table = table.cast(table.schema.set(table.schema.get_field_index("args"), as_json))
    rows = [
        {"prompt": "q", "completion": "a", "score": float("inf"), "half": 1.5, "big": 2**64 - 1, "day": "2026-11-28", "price": "1.50",
         "raw": formless("binary"), "took": formless("duration[us]"), "images": [{"bytes": formless("binary"), "path": "p"}],
         "tags": {"k": [formless("binary")]}, "names": {"k": "v"}, "ranks": [[1, "v"]], "nothing": None, "args": {"n": 12345678901234567890123}},
        {"prompt": "r", "completion": "b", "score": 0.5, "half": None, "big": 2**53 + 1, "day": "2026-11-28", "price": "1.50",
         "raw": None, "took": formless("duration[us]"), "images": None, "tags": {}, "names": None, "ranks": [], "nothing": None, "args": None},
    ]
    pyarrow.parquet.write_table(table, "types.parquet")
    with pyarrow.OSFile("file.arrow", "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pyarrow.OSFile("stream.arrow", "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    pyarrow.feather.write_feather(table, "table.feather")
    for path in ("types.parquet", "file.arrow", "stream.arrow", "table.feather"):
        compare.same(path, lines_of(path), rows)
    compare.same("left out", lines_of("types.parquet", "--columns", "prompt,args", "--leave_out", "args"), [{"prompt": "q"}, {"prompt": "r"}])
    far = pyarrow.table({"text": ["a", "b"], "day": pyarrow.array([0, 10**8], pyarrow.date32())})
    pyarrow.parquet.write_table(far, "far.parquet")
    found = lines_of("far.parquet")
    compare.same("a day that Python does not know", [found[0], found[1]["text"], list(found[1]["day"])],
                 [{"text": "a", "day": "1970-01-01"}, "b", ["no form in JSON"]])
    bad = pyarrow.table({"args": ["{}", "no JSON"]}, schema=pyarrow.schema([as_json.with_name("args")]))
    pyarrow.parquet.write_table(bad, "bad.parquet")
    found = lines_of("bad.parquet")
    compare.same("the place of an error", "bad.parquet, row 2, column args: its type is JSON" in str(found), True)


def main():
    compare = Comparison()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        of_libraries(compare)
        of_arrow(compare)
        os.chdir("/")
    print(f"pyarrow {pyarrow.__version__}: {compare.num_wrong} wrong")
    return compare.num_wrong != 0


if __name__ == "__main__":
    sys.exit(main())
