# SPDX-License-Identifier: Apache-2.0
"""Ranks that are stopped, checkpoints that are damaged, clocks that are wrong."""

import shutil
import signal
import time

from bench import await_text, kill, ranks_of

NUM_STEPS = 16


def stops(bench, count):
    """A rank is stopped at a random moment: the others name it, and the run ends with the status of a hang."""
    scene = bench.scene("SIGSTOP of a rank")
    for i in range(count):
        case = f"stop {i + 1}"
        process = bench.start("stopped", 1000000, ("--device.comm_timeout_s", "3", "--checkpoint.save_steps", "20"))
        await_text(process, bench.work / "stopped.out", " saved ")
        time.sleep(bench.rng.random())
        ranks = ranks_of(process)
        stopped = bench.rng.randrange(len(ranks)) if ranks else 0
        begin = time.monotonic()
        if ranks:
            kill(ranks[stopped], signal.SIGSTOP)
        result = bench.end(process, "stopped")
        scene.cases += 1
        scene.expect(result.status == 76, f"{case}: status {result.status}, not 76: {result.tail()}")
        scene.expect(any(f"rank {stopped} on {bench.host} stands still" in line for line in result.errors()),
                     f"{case}: nobody names rank {stopped}: {result.tail()}")
        scene.expect(time.monotonic() - begin < 30, f"{case}: it took {time.monotonic() - begin:.0f} s")
        bench.expect_sound(scene, case, "stopped")
        newest = bench.newest_step("stopped")
        result = bench.run("stopped", newest + 2)
        scene.expect(result.status == 0 and result.resumed_step() == newest,
                     f"{case}: run again, status {result.status}, from {result.resumed_step()}, not {newest}")
        bench.remove("stopped")


def flip(path, rng):
    data = bytearray(path.read_bytes())
    for _ in range(rng.randrange(1, 5)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut(path, rng):
    path.write_bytes(path.read_bytes()[:rng.randrange(path.stat().st_size)])


def overwrite(path, rng):
    data = bytearray(path.read_bytes())
    begin = rng.randrange(len(data))
    length = min(rng.randrange(1, 4096), len(data) - begin)
    data[begin:begin + length] = rng.randbytes(length) if rng.random() < 0.5 else bytes(length)
    path.write_bytes(data)


def remove(path, _):
    path.unlink()


def damages(bench, count):
    """A file of the newest checkpoint is damaged: `auto` takes the one before and says so, or nothing comes of it."""
    scene = bench.scene("newest checkpoint damaged")
    fell_back = 0
    bench.run("sound", NUM_STEPS - 4)
    for i in range(count):
        shutil.copytree(bench.work / "sound", bench.work / "damaged")
        newest = bench.checkpoints("damaged")[-1]
        path = bench.rng.choice(sorted(newest.iterdir()))
        how = bench.rng.choice((flip, cut, overwrite, remove))
        how(path, bench.rng)
        case = f"damage {i + 1}, {how.__name__} {path.name}"
        result = bench.run("damaged", NUM_STEPS)
        scene.cases += 1
        if not scene.expect(result.status == 0, f"{case}: status {result.status}: {result.tail()}"):
            bench.remove("damaged")
            continue
        step = result.resumed_step()
        if step != NUM_STEPS - 4:
            fell_back += 1
            scene.expect(step == NUM_STEPS - 6, f"{case}: it went on from step {step}")
            # Without its map a folder is no checkpoint, and nothing to warn of.
            is_named = newest.name in result.err or (how is remove and path.name == "checkpoint.h5")
            scene.expect(is_named, f"{case}: no warning names {newest.name}")
        bench.expect_same(scene, case, "damaged", NUM_STEPS)
        bench.remove("damaged")
    # None is whole: an error, and no new start.
    for path in (bench.work / "sound").glob("checkpoint-*/shard-*"):
        cut(path, bench.rng)
    result = bench.run("sound", NUM_STEPS)
    bench.expect_refused(scene, "all damaged", result)
    bench.remove("sound")
    scene.note = f"{fell_back} fell back, nothing came of the others"


def clocks(bench, count):
    """Clocks that are ahead or behind, from the start on or all at once, in each of three parts of a run."""
    scene = bench.scene("clock set back and ahead")
    for i in range(count):
        shifts = [(bench.rng.randrange(-400, 400) * 86400, bench.rng.randrange(2)) for _ in range(3)]
        case = f"clock {i + 1}, shifts {shifts}"
        before = 0
        for part, (shift_s, after_s) in enumerate(shifts, start=1):
            result = bench.run("clocked", NUM_STEPS * part // 3 // 2 * 2 if part < 3 else NUM_STEPS,
                               settings={"CLOCK_SHIFT_S": shift_s, "CLOCK_AFTER_S": after_s})
            scene.expect(result.status == 0 and result.resumed_step() == before,
                         f"{case}: part {part} ended with {result.status}, from {result.resumed_step()}, not {before}")
            before = bench.newest_step("clocked")
        scene.cases += 1
        bench.expect_same(scene, case, "clocked", NUM_STEPS)
        bench.remove("clocked")
