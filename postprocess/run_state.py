# SPDX-License-Identifier: Apache-2.0
"""Whether a run still goes on, and how it ended, from its run.lock. Needs the standard library alone."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import socket
import struct
import time
from pathlib import Path

OFD_GETLK = 36  # Linux: F_OFD_GETLK, the lock of an open file


@dataclasses.dataclass
class RunState:
    """state: running, finished, stopped (saved after a signal), failed, lost (killed without a word) or never_started."""

    state: str
    text: str  # one line for people
    end_time_s: float | None = None  # since 1970; None while it runs, or where it is not known


def is_locked(path: Path) -> bool | None:
    """Whether a process holds the record lock on the file, which is not taken; None where the file system has no locks."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            answer = fcntl.fcntl(file, OFD_GETLK, asked)
        except OSError:
            return None
        return struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK


def read_lock(output: Path) -> tuple[str, str]:
    """The line of run.lock that names the holder, and the one that says how the run ended; empty where there is none."""
    lock = output / "run.lock"
    lines = lock.read_text(encoding="utf-8", errors="replace").splitlines() if lock.is_file() else []
    holder, end = (lines + ["", ""])[:2]
    return holder, end


def process_of(holder: str) -> tuple[int, str] | None:
    """Number and host of the process that a lock's first line names."""
    match = re.match(r"process (\d+) on host (\S+) ", holder)
    return (int(match[1]), match[2]) if match else None


def state_of_end(end: str) -> str | None:
    """The state that the second line of a lock tells of a run whose lock is free."""
    how = end.split(" ")[0]
    return {"done": "finished", "stopped": "stopped", "failed": "failed"}.get(how)


def last_change_s(output: Path) -> float:
    """When the run last wrote a line, since 1970; 0 where it wrote none."""
    paths = [output / "run.lock", output / "metrics.jsonl"]
    return max((path.stat().st_mtime for path in paths if path.is_file()), default=0.0)


def state_of(output: Path, patience_s: float = 60.0) -> RunState:
    """The state of the run in an output folder.

    A free lock proves the end of a run on this host. Some file systems show no lock to another host, or have none: there a
    run without a last word counts as lost once it has written nothing for `patience_s`, or for half an hour.
    """
    locked = is_locked(output / "run.lock")
    holder, end = read_lock(output)
    if locked:
        return RunState("running", "it runs")
    last_s = last_change_s(output)
    state = state_of_end(end)
    if state:
        return RunState(state, end, (output / "run.lock").stat().st_mtime)
    if not holder and not last_s:
        return RunState("never_started", "no run has started here")
    process = process_of(holder)
    if locked is None:
        silence_s = 1800.0
    else:
        silence_s = 0.0 if process is None or process[1] == socket.gethostname() else patience_s
    if time.time() - last_s < silence_s:
        return RunState("running", "it runs, as far as its files tell")
    return RunState("lost", "ended without a word: it was killed, or its machine went away", last_s)
