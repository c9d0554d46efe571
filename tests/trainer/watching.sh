#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What other programs see of a run (train.report_to), also of one that was resumed: TensorBoard, Prometheus, a service that
# keeps metrics, and the report.
#
#   watching.sh PYTHON
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
python=$1

make_run run.ini 60 6 --eval_split 0.2
run=(run.ini --train.logging_steps 2 --data.eval_files 'data/eval-*.h5' --train.eval_steps 4 --checkpoint.save_steps 4
  --train.report_to 'tensorboard,prometheus,wandb')
here=("${run[@]}" --train.output_dir out-run)
events() { "$python" "$source_folder/tests/trainer/read_events.py" out-run/tensorboard/*/; }

succeeds 'a run that reports' "$mpiexec" -np 2 "$sft" "${here[@]}"
check 'it says how metrics get to a service' grep -q 'track.py out-run --to wandb --follow' out
check 'and once which rank is fullest' test "$(grep -cE 'memory: rank [01] fullest, [0-9.]+ MiB; its node [0-9]+ % of [0-9.]+ [GT]iB$' out)" -eq 1
check 'and slowest' test "$(grep -cE 'time: rank [01] slowest, [0-9.]+x median; communication [0-9]+ %$' out)" -eq 1
check 'in 100 columns' awk '/memory: |time: / && length > 100 { wide = 1 } END { exit wide }' out
check 'each logged step is a point' test "$(events | grep -c '^train/loss ')" -eq 3
check 'each evaluation is one' test "$(events | sed -n 's/^eval\/loss \([0-9]*\) .*/\1/p' | tr '\n' ' ')" = '4 6 '
check 'the numbers are those of metrics.jsonl' test \
  "$(events | sed -n 's/^train\/loss 6 //p' | cut -c 1-6)" = "$(sed -n 's/^{"step":6,.*,"loss":\([0-9.]*\),.*/\1/p' out-run/metrics.jsonl | cut -c 1-6)"
check 'Prometheus finds the last step' grep -qE '^sft_step\{run="[0-9a-f]+"\} 6$' out-run/metrics.prom
check 'the last evaluation' grep -qE '^sft_eval_loss\{run="[0-9a-f]+"\} [0-9.]+$' out-run/metrics.prom
check 'that the run goes on no more' grep -qE '^sft_running\{run="[0-9a-f]+"\} 0(\.0)?$' out-run/metrics.prom
check 'and when it was' grep -qE '^sft_last_line_timestamp_seconds\{run="[0-9a-f]+"\} [0-9.e+]+$' out-run/metrics.prom

# A run that goes on from step 4 and then to step 8: no point twice.
rm -r out-run/checkpoint-000006
succeeds 'a resumed run' "$mpiexec" -np 2 "$sft" "${here[@]}" --train.max_steps 8 --checkpoint.resume_from_checkpoint auto
check 'has each step once' test "$(events | sed -n 's/^train\/loss \([0-9]*\) .*/\1/p' | tr '\n' ' ')" = '2 4 6 8 '
check 'also for a reader of all event files' test "$(cat out-run/tensorboard/*/* | grep -ao 'train/loss' | wc -l)" -eq 4
check 'and each evaluation' test "$(events | sed -n 's/^eval\/loss \([0-9]*\) .*/\1/p' | tr '\n' ' ')" = '4 8 '

# A run that is killed cannot say that it runs no more: the alert of docs/watching.md fires, rightly.
"$sft" "${run[@]}" --train.output_dir out-killed --train.max_steps 1000000 >/dev/null 2>&1 &
killed=$!
await test -f out-killed/metrics.prom
kill -KILL $killed
wait $killed 2>/dev/null || true
check 'a killed run counts as running' grep -qE '^sft_running\{run="[0-9a-f]+"\} 1(\.0)?$' out-killed/metrics.prom

# The time of a job.
status_of env SLURM_JOB_END_TIME="$(date +%s)" "$sft" "${run[@]}" --train.output_dir out-job
check 'a job that ends before the run says so' grep -qE "the job's time ends in 0:00, at about step [0-9]+ of 6" out
status_of env SLURM_JOB_END_TIME="$(($(date +%s) + 9999999))" "$sft" "${run[@]}" --train.output_dir out-long-job
check 'a longer one does not' test "$(grep -c "the job's time" out)" -eq 0
check 'it says when the job ends' grep -qE 'time: job ends in [0-9]+:[0-9]+:[0-9]+$' out

# Where the files cannot be written the run goes on.
touch blocked
mkdir out-blocked
ln -s ../blocked out-blocked/tensorboard
succeeds 'a run whose event files cannot be written' "$sft" "${run[@]}" --train.output_dir out-blocked
check 'says so once' test "$(grep -c 'what train.report_to asks for ends here' err)" -eq 1
check 'and keeps its metrics' test "$(grep -c '"loss"' out-blocked/metrics.jsonl)" -eq 3
status_of "$sft" run.ini --train.report_to comet_ml
check 'another service is refused' grep -q 'report_to' err

# A package in place of W&B's that notes what it is sent, and fails or is interrupted at the step that an environment names.
mkdir package
cat >package/wandb.py <<'PY'
import json
import os
import signal

def note(name, value):
    with open(name, "a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")

class Run:
    summary = {}

    def define_metric(self, *names, **options):
        pass

    def log(self, numbers):
        step = str(numbers["train/global_step"])
        if os.environ.get("FAIL_AT") == step:
            raise OSError("no network")
        if os.environ.get("SIGNAL_AT") == step:
            os.kill(os.getpid(), int(os.environ["SIGNAL"]))
        note("sent.jsonl", numbers)

    def mark_preempting(self):
        note("ends.jsonl", "preempting")

    def finish(self, exit_code=0):
        note("ends.jsonl", [exit_code, self.summary.get("sft_end", "")])

def init(**options):
    config = options["config"]
    assert config["train.max_steps"] == 8 and config["data.shuffle"] is True and options["resume"] == "allow"
    assert isinstance(config["optimizer.learning_rate"], float) and config["train.precision"] == "fp32"
    return Run()
PY
track=(env PYTHONPATH=package "$python" "$source_folder/postprocess/track.py" out-run --to wandb)
refuses_to_send() { # PATTERN WORD...
  local pattern=$1
  shift
  status_of env "$@" "${track[@]}"
  check "$pattern is an error" test "$status" -eq 1
  check 'which says so in a line' grep -qE "^track.py: error: $pattern" err
}
sent_steps() { sed -n 's/.*"train\/loss".*"train\/global_step": \([0-9]*\).*/\1/p' sent.jsonl | tr '\n' ' '; }

# Whatever interrupts it, each line is sent once, and the next call sends the rest.
refuses_to_send 'cannot send to wandb \(no network\): start it again, 1 lines were sent' FAIL_AT=4
succeeds 'a send that SIGTERM interrupts' env SIGNAL_AT=6 SIGNAL=15 "${track[@]}"
check 'finishes the line' test "$(sent_steps)" = '2 4 6 '
succeeds 'sending the rest' "${track[@]}"
check 'sends what is left' grep -q '^sent 2 new lines' out
check 'each step has been sent once' test "$(sent_steps)" = '2 4 6 8 '
check 'each evaluation too' test "$(grep -c '"eval/loss"' sent.jsonl)" -eq 2
check 'with the time of its line' test "$(sed -n 's/.*"train\/global_step": 8, "_timestamp": \([0-9.]*\)}/\1/p' sent.jsonl | sort -u)" = \
  "$(sed -n 's/^{"step":8,.*"time":\([0-9.]*\).*/\1/p' out-run/metrics.jsonl)"
succeeds 'sending again' "${track[@]}" --follow --interval 0.1
check 'sends nothing twice' grep -q '^sent 0 new lines' out
check 'the end is told' test "$(tail -n 1 ends.jsonl)" = '[0, "done after step 8 of 8"]'
status_of "$python" "$source_folder/postprocess/track.py" data --to wandb
check 'a folder without a run is refused' grep -q '^track.py: error: data is no output_dir of a run' err

# A package in place of MLflow's, which gets lines together.
mkdir package/mlflow
cat >package/mlflow/__init__.py <<'PY'
import json
import os
import types

class MlflowClient:
    def __getattr__(self, name):
        found = types.SimpleNamespace(experiment_id="1", info=types.SimpleNamespace(run_id="1", status="RUNNING"))
        return lambda *words, **options: [found] if name == "search_runs" else found

    def log_batch(self, run_id, metrics=()):
        if os.environ.get("FAIL") == "1":
            raise OSError("no network")
        with open("batches.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps([[m.key, m.step, m.timestamp] for m in metrics]) + "\n")
PY
cat >package/mlflow/entities.py <<'PY'
import collections

Metric = collections.namedtuple("Metric", "key value timestamp step")
Param = collections.namedtuple("Param", "key value")
PY
track_mlflow=("${track[@]:0:5}" --to mlflow)
status_of env FAIL=1 "${track_mlflow[@]}"
check 'a call that fails notes nothing' grep -q 'no network): start it again, 0 lines were sent' err
succeeds 'sending to MLflow' "${track_mlflow[@]}"
check 'sends all lines' grep -q '^sent 6 new lines' out
check 'in one call' test "$(wc -l <batches.jsonl)" -eq 1
check 'each with its step and time' python3 -c 'import json
lines = [json.loads(line) for line in open("out-run/metrics.jsonl")]
sent = [tuple(number) for number in json.loads(open("batches.jsonl").read())]
assert [n[1:] for n in sent if n[0] == "train/loss"] == [(l["step"], int(1000 * l["time"])) for l in lines if "loss" in l]
assert [n[1] for n in sent if n[0] == "eval/loss"] == [4, 8]'
succeeds 'sending to MLflow again' "${track_mlflow[@]}"
check 'sends nothing' test "$(wc -l <batches.jsonl)" -eq 1

# How the run ended is told as it was; the lock says it.
cp out-run/run.lock done.lock
ends_as() { # LAST_LINE_OF_LOCK EXIT_CODE TEXT
  head -n 1 done.lock >out-run/run.lock
  [[ -z $1 ]] || echo "$1" >>out-run/run.lock
  rm -f ends.jsonl
  succeeds "a run that ended so: ${1:-without a word}" "${track[@]}" --follow --interval 0.1 --patience 0.2
  check "is told with status $2" grep -qF "[$2, \"$3" ends.jsonl
}
ends_as 'failed after step 1: loss nan' 1 'failed after step 1: loss nan'
ends_as 'stopped after step 4 of 8' 75 'stopped after step 4 of 8'
check 'as one that goes on later' grep -q preempting ends.jsonl
ends_as '' 1 'ended without a word'
"$python" -c 'import fcntl, struct, time
file = open("out-run/run.lock", "rb+")
fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK, as a run has it
time.sleep(60)' &
holder=$!
until "$sft_inspect" status out-run --json | grep -qE '"alive": ?true'; do sleep 0.1; done
rm -f ends.jsonl
succeeds 'a run that still runs' "${track[@]}"
check 'is not told to have ended' test "$(tr '\n' ' ' <ends.jsonl)" = '"preempting" [1, "it runs"] '
kill -KILL $holder
wait $holder 2>/dev/null || true
cp done.lock out-run/run.lock

# The report.
succeeds 'a report' "$python" "$source_folder/postprocess/report.py" out-run --programs "$bin" --prompt 'a' -o report.html
succeeds 'that a browser reads without a network' "$python" "$source_folder/tests/trainer/read_report.py" report.html
for title in Curves Mesh 'Memory and traffic' Timeline Texts Goodput Lineage Configuration; do
  check "with $title" grep -qx "section $title" out
done
for figure in 'loss, nats a target token' 'mesh of ranks' 'planned memory' 'what the time went to'; do
  check "with a figure: $figure" grep -qx "figure $figure" out
done
check 'the plan is in it' grep -qE 'measured peak</td><td>[0-9.]+ MiB, [0-9.]+ % of the plan' report.html
check 'and that it was resumed' grep -q 'where the run was resumed' report.html
finish_checks
