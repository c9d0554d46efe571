# SPDX-License-Identifier: Apache-2.0
"""What all scenes of the torture share: how sft is run, what a run left, and how findings are counted."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

KILLED = 128 + signal.SIGKILL
TIMEOUT_S = 120
CONFIGURATION = """\
[model]
hidden_size = 32
num_hidden_layers = 1
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 32
vocab_size = 272
[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = {steps}
precision = fp32
logging_steps = 1
[optimizer]
lr_scheduler_type = constant
[checkpoint]
async = true
save_steps = 2
save_total_limit = 2
resume_from_checkpoint = auto
[device]
backend = cpu
"""


class Result:
    """How a run ended. `status` is None for one that was still there after TIMEOUT_S."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def errors(self):
        return [line for line in self.err.splitlines() if "error: " in line]

    def resumed_step(self):
        """The step of the checkpoint that it went on from; 0 for a new start."""
        found = re.search(r"^ *weights .*, step (\d+)$", self.out, re.MULTILINE)
        return int(found[1]) if found else 0

    def saved_step(self):
        """The last step whose checkpoint it said to have saved; 0: none."""
        return max((int(step) for step in re.findall(r" saved \S*checkpoint-(\d+) in ", self.out)), default=0)

    def tail(self):
        return " / ".join(self.errors() or (self.err.splitlines() or self.out.splitlines())[-3:])[:400]


class Scene:
    """A line of the table: what was done, how often, and what went wrong."""

    def __init__(self, name):
        self.name, self.cases, self.note, self.wrong, self.begin = name, 0, "", [], time.monotonic()

    def expect(self, holds, text):
        """Notes and shows `text` where it does not hold."""
        if not holds:
            self.wrong.append(text)
            print(f"  WRONG {self.name}: {text}", flush=True)
        return holds


class Bench:
    """A work folder with data, a configuration, and a run of it that nothing happened to."""

    def __init__(self, programs, libraries, mpiexec, num_ranks, work, rng, keeps):
        self.programs, self.libraries, self.mpiexec = programs, libraries, mpiexec
        self.num_ranks, self.work, self.rng, self.keeps = num_ranks, work, rng, keeps
        self.host = socket.gethostname()
        self.scenes = []
        self._wholes = {}
        with open(work / "pairs.jsonl", "w") as file:
            for i in range(1, 101):
                file.write(f'{{"prompt": "What is number {i}?\\n", "completion": "the one after {i - 1}"}}\n')
        subprocess.run([programs / "sft-prepare", "--input", "pairs.jsonl", "--output", "data", "--max_length", "48"],
                       cwd=work, check=True, stdout=subprocess.DEVNULL)

    def scene(self, name):
        self.scenes.append(Scene(name))
        print(f"{name} ...", flush=True)
        return self.scenes[-1]

    def start(self, folder, steps, words=(), settings=None):
        """A process of mpirun whose ranks train up to `steps` and write to `folder`. `settings`: variables of the
        libraries that are loaded before others. Its output goes to FOLDER.out and FOLDER.err."""
        configuration = self.work / f"{folder}.ini"
        configuration.write_text(CONFIGURATION.format(steps=steps))
        preload = []
        if settings:
            preload = ["env", f"LD_PRELOAD={':'.join(self.libraries)}"] + [f"{k}={v}" for k, v in settings.items()]
        command = [self.mpiexec, "-np", str(self.num_ranks), *preload, self.programs / "sft",
                   configuration.name, "--train.output_dir", folder, *words]
        # mpirun's files, of which those of several at a time or of another root would get in the way. Their folder has
        # a name of its own: calls that concern FOLDER may be made to fail.
        temporary = tempfile.mkdtemp(prefix="mpi.", dir=self.work)
        with open(self.work / f"{folder}.out", "w") as out, open(self.work / f"{folder}.err", "w") as err:
            process = subprocess.Popen(command, cwd=self.work, stdout=out, stderr=err,
                                       env=os.environ | {"TMPDIR": temporary})
        process.temporary = temporary
        return process

    def end(self, process, folder):
        """Waits for it."""
        try:
            status = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with open(self.work / f"{folder}.err", "a") as err:
                for each in (process.pid, *ranks_of(process)):
                    err.write(f"after {TIMEOUT_S} s: {whereabouts(each)}\n")
            for rank in ranks_of(process):
                kill(rank, signal.SIGKILL)
            process.kill()
            process.wait()
            status = None
        shutil.rmtree(process.temporary, ignore_errors=True)
        return Result(status, (self.work / f"{folder}.out").read_text(), (self.work / f"{folder}.err").read_text())

    def run(self, folder, steps, words=(), settings=None):
        return self.end(self.start(folder, steps, words, settings), folder)

    def whole(self, steps):
        """The folder of a run of so many steps that nothing happened to."""
        if steps not in self._wholes:
            folder = f"whole-{steps}"
            result = self.run(folder, steps)
            if result.status != 0:
                raise SystemExit(f"a run that nothing happens to ends with status {result.status}: {result.tail()}")
            if len(self.numbers(folder)) != steps:
                raise SystemExit(f"a run of {steps} steps has logged {len(self.numbers(folder))}")
            self._wholes[steps] = folder
        return self._wholes[steps]

    def remove(self, *folders):
        for folder in folders:
            shutil.rmtree(self.work / folder, ignore_errors=True)
            for suffix in (".ini", ".out", ".err"):
                (self.work / f"{folder}{suffix}").unlink(missing_ok=True)

    def end_case(self, scene, case, folder):
        """Removes what the case left, or keeps it where that is asked for and it went wrong."""
        if not self.keeps or not any(text.startswith(f"{case}: ") for text in scene.wrong):
            self.remove(folder)
            return
        kept = self.work / "kept" / case.replace(" ", "-")
        kept.mkdir(parents=True)
        for name in (folder, f"{folder}.ini", f"{folder}.out", f"{folder}.err"):
            if (self.work / name).exists():
                (self.work / name).rename(kept / name)

    def numbers(self, folder):
        """Step, loss and norm of the gradient of each line that it logged, as they are written."""
        try:
            text = (self.work / folder / "metrics.jsonl").read_text()
        except FileNotFoundError:
            return []
        return re.findall(r'"step":(\d+),.*?"loss":([^,]*),"grad_norm":([^,]*)', text)

    def checkpoints(self, folder):
        """The complete ones, the highest step last."""
        return sorted((self.work / folder).glob("checkpoint-??????"))

    def newest_step(self, folder):
        return max((int(path.name[-6:]) for path in self.checkpoints(folder)), default=0)

    def inspect(self, *words):
        return subprocess.run([self.programs / "sft-inspect", *words], cwd=self.work, capture_output=True, text=True)

    def expect_sound(self, scene, case, folder):
        """Each checkpoint that is complete has its hashes."""
        for path in self.checkpoints(folder):
            found = self.inspect(path, "--verify")
            scene.expect(found.returncode == 0, f"{case}: {path.name} is damaged: {found.stderr.strip()}")

    def expect_same(self, scene, case, folder, steps, num_lost_lines=0, was_killed=False):
        """Losses, weights and moments of a run that came to its end are those of one that nothing happened to. The disk
        has refused `num_lost_lines` of its metrics, which may have been written later. Of a run that was killed behind its
        last save an old checkpoint may be there by half: the next save would remove the rest."""
        whole = self.whole(steps)
        own, expected = self.numbers(folder), self.numbers(whole)
        is_same = own == [line for line in expected if line in own] and len(own) + num_lost_lines >= len(expected)
        scene.expect(is_same, f"{case}: other losses than without it")
        last = f"checkpoint-{steps:06}"
        self.expect_same_tensors(scene, case, f"{folder}/{last}", f"{whole}/{last}")
        left = sorted(path.name for path in (self.work / folder).glob("*[.-]tmp")
                      if not (was_killed and path.name.endswith(".retired.tmp")))
        scene.expect(not left, f"{case}: {left} is left")

    def expect_same_tensors(self, scene, case, one, other):
        found = self.inspect(one, "--compare", other, "--optimizer")
        rows = [line.split() for line in found.stdout.splitlines()[2:]]
        rows = [row for row in rows if len(row) > 2]
        same = len(rows) > 10 and all(float(row[1]) == 0 and float(row[2]) == 0 for row in rows)
        scene.expect(found.returncode == 0 and same, f"{case}: other weights or moments than without it")

    def expect_goes_on(self, scene, case, folder, steps, num_lost_lines=0):
        """Run again, it goes on from its newest checkpoint to the end of one that nothing happened to."""
        newest = self.newest_step(folder)
        result = self.run(folder, steps)
        if not scene.expect(result.status == 0, f"{case}: run again, status {result.status}: {result.tail()}"):
            return
        scene.expect(result.resumed_step() == newest, f"{case}: it went on from {result.resumed_step()}, not {newest}")
        self.expect_same(scene, case, folder, steps, num_lost_lines)

    def expect_refused(self, scene, case, result):
        """It ended with the status of data, and one error."""
        scene.expect(result.status == 3, f"{case}: status {result.status}, not 3: {result.tail()}")
        scene.expect(len(result.errors()) == 1, f"{case}: {len(result.errors())} errors: {result.tail()}")


def ranks_of(process):
    """The processes that this one has started."""
    try:
        return [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    except OSError:
        return []


def whereabouts(process_id):
    """What the system says that a process is doing."""
    folder = Path(f"/proc/{process_id}")
    try:
        words = (folder / "cmdline").read_text().split("\0")[0]
        state = re.search(r"^State:\s*(.*)$", (folder / "status").read_text(), re.MULTILINE)[1]
        return f"{words}, process {process_id}, {state}, in {(folder / 'wchan').read_text()}"
    except OSError as error:
        return f"process {process_id}: {error}"


def kill(process_id, signal_number):
    try:
        os.kill(process_id, signal_number)
    except ProcessLookupError:
        pass


def await_text(process, path, text, timeout_s=30.0):
    """Returns when the file has it, or the process has ended."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and process.poll() is None:
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.005)
