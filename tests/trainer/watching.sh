#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What other programs see of a run (train.report_to), also of one that was resumed: TensorBoard, Prometheus, a service that
# keeps metrics, and the report.
#
#   watching.sh MPIEXEC SFT SFT_PREPARE SOURCE_FOLDER PYTHON
set -euo pipefail

mpiexec=$1 sft=$2 sft_prepare=$3 source=$4 python=$5
# shellcheck source=tests/support/checks.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/checks.sh"

make_run run.ini 60 6
rm -r data
"$sft_prepare" --input pairs.jsonl --output data --max_length 48 --eval_split 0.2 >/dev/null
run=(run.ini --train.logging_steps 2 --data.eval_files 'data/eval-*.h5' --train.eval_steps 4 --checkpoint.save_steps 4
  --train.report_to 'tensorboard,prometheus,wandb')
here=("${run[@]}" --train.output_dir out-run)
events() { "$python" "$source/tests/trainer/read_events.py" out-run/tensorboard/*/; }

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
check 'and when it was' grep -qE '^sft_last_line_timestamp_seconds\{run="[0-9a-f]+"\} [0-9.e+]+$' out-run/metrics.prom

# A run that goes on from step 4 and then to step 8: no point twice.
rm -r out-run/checkpoint-000006
succeeds 'a resumed run' "$mpiexec" -np 2 "$sft" "${here[@]}" --train.max_steps 8 --checkpoint.resume_from_checkpoint auto
check 'has each step once' test "$(events | sed -n 's/^train\/loss \([0-9]*\) .*/\1/p' | tr '\n' ' ')" = '2 4 6 8 '
check 'and each evaluation' test "$(events | sed -n 's/^eval\/loss \([0-9]*\) .*/\1/p' | tr '\n' ' ')" = '4 8 '

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

# A package in place of W&B's that notes what it is sent.
mkdir package
cat >package/wandb.py <<'PY'
import json


class Run:
    def define_metric(self, *names, **options):
        pass

    def log(self, numbers):
        with open("sent.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(numbers) + "\n")

    def finish(self):
        pass


def init(**options):
    assert options["config"]["train.max_steps"] == "8" and options["resume"] == "allow"
    return Run()
PY
track=(env PYTHONPATH=package "$python" "$source/postprocess/track.py" out-run --to wandb)
succeeds 'sending what there is' "${track[@]}"
check 'steps and evaluations' grep -q '^sent 6 new lines' out
succeeds 'sending again' "${track[@]}" --follow --interval 0.1
check 'sends nothing twice' grep -q '^sent 0 new lines' out
check 'each step has been sent once' test "$(grep -c '"train/loss"' sent.jsonl)" -eq 4
status_of "$python" "$source/postprocess/track.py" data --to wandb
check 'a folder without a run is refused' grep -q '^track.py: error: data is no output_dir of a run' err

# The report.
programs=$(dirname "$sft")
succeeds 'a report' "$python" "$source/postprocess/report.py" out-run --programs "$programs" --prompt 'a' -o report.html
succeeds 'that a browser reads without a network' "$python" "$source/tests/trainer/read_report.py" report.html
for title in Curves Mesh 'Memory and traffic' Timeline Texts Goodput Lineage Configuration; do
  check "with $title" grep -qx "section $title" out
done
for figure in 'loss, nats a target token' 'mesh of ranks' 'planned memory' 'what the time went to'; do
  check "with a figure: $figure" grep -qx "figure $figure" out
done
check 'the plan is in it' grep -qE 'measured peak</td><td>[0-9.]+ MiB, [0-9.]+ % of the plan' report.html
check 'and that it was resumed' grep -q 'where the run was resumed' report.html
finish_checks
