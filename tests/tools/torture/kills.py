# SPDX-License-Identifier: Apache-2.0
"""Kills at random moments, of one rank or all, until so many have met a run. Each next start goes on with `auto`; where
the run comes to its end it begins anew."""

import signal
import time

from bench import KILLED, await_text, kill, ranks_of

NUM_STEPS = 120
PHASES = ("step", "snapshot", "write", "commit", "delete", "anywhere")


def settings_of(phase, rng, num_ranks):
    """Where in this phase, who and when: for the library that is a disk."""
    settings = {"DISK_KILLS": rng.choice(("all", "self", "other")),
                "DISK_KILLS_AFTER_US": rng.choice((0, rng.randrange(4000)))}
    of_rank = {"DISK_RANK": rng.randrange(num_ranks)}
    if phase == "step":
        # Behind a line of metrics, as long as a step may take.
        settings |= {"DISK_CALL": "write", "DISK_PATH": "metrics.jsonl", "DISK_KILLS_AT": rng.randrange(1, 16)}
    elif phase == "snapshot":
        # Between the layout of a shard file, in four calls of open, and the first bytes of the copy.
        settings |= of_rank | {"DISK_CALL": "open", "DISK_KILLS_AT": rng.randrange(1, 17)}
    elif phase == "write":
        settings |= of_rank | {"DISK_CALL": "write,sync", "DISK_KILLS_AT": rng.randrange(1, 30)}
    elif phase == "commit":
        # The map, the index of tensors, or the renaming of the folder and its sync.
        path, most = rng.choice((("checkpoint.h5", 40), ("tensors.h5", 150), (".tmp", 300)))
        calls = rng.choice(("write", "sync", "rename", "open,write,sync,rename,mkdir"))
        settings |= {"DISK_CALL": calls, "DISK_PATH": path,
                     "DISK_KILLS_AT": rng.randrange(1, most if "write" in calls else 6)}
    elif phase == "delete":
        settings |= {"DISK_CALL": "remove,rename", "DISK_PATH": ".retired.tmp", "DISK_KILLS_AT": rng.randrange(1, 13)}
    return settings


def kill_sometime(bench, process, folder):
    """Up to half a second after the first step."""
    await_text(process, bench.work / f"{folder}.out", "first forward pass")
    time.sleep(bench.rng.random() * 0.5)
    ranks = ranks_of(process)
    for rank in ranks if bench.rng.random() < 0.5 else ranks[:1]:
        kill(rank, signal.SIGKILL)


def kills(bench, count):
    folder, rng = "killed", bench.rng
    scenes = {phase: bench.scene(f"SIGKILL, {phase}") for phase in PHASES}
    ends, was_killed = 0, False
    # Phases in turn: some starts come to their end before the moment that was chosen.
    while sum(scene.cases for scene in scenes.values()) < count:
        phase = min(PHASES, key=lambda name: scenes[name].cases)
        scene = scenes[phase]
        before = bench.newest_step(folder)
        if before == NUM_STEPS:
            bench.expect_same(scene, f"end {ends}", folder, NUM_STEPS, was_killed=was_killed)
            bench.remove(folder)
            ends, before = ends + 1, 0
        if phase == "anywhere":
            process = bench.start(folder, NUM_STEPS)
            kill_sometime(bench, process, folder)
        else:
            process = bench.start(folder, NUM_STEPS, settings=settings_of(phase, rng, bench.num_ranks))
        result = bench.end(process, folder)
        case = f"kill {sum(s.cases for s in scenes.values()) + 1}"
        was_killed = result.status == KILLED
        if was_killed:
            scene.cases += 1
        else:
            scene.expect(result.status == 0, f"{case}: status {result.status}: {result.tail()}")
        after = bench.newest_step(folder)
        # A run that was killed before it read anything has not said where it goes on from.
        if "first forward pass" in result.out:
            scene.expect(result.resumed_step() == before,
                         f"{case}: it went on from {result.resumed_step()}, not {before}")
        scene.expect(after >= max(before, result.saved_step()),
                     f"{case}: {max(before, result.saved_step())} was complete, the newest is now {after}")
        bench.expect_sound(scene, case, folder)
    scene = bench.scene("the run that was killed, at its end")
    scene.cases = ends + 1
    bench.expect_goes_on(scene, "end", folder, NUM_STEPS)
    scene.note = f"{ends + 1} runs of {NUM_STEPS} steps, bits equal"
