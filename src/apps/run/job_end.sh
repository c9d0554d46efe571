# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: a SLURM job saves before its time is over. An option of sft-run that it reads: spares.
# shellcheck disable=SC2154  # sft-run sets it

# job_end_s: when the job ends, in seconds since 1970; nothing: its time has no limit, or nobody knows.
job_end_s() {
  local text
  text=$(squeue --noheader --job="$(job_id)" --format=%e 2>/dev/null || true)
  if [[ $text =~ ^[0-9]+-[0-9]+-[0-9]+T ]]; then
    date --date="$text" +%s
  else
    echo "${SLURM_JOB_END_TIME-}"
  fi
}

# number_in NAME: the number under that name in the JSON text of standard input, rounded up; nothing where there is none.
number_in() { sed -nE 's/.*"'"$1"'": ?([0-9]+)(\.[0-9]+)?.*/\1 \2/p' | awk 'END { if (NF) print $1 + (NF > 1) }'; }

# planned_save_s RANKS SFT WORD...: seconds that the dry run plans for a save; nothing where it cannot. RANKS: empty, as many
# as the job has.
planned_save_s() {
  local -r ranks=${1:-$(($(ranks_per_node) * (SLURM_JOB_NUM_NODES - spares)))}
  shift
  timeout 600 nice "$@" --dry-run --json --num_ranks "$ranks" 2>/dev/null | number_in save_s || true
}

# lead_s SAVE_S OUTPUT_DIR: how long before the end a run has to be asked to stop: the step under way, as long as the
# last one that was logged, a save, both twice, and what ending takes.
lead_s() {
  local step_s=''
  if [[ -s $2/metrics.jsonl ]]; then step_s=$(tail -n 1 "$2/metrics.jsonl" | number_in step_time_s); fi
  echo $((60 + 2 * $1 + 2 * ${step_s:-0}))
}

# watch_job_end PID OUTPUT_DIR RANKS SFT WORD...: sends SIGUSR1 to that process when it is time. SFT WORD... on so many
# RANKS is the run. The end of a job can be moved: SLURM is asked again before.
watch_job_end() {
  trap - HUP INT TERM USR1
  local -r pid=$1 output_dir=$2
  local end_s lead save_s
  shift 2
  save_s=$(planned_save_s "$@")
  while end_s=$(job_end_s) && [[ -n $end_s ]]; do
    lead=$(lead_s "${save_s:-30}" "$output_dir")
    if [[ $((end_s - lead)) -le $(date +%s) ]]; then
      echo "The job's time is over in $((end_s - $(date +%s))) s: it is time to save, which is planned to take" \
        "${save_s:-30} s."
      kill -USR1 "$pid"
      return
    fi
    while kill -0 "$pid" 2>/dev/null && [[ $((end_s - lead)) -gt $(date +%s) ]]; do sleep 5 >/dev/null; done
    kill -0 "$pid" 2>/dev/null || return 0
  done
}
