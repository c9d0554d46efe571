# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: whether and how its SLURM job goes back into the queue. An option of sft-run that it reads:
# most_without_progress.
# shellcheck disable=SC2154  # sft-run sets it

# job_id: of this job; of one task where it is an array, whose last task has the number of the whole.
job_id() {
  if [[ -n ${SLURM_ARRAY_JOB_ID-} && -n ${SLURM_ARRAY_TASK_ID-} ]]; then
    echo "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
  else
    echo "${SLURM_JOB_ID-}"
  fi
}

# value_of NAME SHOWN: what `scontrol show job` says under that name; nothing where it says nothing.
value_of() { sed -nE "s/(^|.*[^a-zA-Z])$1=([^ ]*).*/\\2/p" <<<"$2" | head -n 1; }

# fate_of_job SHOWN: what SLURM is doing with the job that `scontrol show job` has shown: `runs`, which is so also where it
# was sent a signal, and where SLURM does not answer; `ends`, since its time is over or it gives way to another one;
# `returns`, where SLURM puts it back itself; or `cancelled`.
fate_of_job() {
  local -r state=$(value_of JobState "$1") preempted=$(value_of PreemptTime "$1")
  case $state in
    RUNNING | SUSPENDED | '') echo runs ;;
    *)
      if [[ $(value_of EndTime "$1") == Unknown || $state == PENDING ]]; then
        echo returns
      elif [[ $(value_of Reason "$1") == TimeLimit || $preempted == [0-9]* ]]; then
        echo ends
      else
        echo cancelled
      fi
      ;;
  esac
}

# gains_by_queue FOLDER OUTPUT_DIR: a run that was stopped may go on from the queue: it has saved since it began, or too few
# stops in a row came no further.
gains_by_queue() {
  local without_progress step
  if note_progress "$1" "$2"; then return; fi
  without_progress=$(<"$1/without_progress") step=$(step_of "$(newest_checkpoint "$2")")
  if [[ $without_progress -ge $most_without_progress ]]; then
    printf 'Job %s does not go back into the queue: %d starts in a row came no further than step %d.\n' "$(job_id)" \
      $((without_progress + 1)) "$step"
    return 1
  fi
  record "$2" 75 "$step" $((without_progress + 1)) ''
}

# requeue_job FOLDER: the job goes back into the queue, unless somebody cancels it; for other nodes than the excluded ones,
# where its partition has enough of them.
requeue_job() {
  local shown former partition left fate
  local -r id=$(job_id)
  shown=$(scontrol --oneliner show job "$id" 2>/dev/null || true)
  fate=$(fate_of_job "$shown")
  case $fate in
    runs | ends) echo "Job $id goes back into the queue." ;;
    returns)
      echo "Job $id goes back into the queue by itself."
      return
      ;;
    *)
      echo "Job $id does not go back into the queue: it is cancelled."
      return
      ;;
  esac
  scontrol requeue "$id" || return
  if [[ ! -s $1/excluded ]]; then return; fi
  former=$(value_of ExcNodeList "$shown")
  if [[ -n $former && $former != "(null)" ]]; then scontrol show hostnames "$former" >>"$1/excluded"; fi
  sort -u -o "$1/excluded" "$1/excluded"
  partition=$(value_of Partition "$shown")
  left=$(sinfo --noheader --Node --partition="$partition" --format=%N | sort -u | grep -cvFx -f "$1/excluded" || true)
  if [[ $left -lt ${SLURM_JOB_NUM_NODES:-1} ]]; then return; fi
  scontrol update "JobId=$id" "ExcNodeList=$(paste -sd, "$1/excluded")" || true
}
