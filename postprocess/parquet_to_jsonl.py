#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the rows of Parquet files as JSON lines, for sft-prepare.

  parquet_to_jsonl.py FILE.parquet [FILE.parquet ...] [--output FILE.jsonl] [--columns a,b,c]

Writes to standard output unless --output is given, so that it can be piped: `... | sft-prepare --input - ...`. Reads some
thousand rows at a time. Needs pyarrow: pip install pyarrow
"""
import argparse
import datetime
import decimal
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


def write(paths, columns, out):
    import pyarrow.parquet as parquet

    for path in paths:
        with parquet.ParquetFile(path) as file:
            known = file.schema_arrow.names
            missing = [name for name in columns or [] if name not in known]
            if missing:
                raise ValueError(f"{path} has no column {missing[0]} (it has {', '.join(known)})")
            for batch in file.iter_batches(batch_size=2048, columns=columns):
                for row in batch.to_pylist():
                    out.write(json.dumps(row, ensure_ascii=False, allow_nan=False, default=plain) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.parquet")
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
