# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, turn read-only or go, as file systems in memory; and calls that fail, each of them once."""

import errno
import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from bench import await_text

NUM_STEPS = 12
SHORT = 4  # steps of a run whose calls fail one by one
CALLS = ("open", "write", "sync", "rename", "remove", "mkdir")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)


class Disk:
    """A file system of so many KiB, mounted in the work folder."""

    def __init__(self, bench, name, kib):
        self.path = bench.work / name
        self.path.mkdir()
        self.is_mounted = self.mount(f"size={kib}k")

    def mount(self, options):
        command = ["mount", "-t", "tmpfs", "-o", options, "none", self.path]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def grow(self, kib):
        return self.mount(f"remount,size={kib}k")

    def unplug(self):
        subprocess.run(["umount", "--lazy", self.path], capture_output=True, check=False)


def can_mount(bench):
    if os.geteuid() != 0:
        return False
    disk = Disk(bench, "probe", 64)
    disk.unplug()
    return disk.is_mounted


def full(bench, count):
    """The disk fills up at some byte of the run; with more room, it goes on."""
    scene = bench.scene("full disk")
    needed_kib = sum(path.stat().st_size for path in (bench.work / bench.whole(NUM_STEPS)).rglob("*")) // 1024
    for i in range(count):
        disk = Disk(bench, "small", bench.rng.randrange(24, needed_kib * 3 // 2))
        result = bench.run("small", NUM_STEPS)
        case = f"full {i + 1}"
        scene.cases += 1
        if result.status != 0:
            bench.expect_refused(scene, case, result)
            scene.expect("No space left on device" in result.err or "full" in result.err, f"{case}: {result.tail()}")
        bench.expect_sound(scene, case, "small")
        scene.expect(disk.grow(65536), f"{case}: the disk gets no more room")
        bench.expect_goes_on(scene, case, "small", NUM_STEPS)
        disk.unplug()
        bench.remove("small")


def read_only(bench, count):
    """The disk refuses writes from some moment on."""
    scene = bench.scene("disk turns read-only")
    for i in range(count):
        case = f"read-only {i + 1}"
        result = bench.run("refused", NUM_STEPS, settings={
            "DISK_CALL": ",".join(CALLS), "DISK_PATH": "refused", "DISK_ERROR": errno.EROFS,
            "DISK_FAILS_FROM": bench.rng.randrange(1, 500)})
        scene.cases += 1
        if result.status != 0:
            bench.expect_refused(scene, case, result)
        bench.expect_sound(scene, case, "refused")
        bench.expect_goes_on(scene, case, "refused", NUM_STEPS)
        bench.remove("refused")


def unplugged(bench, count):
    """The file system goes from under the run: an empty folder is in its place. The run makes its files again there."""
    scene = bench.scene("disk unplugged")
    for i in range(count):
        case = f"unplugged {i + 1}"
        disk = Disk(bench, "gone", 65536)
        process = bench.start("gone", 60)
        await_text(process, bench.work / "gone.out", "first forward pass")
        time.sleep(bench.rng.random() * 0.5)
        disk.unplug()
        result = bench.end(process, "gone")
        scene.cases += 1
        if result.status != 0:
            bench.expect_refused(scene, case, result)
        bench.expect_sound(scene, case, "gone")
        result = bench.run("gone", 60)
        scene.expect(result.status == 0, f"{case}: run again, status {result.status}: {result.tail()}")
        last = "checkpoint-000060"
        bench.expect_same_tensors(scene, case, f"gone/{last}", f"{bench.whole(60)}/{last}")
        bench.remove("gone")


def calls_of(bench):
    """How many calls of each kind each rank makes in a short run."""
    listed = bench.work / "calls.txt"
    bench.run("listed", SHORT, ("--checkpoint.save_total_limit", "1"),
              {"DISK_CALL": ",".join(CALLS), "DISK_PATH": "listed", "DISK_LISTS": listed})
    bench.remove("listed")
    counts = {}
    for rank, call in re.findall(r"^(\d+) (\w+) ", listed.read_text(), re.MULTILINE):
        counts[call, int(rank)] = counts.get((call, int(rank)), 0) + 1
    return counts


def failing_call(bench, scene, call, rank, n):
    """The n-th call of a rank fails, it alone."""
    folder = f"failing-{call}-{rank}-{n}"
    case = f"{call} {n} of rank {rank}"
    result = bench.run(folder, SHORT, ("--checkpoint.save_total_limit", "1"), {
        "DISK_CALL": call, "DISK_PATH": folder, "DISK_RANK": rank, "DISK_FAILS_AT": n,
        "DISK_ERROR": ERRORS[n % len(ERRORS)]})
    if result.status != 0:
        bench.expect_refused(scene, case, result)
    bench.expect_sound(scene, case, folder)
    # A run that could not log a step ends with what it has: the line of that step is lost, its checkpoint is not.
    num_lost_lines = sum(f"cannot write {folder}/metrics.jsonl (" in line for line in result.errors())
    # Two steps more: the next save removes what is left.
    bench.expect_goes_on(scene, case, folder, SHORT + 2, num_lost_lines)
    bench.remove(folder)


def failing_calls(bench, jobs):
    counts = calls_of(bench)
    bench.whole(SHORT + 2)
    for call in CALLS:
        scene = bench.scene(f"each {call} fails once")
        cases = [(rank, n) for (kind, rank), most in counts.items() if kind == call for n in range(1, most + 1)]
        scene.expect(cases, "no such call was seen")
        with ThreadPoolExecutor(jobs) as pool:
            for _ in pool.map(lambda which: failing_call(bench, scene, call, *which), cases):
                scene.cases += 1
