#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does to runs what machines do to them in weeks, and sees that nothing is lost, nothing is damaged and no bit differs.

  tests/tools/torture/torture.py BUILD_FOLDER [--seed S] [--kills 300] [--cases 20] [--ranks 2] [--jobs 2]
                                  [--only WORD ...] [--keep]

Each run saves beside training every second step. What is done: kills, disks, calls, stops, damages, clocks; --only
names some of them. --kills is how many kills there are, --cases how many of each of the others, but for calls: there
each call to the disk fails once. The table of all is printed last; exit status 1 when anything was wrong. --seed
repeats what was random, but for the moments that depend on how fast the machine is. --keep leaves the folders of what
went wrong, and says where.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import disks
import kills
import others
from bench import Bench

# As the tests have it: small ranks of one machine, and no wait of mpirun after a rank has gone.
ENVIRONMENT = {"OMPI_MCA_odls_base_sigkill_timeout": "0", "OMPI_MCA_pml": "ob1", "OMP_NUM_THREADS": "1",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SCENES = ("kills", "disks", "calls", "stops", "damages", "clocks")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time whose calls fail")
    parser.add_argument("--only", nargs="+", choices=SCENES, default=SCENES)
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--keep", action="store_true")
    return parser.parse_args()


def play(bench, options):
    """One scene after the other; each ends as it is, also where others went wrong."""
    for name in options.only:
        if name == "kills":
            kills.kills(bench, options.kills)
        elif name == "disks" and disks.can_mount(bench):
            disks.full(bench, options.cases)
            disks.read_only(bench, options.cases)
            disks.unplugged(bench, options.cases)
        elif name == "disks":
            bench.scene("disk full, read-only, unplugged").note = "NOT DONE: this user may mount no file system"
        elif name == "calls":
            disks.refused(bench, options.cases)
            disks.failing_calls(bench, options.jobs)
        elif name == "stops":
            others.stops(bench, max(1, options.cases // 4))
        elif name == "damages":
            others.damages(bench, options.cases)
        elif name == "clocks":
            others.clocks(bench, options.cases)


def go_where_mounts_are_allowed():
    """Who is not root begins again in a namespace of users and mounts of its own, where the system has them."""
    unshare = ["unshare", "--map-root-user", "--mount"]
    if os.geteuid() == 0 or not shutil.which("unshare"):
        return
    if subprocess.run([*unshare, "true"], check=False).returncode == 0:
        os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def print_table(scenes):
    width = max(len(scene.name) for scene in scenes)
    print(f"\n{'':{width}}  cases  wrong")
    for scene in scenes:
        print(f"{scene.name:{width}}  {scene.cases:5}  {len(scene.wrong):5}  {scene.note}".rstrip())
    print(f"{'in all':{width}}  {sum(s.cases for s in scenes):5}  {sum(len(s.wrong) for s in scenes):5}")


def main():
    options = parse()
    os.environ.update(ENVIRONMENT)
    go_where_mounts_are_allowed()
    build = options.build.resolve()
    libraries = [str(next(build.glob(f"tests/{name}")))
                 for name in ("faults/save/libfaults_save_disk_library.so", "tools/torture/libtools_torture_clock.so")]
    work = Path(tempfile.mkdtemp(prefix="sft-torture."))
    begin = time.monotonic()
    print(f"seed {options.seed}: --seed {options.seed} repeats it", flush=True)
    bench = None
    try:
        bench = Bench(build / "bin", libraries, options.mpiexec, options.ranks, work, random.Random(options.seed),
                      options.keep)
        play(bench, options)
    finally:
        if bench is not None and bench.scenes:
            print_table(bench.scenes)
        if options.keep and (work / "kept").exists():
            print(f"kept in {work / 'kept'}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    num_wrong = sum(len(scene.wrong) for scene in bench.scenes)
    print(f"seed {options.seed}, {options.ranks} ranks, {time.monotonic() - begin:.0f} s: {num_wrong} wrong")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
