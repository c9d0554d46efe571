#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the rows of Parquet and Arrow files as JSON lines, for sft-prepare.

  parquet_to_jsonl.py INPUT [INPUT ...] [--output FILE.jsonl] [--columns a,b,c] [--leave_out d,e]
  parquet_to_jsonl.py INPUT [INPUT ...] --output_folder FOLDER [...]

An input is a Parquet file, an Arrow file (streams and files of Arrow IPC, Feather), a glob of them, a folder of Parquet
files, or one that save_to_disk of `datasets` left. Text of a JSON column is decoded at any depth. An object that names the
reason stands for a value that JSON has no form for, such as bytes, with a warning. Rows are written to standard output unless --output is
given, so that they can be piped: `... | sft-prepare --input - ...`. Some thousand rows are read at a time.

sft-prepare calls it with --output_folder: each file becomes one of JSON lines there, 00000.jsonl and so on; the file
`sources` names the inputs in the same order, one a line in JSON, and an error goes to the file `error`.
Needs pyarrow: pip install pyarrow
"""
import argparse
import contextlib
import ctypes
import glob
import json
import os
import signal
import sys

from table_values import JsonError, row_writer, without_form


def files_of(path):
    """The files of an input: of a folder that save_to_disk of `datasets` left those that its state.json names, in order, of
    another its *.parquet."""
    if os.path.isdir(path):
        return files_in_folder(path)
    if os.path.exists(path):  # a name may hold brackets
        return [path]
    if not glob.has_magic(path):
        return [path]
    found = sorted(glob.glob(path))
    if not found:
        raise ValueError(f"no file matches {path}")
    return found


def files_in_folder(path):
    if os.path.exists(os.path.join(path, "dataset_dict.json")):
        with open(os.path.join(path, "dataset_dict.json"), encoding="utf-8") as file:
            splits = json.load(file)["splits"]
        names = ", ".join(os.path.join(path, split) for split in splits)
        raise ValueError(f"{path} holds several splits: give one of {names}")
    if os.path.exists(os.path.join(path, "state.json")):
        with open(os.path.join(path, "state.json"), encoding="utf-8") as file:
            state = json.load(file)
        if state.get("_indices_data_files"):
            raise ValueError(f"{path} has an order of its own beside its rows: call flatten_indices() before save_to_disk")
        found = [os.path.join(path, data["filename"]) for data in state["_data_files"]]
    else:
        found = sorted(glob.glob(os.path.join(glob.escape(path), "*.parquet")))
    if not found:
        raise ValueError(f"{path} holds no Parquet file")
    return found


@contextlib.contextmanager
def opened(path):
    """The schema of a file, the leaf columns of Parquet that are JSON, and a function of the names of the columns to read
    that gives some thousand rows at a time. A Parquet file is known by its first bytes, whatever its name."""
    with open(path, "rb") as file:
        start = file.read(6)
    if start.startswith(b"PAR1"):
        import pyarrow.parquet as parquet

        with parquet.ParquetFile(path) as file:
            leaves = [file.schema.column(i) for i in range(len(file.schema.names))]
            json_leaves = [leaf.logical_type.type == "JSON" or leaf.converted_type == "JSON" for leaf in leaves]
            yield file.schema_arrow, json_leaves, lambda names: file.iter_batches(batch_size=2048, columns=names)
        return
    if start.startswith(b"FEA1"):
        raise ValueError(f"{path} is a Feather file of version 1: write it as Parquet with the program that made it")
    import pyarrow

    with pyarrow.memory_map(path) as source:
        if start == b"ARROW1":
            with pyarrow.ipc.open_file(source) as reader:
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
                yield reader.schema, None, lambda names: (batch.select(names) for batch in batches)
        else:
            with pyarrow.ipc.open_stream(source) as reader:
                yield reader.schema, None, lambda names: (batch.select(names) for batch in reader)


def chosen_columns(path, known, columns, left_out):
    missing = [name for name in columns or [] if name not in known]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]} (it has {', '.join(known)})")
    return [name for name in columns or known if name not in left_out]


def warn(text):
    print(f"warning: {text}", file=sys.stderr)


def rows_of(batch, path, num_rows, warned):
    """The rows of a batch as dicts. Values that Python cannot hold, such as dates after the year 9999, are warned of once a
    column, and an object that names the reason stands for them."""
    try:
        return batch.to_pylist()
    except Exception:  # pylint: disable=broad-except  # pyarrow raises many kinds
        pass
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns):
        values = columns[name] = []
        for i, scalar in enumerate(column):
            try:
                values.append(scalar.as_py())
            except Exception as error:  # pylint: disable=broad-except
                values.append(without_form(str(error)))
                if name not in warned:
                    warn(f"{path}, row {num_rows + i + 1}, column {name} cannot be read ({error})")
                    warned.add(name)
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def write_file(path, columns, left_out, out):
    """The rows of one file, a line each."""
    with opened(path) as (schema, json_leaves, batches_of):
        doubled = {name for name in schema.names if schema.names.count(name) > 1}
        if doubled:
            raise ValueError(f"{path} has two columns {min(doubled)}")
        names = chosen_columns(path, schema.names, columns, left_out)
        writer = row_writer(schema, json_leaves, names)
        for field, kind in writer.formless:
            warn(f"{path}: column {field} has values of type {kind}, which has no form in JSON")
        num_rows, warned = 0, set()
        for batch in batches_of(writer.names):
            for row in rows_of(batch, path, num_rows, warned):
                num_rows += 1
                try:
                    out.write(writer.line(row) + "\n")
                except JsonError as error:
                    raise ValueError(f"{path}, row {num_rows}, {error}") from error


def write_to_folder(files, columns, left_out, folder):
    for i, path in enumerate(files):
        with open(os.path.join(folder, f"{i:05}.jsonl"), "w", encoding="utf-8") as out:
            write_file(path, columns, left_out, out)
    with open(os.path.join(folder, "sources"), "w", encoding="utf-8") as out:
        out.writelines(json.dumps(path) + "\n" for path in files)


def write_to_file(files, columns, left_out, path):
    part = path + ".tmp"
    try:
        with open(part, "w", encoding="utf-8") as out:
            for file in files:
                write_file(file, columns, left_out, out)
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def run(options):
    columns = [name for name in options.columns.split(",") if name] or None
    left_out = options.leave_out.split(",")
    files = [file for given in options.files for file in files_of(given)]
    if options.output_folder:
        write_to_folder(files, columns, left_out, options.output_folder)
    elif options.output != "-":
        write_to_file(files, columns, left_out, options.output)
    else:
        for file in files:
            write_file(file, columns, left_out, sys.stdout)
        sys.stdout.flush()


def end_with_parent():
    """Ends this process when sft-prepare ends, however that ends (Linux: PR_SET_PDEATHSIG)."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent or parent == 1:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="INPUT")
    parser.add_argument("--output", default="-", metavar="FILE.jsonl")
    parser.add_argument("--output_folder", metavar="FOLDER", help="one file of JSON lines for each input file")
    parser.add_argument("--columns", default="", help="only these, with commas between")
    parser.add_argument("--leave_out", default="", metavar="COLUMNS", help="all but these, with commas between")
    options = parser.parse_args()
    if options.output_folder:
        end_with_parent()
    try:
        run(options)
        return 0
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except ImportError:
        reason = "pyarrow is missing, which reads Parquet and Arrow: pip install pyarrow"
    except Exception as error:  # pylint: disable=broad-except  # pyarrow raises many kinds
        reason = str(error) or type(error).__name__
    if options.output_folder:
        with open(os.path.join(options.output_folder, "error"), "w", encoding="utf-8") as out:
            out.write(reason)
    else:
        print(f"parquet_to_jsonl: error: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
