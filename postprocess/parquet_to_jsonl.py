#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the rows of Parquet and Arrow files as JSON lines, for sft-prepare.

  parquet_to_jsonl.py INPUT [INPUT ...] [--output FILE.jsonl] [--columns a,b,c]

An input is a .parquet or .arrow file, a glob of them, a folder of Parquet files, or one that save_to_disk of `datasets` left.
sft-prepare calls it for such inputs. Writes to standard output unless --output is given, so that it can be piped: `... | sft-prepare --input - ...`. Reads some
thousand rows at a time. Needs pyarrow: pip install pyarrow
"""
import argparse
import datetime
import decimal
import glob
import json
import os
import sys


def plain(value):
    """What JSON has no type for."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON: leave its column out with --columns")


def files_of(path):
    """The files of an input: of a folder that save_to_disk of `datasets` left those that its state.json names, in order, of
    another its *.parquet."""
    if glob.has_magic(path):
        found = sorted(glob.glob(path))
    elif not os.path.isdir(path):
        return [path]
    elif os.path.exists(os.path.join(path, "dataset_dict.json")):
        with open(os.path.join(path, "dataset_dict.json"), encoding="utf-8") as file:
            splits = json.load(file)["splits"]
        names = ", ".join(os.path.join(path, split) for split in splits)
        raise ValueError(f"{path} holds several splits: give one of {names}")
    elif os.path.exists(os.path.join(path, "state.json")):
        with open(os.path.join(path, "state.json"), encoding="utf-8") as file:
            state = json.load(file)
        if state.get("_indices_data_files"):
            raise ValueError(f"{path} has an order of its own beside its rows: call flatten_indices() before save_to_disk")
        found = [os.path.join(path, data["filename"]) for data in state["_data_files"]]
    else:
        found = sorted(glob.glob(os.path.join(glob.escape(path), "*.parquet")))
    if not found:
        raise ValueError(f"no file matches {path}")
    return found


def batches_of(path, columns):
    """Some thousand rows at a time, as tables of pyarrow."""
    if path.endswith(".arrow"):
        import pyarrow

        with pyarrow.memory_map(path) as source:
            with pyarrow.ipc.open_stream(source) as reader:
                check_columns(path, columns, reader.schema.names)
                for batch in reader:
                    yield batch.select(columns) if columns else batch
        return
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        check_columns(path, columns, file.schema_arrow.names)
        yield from file.iter_batches(batch_size=2048, columns=columns)


def check_columns(path, columns, known):
    missing = [name for name in columns or [] if name not in known]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]} (it has {', '.join(known)})")


def write(inputs, columns, out):
    for path in [file for given in inputs for file in files_of(given)]:
        for batch in batches_of(path, columns):
            for row in batch.to_pylist():
                out.write(json.dumps(row, ensure_ascii=False, allow_nan=False, default=plain) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="INPUT")
    parser.add_argument("--output", default="-", metavar="FILE.jsonl")
    parser.add_argument("--columns", default="", help="only these, with commas between")
    options = parser.parse_args()
    columns = [name for name in options.columns.split(",") if name] or None
    try:
        if options.output == "-":
            write(options.files, columns, sys.stdout)
            sys.stdout.flush()
            return 0
        part = options.output + ".tmp"
        try:
            with open(part, "w", encoding="utf-8") as out:
                write(options.files, columns, out)
            os.replace(part, options.output)
        finally:
            if os.path.exists(part):
                os.remove(part)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except ImportError:
        print("parquet_to_jsonl: error: pyarrow is missing (it reads Parquet): pip install pyarrow", file=sys.stderr)
        return 1
    except (OSError, TypeError, ValueError) as error:  # pyarrow's errors are among these
        print(f"parquet_to_jsonl: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
