# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, turn read-only or go, as file systems in memory or in a file; and calls that fail, each once."""

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


def is_done(*words):
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class MemoryDisk:
    """A file system in memory, mounted in the work folder."""

    def __init__(self, bench, name, options):
        self.path = bench.work / name
        self.path.mkdir()
        self.is_mounted = is_done("mount", "-t", "tmpfs", "-o", options, "none", self.path)

    def allow(self, options):
        return is_done("mount", "-o", f"remount,{options}", self.path)

    def unplug(self):
        is_done("umount", "--lazy", self.path)


class BlockDisk:
    """An ext4 in a file, mounted in the work folder: it can be told to turn read-only under open files, as it does by
    itself after an error of the disk."""

    def __init__(self, bench, name):
        self.image, self.path = bench.work / f"{name}.image", bench.work / name
        self.path.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(64 << 20)
        self.is_mounted = is_done("mkfs.ext4", "-q", "-F", self.image) and self.mount()

    def mount(self):
        return is_done("mount", "-o", "loop", self.image, self.path)

    def turn_read_only(self):
        return is_done("mount", "-o", "remount,abort", self.path)

    def repair(self):
        """Mounted again, it takes writes."""
        return is_done("umount", self.path) and self.mount()

    def remove(self):
        is_done("umount", "--lazy", self.path)
        self.image.unlink()
        self.path.rmdir()


def can_mount(bench):
    disk = MemoryDisk(bench, "probe", "size=64k")
    disk.unplug()
    disk.path.rmdir()
    return disk.is_mounted


def can_mount_block(bench):
    disk = BlockDisk(bench, "probe")
    disk.remove()
    return disk.is_mounted


def scarce(bench, scene, folder, options, enough):
    """A run on a disk of these options, which goes on when they are those of a larger one."""
    scene.cases += 1
    case = f"{folder} {scene.cases}"
    disk = MemoryDisk(bench, folder, options)
    result = bench.run(folder, NUM_STEPS)
    if result.status != 0:
        bench.expect_refused(scene, case, result)
        scene.expect("No space left on device" in result.err or "full" in result.err, f"{case}: {result.tail()}")
    bench.expect_sound(scene, case, folder)
    scene.expect(disk.allow(enough), f"{case}: the disk gets no larger")
    bench.expect_goes_on(scene, case, folder, NUM_STEPS)
    disk.unplug()
    bench.remove(folder)


def full(bench, count):
    """The disk fills up at some byte of the run, or has room for bytes and for no more files."""
    files = list((bench.work / bench.whole(NUM_STEPS)).rglob("*"))
    most_kib = sum(path.stat().st_size for path in files) // 1024 * 3 // 2
    scene = bench.scene("full disk")
    for _ in range(count):
        scarce(bench, scene, "small", f"size={bench.rng.randrange(24, most_kib)}k", "size=64m")
    scene = bench.scene("disk with no more files")
    for _ in range(count):
        options = f"size=64m,nr_inodes={bench.rng.randrange(2, len(files) * 3 // 2)}"
        scarce(bench, scene, "crowded", options, "nr_inodes=10000")


def read_only(bench, count):
    """The file system turns read-only under the run; mounted again, it goes on."""
    scene = bench.scene("disk turns read-only")
    if not can_mount_block(bench):
        scene.note = "NOT DONE: this user may mount no image of a disk"
        return
    for i in range(count):
        case = f"read-only {i + 1}"
        disk = BlockDisk(bench, "read-only")
        process = bench.start("read-only", 1000000)
        await_text(process, bench.work / "read-only.out", "first forward pass")
        time.sleep(bench.rng.random() * 0.5)
        scene.expect(disk.turn_read_only(), f"{case}: it stays as it is")
        result = bench.end(process, "read-only")
        scene.cases += 1
        bench.expect_refused(scene, case, result)
        # What it had taken and not written yet is an error of the disk.
        is_named = "Read-only file system" in result.err or "Input/output error" in result.err
        scene.expect(is_named, f"{case}: {result.tail()}")
        scene.expect(disk.repair(), f"{case}: it cannot be mounted again")
        bench.expect_sound(scene, case, "read-only")
        # Lines of metrics that the disk had not taken yet are lost with it; checkpoints are not.
        steps = bench.newest_step("read-only") // 2 * 2 + 2
        bench.expect_goes_on(scene, case, "read-only", steps, num_lost_lines=steps)
        disk.remove()
        bench.remove("read-only")


def refused(bench, count):
    """The disk refuses writes from some call on."""
    scene = bench.scene("disk refuses from some call on")
    for i in range(count):
        case = f"refused {i + 1}"
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
        disk = MemoryDisk(bench, "gone", "size=64m")
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
    bench.end_case(scene, case, folder)


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
