#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tbparse finds points twice where a run was resumed and TensorBoard finds them once.
#
# A program that resumes a run writes a second event file into its folder, which begins with a session log "start" at the step
# it goes on from (torch's SummaryWriter does so for purge_step). TensorBoard then drops the points after that step that it
# read from the first file. tbparse, and trackio.import_tf_events which uses it, reads each file by itself, so the steps that
# were done again stand twice in its table, without a warning.
#
# Seen with tensorboard 2.21.0, tbparse 0.0.9 and pandas 2.3.3 on 2026-11-28:
#   TensorBoard: [1, 2, 3, 4]
#   tbparse: [1, 2, 3, 3, 4]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet tensorboard==2.21.0 tbparse==0.0.9 pandas==2.3.3
cat >read.py <<'PY'
import time
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tbparse import SummaryReader


def write(steps, restarts_at=None):
    writer = EventFileWriter("run")
    if restarts_at is not None:
        log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        writer.add_event(event_pb2.Event(step=restarts_at, wall_time=time.time(), session_log=log))
    for step in steps:
        value = summary_pb2.Summary.Value(tag="loss", simple_value=1.0 / step)
        writer.add_event(event_pb2.Event(step=step, wall_time=time.time(), summary=summary_pb2.Summary(value=[value])))
    writer.close()
    time.sleep(1.1)  # names of event files hold seconds


write([1, 2, 3])
write([3, 4], restarts_at=3)
accumulator = EventAccumulator("run")
accumulator.Reload()
print("TensorBoard:", [event.step for event in accumulator.Scalars("loss")])
print("tbparse:", sorted(SummaryReader("run").scalars.step.tolist()))
PY
venv/bin/python read.py 2>/dev/null | tee out
printf 'TensorBoard: [1, 2, 3, 4]\ntbparse: [1, 2, 3, 3, 4]\n' | cmp - out
