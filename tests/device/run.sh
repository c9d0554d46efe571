#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries and measures the CUDA side on a GPU of this machine: PASS and FAIL lines, and a table of all results at the end.
# README.md says what each part shows. Every part ends within 10 minutes.
#
# usage: tests/device/run.sh [--output FOLDER] [BUILD_FOLDER] [PART...]
#        tests/device/run.sh --programs [BUILD_FOLDER]
#        tests/device/run.sh --pack FILE.tar.xz [BUILD_FOLDER]
#
#   BUILD_FOLDER       where the programs were built; build/release of this source by default, or this script's own folder
#                      if they lie there
#   PART               first ops cudnn sanitizer models nccl rooflines products step peers; all but first by default
#   --output FOLDER    where results go, device_results by default; the table has those of earlier calls too
#   --programs         lists the files that another machine needs; all in one folder will do, beside mpirun and libraries
#   --pack FILE        packs them, without symbols, into an archive of that folder, device_test; fails where it is larger
#                      than SFT_DEVICE_PACK_MIB, 48: what may travel beside the source to a machine that takes 64 MiB
#
# The environment changes what is measured: SFT_DEVICE_MODELS (the names that bench_step knows), SFT_DEVICE_LENGTHS (tokens
# of a row), SFT_DEVICE_STEP_TOKENS (of an optimizer step), SFT_DEVICE_STEPS (of which the median counts),
# SFT_DEVICE_TOKENS (of a micro-batch, for rooflines), SFT_DEVICE_BENCH_OPS (options of bench_ops), SFT_DEVICE_PART_S (time
# of a part), SFT_DEVICE_STEP_S (of a step of the part first), SFT_DEVICE_FIRST_LAYERS (of that
# part), SFT_OPS_SEED (of random inputs), SFT_ATTENTION_ROUNDS, PYTHON (with torch and transformers, for peers).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
all_parts=(first ops cudnn sanitizer models nccl rooflines products step peers)
programs=(device_ops_test device_experts_test device_attention_test device_hopper_test device_trainer_test device_comm_test device_nccl_test
  device_nccl_probe
  bench_ops bench_step sft sft-prepare)
scripts=(run.sh report.sh measure.sh first.sh program.sh ../shell/frame.sh ../shell/runs.sh ../shell/gpu_training.sh
  ../tools/benchmarks/peer_torch.py ../tools/benchmarks/peer_ops.py ../tools/benchmarks/model_sizes.py)

# fail PROBLEM: one line, and the exit status of a wrong command line.
fail() {
  printf 'run.sh: error: %s\n' "$1" >&2
  exit 2
}

output=device_results action=run build='' chosen=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --output)
      output=${2:?run.sh: error: --output needs a folder}
      shift
      ;;
    --programs) action=list ;;
    --pack)
      action=pack archive=$(realpath -m "${2:?run.sh: error: --pack needs a file}")
      shift
      ;;
    -h | --help)
      sed -n '3,27s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      if [[ " ${all_parts[*]} " == *" $1 "* ]]; then
        chosen+=("$1")
      elif [[ -z $build && -d $1 ]]; then
        build=$(cd "$1" && pwd)
      else
        fail "$1 is neither a part (${all_parts[*]}) nor a folder of programs; see --help"
      fi
      ;;
  esac
  shift
done
if [[ -z $build && -x $here/bench_step ]]; then build=$here; fi
build=${build:-$(cd "$here/../.." && pwd)/build/release}
[[ ${#chosen[@]} -gt 0 ]] || chosen=("${all_parts[@]:1}")

# ask_driver FIELDS: a line for each GPU, and for what goes wrong. A driver that hangs is not waited for.
ask_driver() { timeout --kill-after=1 "${SFT_DEVICE_STEP_S:-20}" nvidia-smi "--query-gpu=$1" --format=csv,noheader 2>&1 || true; }

# is_hopper: whether the GPU has compute capability 9.0, for which some kernels are. It is asked once.
is_hopper() { [[ ${capabilities%%$'\n'*} == 9.0 ]]; }

# programs_of_ops: the programs with tests of ops that are for this GPU.
programs_of_ops() {
  echo device_ops_test device_experts_test device_attention_test
  if is_hopper; then echo device_hopper_test; fi
}

# programs_of PART...: those that have to be there and to start. The part first says itself which of its steps lack one.
programs_of() {
  local one
  for one in "$@"; do
    case $one in
      ops | sanitizer) programs_of_ops ;;
      models) echo device_trainer_test sft sft-prepare ;;
      nccl) echo device_nccl_test device_comm_test sft ;;
      rooflines | products) echo bench_ops ;;
      step) echo bench_ops bench_step ;;
      peers) echo bench_step ;;
    esac
  done | tr ' ' '\n' | sort -u
}

