#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-run, where its launcher cannot start the ranks, or starts none, in one line; and where sft-run itself is killed: its
# ranks save and stop.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

mkdir tmp
export TMPDIR=$work/tmp SFT_RESTART_PAUSE_S=0 OMP_NUM_THREADS=1
unset OMPI_MCA_rmaps_base_oversubscribe
make_run run.ini 60 1000000
printf '[checkpoint]\nsave_steps = 0\n' >>run.ini
words=(run.ini --train.max_steps 1 --train.output_dir refused)

# says STATUS PATTERN LAUNCHER [WORD...]: sft-run with that launcher ends so, with one line alone on standard error.
says() {
  local -r expected=$1 pattern=$2 launcher=$3
  shift 3
  refuses "$expected" "$pattern" "$sft_run" "$@" --launcher "$launcher" "${words[@]}"
  check 'in one line' test "$(wc -l <err)" = 1
}

# A launcher that starts nothing, and calls it a success.
printf '#!/usr/bin/env bash\nexit 0\n' >starts-nothing
chmod +x starts-nothing
for launcher in true "$work/starts-nothing -n 4" 'echo mpirun'; do
  says 1 "^sft-run: error: $launcher ended with status 0 without having started a rank " "$launcher"
done
status_of "$sft_run" --restarts 1 --launcher true "${words[@]}"
check 'nor is it one with --restarts' test "$status $(grep -c 'without having started a rank' err)" = '1 2'
status_of "$sft_run" --launcher true none.ini
check 'nor where the run cannot be read' test "$status" = 1
succeeds 'ranks that run are a success' "$sft_run" --launcher env "${words[@]}"
check 'without a word of errors' test ! -s err
# In place of a launcher whose ranks are on other machines, which see the output folder alone.
succeeds 'so are ranks elsewhere' "$sft_run" --launcher 'env -u SFT_RUN_FOLDER' run.ini --train.max_steps 1 --output_dir elsewhere
says 1 'without having started a rank' true --without_progress 3

# Words of ssh are not kept from a user who waits.
cat >waits <<'WAITS'
#!/usr/bin/env bash
echo 'ssh: connect to host nosuch port 22: Connection timed out' >&2
sleep 4
exec "$@"
WAITS
chmod +x waits
"$sft_run" --launcher ./waits "${words[@]}" >out 2>err &
sleep 3.5
check 'words of ssh are told while the launcher waits' grep -q '^ssh: connect to host nosuch' err
check 'and the run goes on' wait "$!"
check 'once' test "$(grep -c '^ssh: ' err)" = 1

# Hostfiles that are none.
: >empty
mkfifo pipe
mkdir folder
while read -r option file pattern; do
  says 2 "$pattern" "mpirun $option $file -np 2"
done <<'HOSTFILES'
--hostfile missing there is no hostfile missing \(the path does not exist\)
-machinefile missing there is no hostfile missing
--hostfile folder the hostfile folder is a folder
--hostfile pipe the hostfile pipe is no file \(a pipe can be read only once\)
--hostfile empty the hostfile empty names no host
HOSTFILES
says 2 'there is no hostfile missing' 'mpirun --hostfile=missing -np 2'

if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
  echo 'localhost slots=1' >one
  says 2 'mpirun has no room for 4 ranks' 'mpirun --hostfile one -np 4'
  OMPI_MCA_orte_default_hostfile=$work/missing says 2 "mpirun cannot open the hostfile $work/missing" 'mpirun -np 2'
  for launcher in 'mpirun --mca pml nosuch -np 2' 'mpirun --map-by socket:PE=512 -np 2'; do
    status_of "$sft_run" --launcher "$launcher" "${words[@]}"
    check "$launcher is no success" test "$status" != 0 -a "$status" != 75
    check 'and has a reason' test -s err
  done
  # Hosts that ssh does not reach; it prints what ssh prints.
  mkdir agents
  cat >agents/agent <<'AGENT'
#!/usr/bin/env bash
echo "ssh: Could not resolve hostname $1: Name or service not known" >&2
exit 255
AGENT
  chmod +x agents/agent
  export OMPI_MCA_plm_rsh_agent=$work/agents/agent PRTE_MCA_plm_ssh_agent=$work/agents/agent
  says 1 'cannot start ranks on all hosts \(ssh: Could not resolve hostname nosuch: Name or service not known\)' \
    'mpirun --host nosuch:2 -np 2'
  printf '#!/usr/bin/env bash\nexit 1\n' >agents/agent
  says 1 'cannot start ranks on all hosts \(its daemon does not start there' 'mpirun --host nosuch:2 -np 2'
  unset OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent
fi

# kill_run FOLDER PROCESS: starts sft-run in a session of its own, kills PROCESS (all: its process group) after some steps,
# and waits until no rank is left.
kill_run() {
  local pid
  : >out
  setsid "$sft_run" -n 2 run.ini --train.output_dir "$1" >out 2>err </dev/null &
  pid=$!
  disown "$pid" # without the shell's own word on its end
  until grep -q ' 1/1000000 ' out || ! kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  if [[ $2 == all ]]; then kill -KILL -- "-$pid"; else kill -KILL "$pid"; fi
  for _ in $(seq 300); do
    if [[ -z $(processes_of "$sft run.ini --train.output_dir $1") ]]; then break; fi
    sleep 0.1
  done
}
for which in one all; do
  kill_run "killed-$which" "$which"
  check "kill -9 of sft-run, $which: no rank is left" test -z "$(processes_of "$sft run.ini --train.output_dir killed-$which")"
  check 'they have saved' compgen -G "killed-$which/checkpoint-*/checkpoint.h5"
done
finish_checks
