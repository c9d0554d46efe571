#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh with programs that only print: what passes and fails, the table, the exit status, parts one by one.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

run=$test_folder/run.sh

mkdir -p build/bin tools
for name in device_ops_test device_experts_test device_attention_test device_hopper_test device_trainer_test device_comm_test device_nccl_test device_nccl_probe sft-prepare; do
  stand_in build/bin/"$name" <<<'echo "No errors detected"'
done
stand_in build/bin/sft <<<'echo "sft 0.0.0"'
stand_in build/bin/bench_ops <<'END'
case "$*" in
  *"--part memory"*)
    echo "fill                  0.100 ms    4000.0 GB/s   0.97 of the roof       0.1 ms a micro-batch"
    echo "embedding forward     0.100 ms    4000.0 GB/s   ${STUB_SHARE:-0.90} of the roof       0.1 ms a micro-batch" ;;
  *)
    echo "matmul qkv            1.000 ms     600.0 TF/s   0.60 of the roof       1.0 ms a micro-batch"
    echo "matmul o              3.000 ms     400.0 TF/s   0.40 of the roof       3.0 ms a micro-batch"
    echo "attention_forward 4   2.000 ms     300.0 TF/s   0.30 of the roof       2.0 ms a micro-batch"
    echo "sum_s 0.100000" ;;
esac
END
stand_in build/bin/bench_step <<'END'
while [[ $1 != --layers ]]; do shift; done
if [[ $2 == fit ]]; then layers=24; else layers=$2; fi
printf '%s\n' "layers $layers of 36" "step_s ${STUB_STEP_S:-0.44}" "tokens_per_second 1000" "mfu 0.456"
END
stand_in tools/mpirun <<<'shift 2; exec "$@"'
stand_in tools/compute-sanitizer <<'END'
[[ "$*" != *racecheck* || -z ${STUB_RACE:-} ]]
END
# PyTorch has memory for 20 of the 24 layers that sft has.
stand_in tools/python <<'END'
if [[ $1 == -c ]]; then exit 0; fi
while [[ $1 != --layers ]]; do shift; done
if [[ $2 -gt 20 ]]; then exit 3; fi
echo "tokens_per_second ${STUB_TORCH:-800}"
END
export PATH=$PWD/tools:$PATH PYTHON=$PWD/tools/python
export SFT_DEVICE_MODELS=qwen3-8b SFT_DEVICE_LENGTHS="4096" SFT_DEVICE_STEP_TOKENS=16384
shown=(out)

# The program's own checks need a real sft; the part without them is left to the other parts.
parts=(ops sanitizer nccl rooflines products step peers)
prints 0 ', 0 FAIL, 0 SKIP$' "$run" build "${parts[@]}"
check "three tests of the ops" test "$(grep -c '^PASS .*SFT_OPS_SEED' out)" -eq 3
check "nine runs of the sanitizer" test "$(grep -c '^PASS .*check of device' out)" -eq 9
# shellcheck disable=SC2016
check "rates are weighted by time" grep -q 'matmul *450.0 TF/s, 0.45 of the roof' out
check "a step over its products" grep -q 'step over its products and attention *PASS *1.10' out
check "PyTorch and sft have as many layers" grep -q '^peers .*18 layers, .*PASS *1000 / 800 = 1.25' out
check "the table names a part once" test "$(grep -c '^peers ' out)" -eq 1

prints 1 '^FAIL .*embedding forward: 0.61 of' env STUB_SHARE=0.61 "$run" build rooflines
prints 1 '^FAIL .*step over its products and attention: 1.50' env STUB_STEP_S=0.6 "$run" build step
prints 1 'racecheck of device_ops_test *FAIL *status 1' env STUB_RACE=1 "$run" build sanitizer
prints 1 '^FAIL .*over PyTorch.s, compiled, SDPA: 1000 / 2000 = 0.50' env STUB_TORCH=2000 "$run" build peers
prints 0 'peers *PyTorch *SKIP' env PYTHON=/nowhere/python "$run" build peers
prints 0 'rooflines .*the slowest of 2' "$run" build rooflines
check "the table has the parts of earlier calls" grep -q '^step ' out

stand_in build/bin/device_ops_test <<<'echo "wrong at element 7"; exit 201'
prints 1 '^ *wrong at element 7' "$run" build ops
check "the table has the failure" grep -q '^ops .*FAIL *status 201' out
stand_in build/bin/device_ops_test <<<'sleep 30'
prints 1 '^FAIL .*device_ops_test.*: no end after' env SFT_DEVICE_PART_S=1 "$run" build ops
check "what has no time left is no failure" test "$(grep -c '^SKIP .*device_.*_test.*: no time left$' out)" -eq 2
check "it is counted" grep -qE ' FAIL, [0-9]+ SKIP, 2 of them with no time left$' out

# NVIDIA's libraries lie nowhere, or where PyTorch is alone.
# shellcheck disable=SC2016
stand_in tools/ldd <<<'[[ :${LD_LIBRARY_PATH:-}: == *:/of/torch:* ]] || echo "libnccl.so.2 => not found"'
prints 2 'error: the programs cannot start: libnccl.so.2 => not found' "$run" build rooflines
stand_in tools/torch_python <<<'echo /of/torch'
prints 0 'rooflines .*the slowest of 2' env PYTHON="$PWD/tools/torch_python" "$run" build rooflines
rm tools/ldd

prints 2 'error: rooflnes is neither a part' "$run" build rooflnes
rm build/bin/bench_step
prints 2 'error: there is no program bench_step' "$run" build step
prints 0 'rooflines .*the slowest of 2' "$run" build rooflines

# All files that --programs lists, in one folder.
stand_in build/bin/bench_step <<<'exit 1'
mkdir packed
"$run" --programs build >files
while read -r file; do cp "$file" packed/; done <files
prints 0 'rooflines .*the slowest of 2' packed/run.sh --output other rooflines

# The same in an archive, which has a limit.
prints 0 '/packed.tar.xz: [0-9]+ bytes of 50331648$' "$run" --pack packed.tar.xz build
rm -r packed other
tar -xf packed.tar.xz
prints 0 'rooflines .*the slowest of 2' device_test/run.sh --output other rooflines
{ echo '#!/bin/sh' && head -c 2000000 /dev/urandom; } >build/bin/bench_step
prints 1 'error: the archive is too large' env SFT_DEVICE_PACK_MIB=1 "$run" --pack packed.tar.xz build
check "what is large comes first" grep -q '^1[0-9]*.*device_test/bench_step$' <(sed -n 3p out)
rm build/bin/bench_step
prints 2 'error: there is no program bench_step' "$run" --pack packed.tar.xz build
finish_checks