# program NAME: its path.
program() {
  local folder
  for folder in "$build/bin" "$build"; do
    if [[ -x $folder/$1 && ! -d $folder/$1 ]]; then
      echo "$folder/$1"
      return
    fi
  done
  fail "there is no program $1 in $build (it is built where CUDA and NCCL are found): build it, or name another folder"
}

# script PATH: a file beside this one, or where it lies in the source.
script() {
  if [[ -e $here/${1##*/} ]]; then echo "$here/${1##*/}"; else echo "$here/$1"; fi
}

# unresolved PROGRAM...: what the loader does not find of their libraries.
unresolved() {
  local name
  for name in "$@"; do ldd "$(program "$name")" 2>&1 || true; done | grep 'not found' | sort -u || true
}

# list: the files that another machine needs.
list() {
  for name in "${programs[@]}"; do program "$name"; done
  if (program device_cudnn_test) >/dev/null 2>&1; then program device_cudnn_test; fi
  for name in "${scripts[@]}"; do readlink -f "$(script "$name")"; done
}

# pack FILE LIMIT_MIB: what list says, in one archive. Programs share most of their code: the dictionary spans them all.
pack() {
  local folder files bytes limit=$(($2 << 20))
  files=$(list)
  folder=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" EXIT
  mkdir "$folder/device_test"
  while read -r file; do
    cp "$file" "$folder/device_test/"
    if [[ $(head -c 4 "$file") == $'\x7fELF' ]]; then strip "$folder/device_test/${file##*/}"; fi
  done <<<"$files"
  tar -C "$folder" -c device_test | xz --lzma2=preset=6,dict=256MiB >"$1"
  bytes=$(stat -c %s "$1")
  printf '%s: %d bytes of %d\n' "$1" "$bytes" "$limit"
  if ((bytes > limit)); then
    du -ck "$folder"/device_test/* | sort -rn >&2
    printf 'run.sh: error: the archive is too large (above: KiB before it is packed): build for one GPU, CUDA_ARCHS=90\n' >&2
    exit 1
  fi
}

case $action in
  list)
    list
    exit 0
    ;;
  pack)
    pack "$archive" "${SFT_DEVICE_PACK_MIB:-48}"
    exit 0
    ;;
esac

capabilities=$(ask_driver compute_cap)
mapfile -t needed < <(programs_of "${chosen[@]}")
for name in "${needed[@]}"; do program "$name" >/dev/null; done
present=()
for name in "${programs[@]}"; do
  if (program "$name") >/dev/null 2>&1; then present+=("$name"); fi
done

# What CUDA's toolkit and PyTorch bring, where it lies in none of the usual places.
export PATH=$PATH:/usr/local/cuda/bin
python=${PYTHON:-python3}
# Last in the list: cuBLAS, NCCL and cuDNN are loaded when they are first called, which no loader says beforehand.
while read -r folder; do
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done < <("$python" -c '
import glob, nvidia
print(*(folder for path in nvidia.__path__ for folder in sorted(glob.glob(path + "/*/lib"))), sep="\n")' 2>/dev/null)
missing=$(unresolved "${needed[@]}")
[[ -z $missing ]] || fail "the programs cannot start: $(paste -sd ';' <<<"$missing" | tr -d '\t')
  CUDA's libraries and NCCL are needed; LD_LIBRARY_PATH names folders, PYTHON an interpreter whose PyTorch has them"

# References of ops are computed on all cores; ranks that share one GPU have one each.
cores=$(env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 1)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
export BOOST_TEST_COLOR_OUTPUT=no
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
mpiexec=$(command -v mpirun || true)
for part in "${chosen[@]}"; do
  case $part in
    models | nccl | step | peers)
      [[ -n $mpiexec ]] || fail "there is no mpirun in PATH (the part $part starts ranks): install Open MPI"
      ;;
  esac
done

mkdir -p "$output"
output=$(cd "$output" && pwd)
touch "$output/results.tsv"
# shellcheck source=tests/device/report.sh
source "$(script report.sh)"
# shellcheck source=tests/device/measure.sh
source "$(script measure.sh)"
# shellcheck source=tests/device/first.sh
source "$(script first.sh)"

part_ops() {
  local seed=${SFT_OPS_SEED:-$RANDOM} name
  for name in $(programs_of_ops); do
    check "$name" "$name: as on the CPU, the same bits twice, inputs of SFT_OPS_SEED=$seed" \
      env OMP_NUM_THREADS="$cores" SFT_OPS_SEED="$seed" SFT_ATTENTION_ROUNDS="${SFT_ATTENTION_ROUNDS:-8}" "$(program "$name")" || true
  done
}

# Programs of a build without cuDNN's headers have no such test.
part_cudnn() {
  if ! (program device_cudnn_test) >/dev/null 2>&1; then
    record SKIP "attention of cuDNN" "the build has none: make cudnn-frontend, then make tools"
    return
  fi
  check cudnn "attention of cuDNN: as on the CPU, as the own kernels, the same bits twice" \
    env OMP_NUM_THREADS="$cores" "$(program device_cudnn_test)" --log_level=message || true
  grep -m1 -o 'cuDNN [0-9.]*, forward.*' "$log" | while read -r found; do record FIGURE "attention of cuDNN" "$found"; done
}

# cuBLASLt's own kernels are left out.
part_sanitizer() {
  local tool name products
  if ! command -v compute-sanitizer >/dev/null; then
    record SKIP "compute-sanitizer" "it is not in PATH (it comes with the CUDA toolkit)"
    return
  fi
  for tool in memcheck racecheck synccheck; do
    for name in $(programs_of_ops); do
      products='!products'
      if [[ $name == device_experts_test ]]; then products='!experts/products'; fi
      check "$tool-$name" "$tool of $name" env SFT_OPS_SIZES=small SFT_ATTENTION_ROUNDS=1 \
        compute-sanitizer --tool "$tool" --error-exitcode 9 --launch-timeout 120 --print-limit 20 \
        "$(program "$name")" "--run_test=$products" || true
    done
  done
}

part_models() {
  local num
  for num in 1 2 4 8; do
    check "trainer-$num" "tiny models, losses and gradient norms as on CPUs, ranks that share one GPU: $num" \
      "$mpiexec" -np "$num" "$(program device_trainer_test)" || true
  done
  check "program" "sft on 2 ranks of one GPU: as on CPUs, resumed with the same bits" \
    env "SFT_TEST_MPIEXEC=$mpiexec" "SFT_TEST_BIN=$(dirname "$(program sft)")" "$(script program.sh)" || true
}

part_nccl() {
  check "nccl" "NCCL on one rank: every call, two communicators on two streams" \
    "$mpiexec" -np 1 "$(program device_nccl_test)" || true
  check "collectives" "the collectives of one rank, by NCCL's way and through the host" \
    "$mpiexec" -np 1 "$(program device_comm_test)" || true
  cat >"$output/nccl/check.ini" <<INI
[model]
hidden_size = 64
num_hidden_layers = 1
intermediate_size = 128
num_attention_heads = 4
vocab_size = 272
[data]
train_files = none
INI
  check "machine" "sft --check on one rank" "$mpiexec" -np 1 "$(program sft)" "$output/nccl/check.ini" --check \
    --device.backend cuda || true
}

describe_machine() {
  date -u '+%Y-%m-%d %H:%M UTC'
  uname -sr
  ask_driver name,driver_version,memory.total
  if (program sft) >/dev/null 2>&1; then "$(program sft)" --version || true; fi
}

describe_machine | tee "$output/machine.txt"
failures=0
for part in "${chosen[@]}"; do
  printf '\n== %s\n' "$part"
  rm -rf "${output:?}/$part"
  mkdir "$output/$part"
  awk -F '\t' -v part="$part" '$1 != part' "$output/results.tsv" >"$output/results.new"
  mv "$output/results.new" "$output/results.tsv"
  deadline=$((SECONDS + ${SFT_DEVICE_PART_S:-580}))
  case $part in
    first) part_first ;;
    ops) part_ops ;;
    cudnn) part_cudnn ;;
    sanitizer) part_sanitizer ;;
    models) part_models ;;
    nccl) part_nccl ;;
    rooflines) part_rooflines ;;
    products) part_products ;;
    step) part_step ;;
    peers) part_peers ;;
  esac
done
print_table "${all_parts[@]}"
exit $((failures > 0))
