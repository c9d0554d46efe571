#!/usr/bin/env bash
# Each signal to a script reaches the command of run_until_stopped, and the script ends with the command's status, also
# when the command ends at once.
#
#   stop_and_requeue.sh JOBS_FOLDER
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/job.sh" <<JOB
source "$1/stop_and_requeue.sh"
kill() { builtin kill "\$@" && sleep 0.2; } # the command ends before the script looks again
run_until_stopped bash -c 'trap "exit 75" USR1; touch "$work/ready"; sleep 5 & wait'
JOB

failures=0
for signal in HUP INT TERM USR1; do
  rm -f "$work/ready"
  env --default-signal=INT bash "$work/job.sh" & # a shell starts background commands with SIGINT ignored
  job=$!
  until [[ -e $work/ready ]]; do sleep 0.02; done
  kill -s "$signal" "$job"
  status=0
  wait "$job" || status=$?
  echo "$signal: status $status"
  [[ $status -eq 75 ]] || failures=$((failures + 1))
done
exit $((failures > 0))
