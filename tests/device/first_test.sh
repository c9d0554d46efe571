#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The part `first` of run.sh with programs that hang, crash, lack a library or are not there: one FAIL line for each, SKIP
# for what builds on it, and everything so far in one archive.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

run=$test_folder/run.sh

# sound NAME: the program as it should be.
sound() { stand_in build/bin/"$1" <<<'echo "No errors detected"'; }

mkdir -p build/bin tools
tests=(device_ops_test device_experts_test device_attention_test device_hopper_test device_trainer_test device_comm_test device_nccl_test device_cudnn_test)
for name in "${tests[@]}"; do sound "$name"; done
# sound_probe: NCCL's probe as it should be.
sound_probe() { stand_in build/bin/device_nccl_probe <<<'printf "%s\n" "versions: NCCL 2.28.3" "memory: NCCL'"'"'s, registered"'; }
sound_probe
stand_in build/bin/bench_ops <<'END'
echo "matmul qkv            1.000 ms     600.0 TF/s   0.60 of the roof       1.0 ms a micro-batch"
echo "matmul head           3.000 ms     200.0 TF/s   0.20 of the roof       1.0 ms a micro-batch"
echo "attention_forward 4   2.000 ms     300.0 TF/s   0.30 of the roof       2.0 ms a micro-batch"
echo "attention_delta 4     1.000 ms    3000.0 GB/s   0.90 of the roof       1.0 ms a micro-batch"
echo "attention_backward 4  4.000 ms     375.0 TF/s   0.37 of the roof       4.0 ms a micro-batch"
echo "head_tokens 1792"
END
stand_in build/bin/bench_step <<<'echo "tokens_per_second 1000"'
# shellcheck disable=SC2016
stand_in tools/nvidia-smi <<<'if [[ $* == *compute_cap* ]]; then echo "${STUB_CAPABILITY:-9.0}"; else echo "a GPU"; fi'
# shellcheck disable=SC2016
stand_in tools/python <<'END'
case $* in
  -c*) [[ -z ${STUB_NO_TORCH:-} || $2 != *torch* ]] ;;
  */peer_ops.py*)
    echo "torch.mm qkv           1.1000 ms     545.5 TF/s"
    echo "torch.mm head          1.5000 ms     400.0 TF/s"
    echo "torch.flash_forward 4  1.0000 ms     600.0 TF/s"
    echo "torch.flash_backward 4 4.0000 ms     375.0 TF/s"
    echo "skip torch.cudnn: No available kernel. Aborting execution." ;;
  *) echo "tokens_per_second 800" ;;
esac
END
stand_in tools/ncu <<<'echo "a report"'
# No step may start ranks, and sft is not needed.
stand_in tools/mpirun <<<'echo "mpirun was called"; exit 99'
export PATH=$PWD/tools:$PATH PYTHON=$PWD/tools/python SFT_DEVICE_MODELS=qwen3-8b SFT_DEVICE_LENGTHS=4096
shown=(out)

# results: the archive's table.
results() { tar -xzOf device_results/first.tar.gz results.tsv; }

prints 0 ' PASS, 0 FAIL, 1 SKIP$' "$run" build first
check "a step for every kernel's file" test "$(grep -c '^PASS .*a kernel of .*cu:' out)" -ge 24
check "rates are in the table" grep -q 'rows of 4096: matmul *300.0 TF/s' out
check "products of PyTorch" grep -q 'rows of 4096: torch.mm *461.6 TF/s, ours over it 0.65, least 0.50 of head$' out
check "attention of PyTorch" grep -q 'rows of 4096: torch.flash_forward *600.0 TF/s, ours over it 0.50$' out
check "its gradients, beside all that ours take" grep -q 'rows of 4096: torch.flash_backward *375.0 TF/s, ours over it 0.80$' out
check "beside attention for Hopper too" grep -q 'rows of 4096, for Hopper: torch.flash_forward *600.0 TF/s, ours over it 0.50$' out
check "attention that PyTorch has not" grep -q 'torch.cudnn *SKIP *No available kernel. Aborting execution.$' out
check "PyTorch multiplies as many rows of logits" grep -q -- '--head_tokens 1792$' device_results/first/torch_ops.log.command
check "versions of NCCL" grep -q 'NCCL alone: versions *NCCL 2.28.3$' out
check "its memory" grep -q "NCCL alone: memory *NCCL's, registered$" out
check "both rates of steps" grep -q 'tokens/s of PyTorch *800' out
check "the archive has the last step" grep -q 'what ncu sees' <(results)
check "the archive has the logs" grep -q 'first/loops.log$' <(tar -tzf device_results/first.tar.gz)

check "attention for Hopper has a rate" grep -q 'rows of 4096, for Hopper: attention_forward *300.0 TF/s' out
prints 0 ' PASS, 0 FAIL, 3 SKIP$' env STUB_CAPABILITY=8.0 "$run" build first
check "kernels for Hopper are left out elsewhere" test "$(grep -c '^SKIP .*compute capability 9.0' out)" -eq 2
check "what builds on them too" test "$(grep -c 'for Hopper' out)" -eq 0

# No PyTorch.
prints 0 '^SKIP .*products and attention by PyTorch: .*python has no torch that finds a GPU' env STUB_NO_TORCH=1 "$run" build first
check "there are no figures of it" test "$(grep -c 'torch[.]' out)" -eq 0

# Every source of kernels has its step.
# shellcheck source=tests/device/first.sh
first_kernels_of() { sed -n '/^LIST$/q; /<<.LIST.$/,$p' "$test_folder/first.sh" | awk '$1 ~ /[.]cu$/ { print $1 }' | sort; }
kernels_of_source() { find "$source_folder/src/hardware/ops" -name '*.cu' -printf '%f\n' | sort; }
check "kernels that have no step, or steps that have no kernel" diff <(kernels_of_source) <(first_kernels_of)

# A driver that hangs holds nothing else up.
mkdir hangs
stand_in hangs/nvidia-smi <<<'sleep 60'
prints 1 '^FAIL .*the driver answers: no end after 4 s' env PATH="$PWD/hangs:$PATH" SFT_DEVICE_STEP_S=4 "$run" build first
check "kernels are tried all the same" grep -q '^PASS .*a kernel of rope.cu' out

# Attention of cuDNN, where the build has it and finds the library.
check "it is tried" grep -q '^PASS .*attention of cuDNN, its sums in one order and in any' out
rm build/bin/device_cudnn_test
prints 1 '^SKIP .*attention of cuDNN: *the build has none' env PATH="$PWD/hangs:$PATH" SFT_DEVICE_STEP_S=4 "$run" build first
stand_in build/bin/device_cudnn_test <<<"echo \"check problem == '' has failed [cuDNN's attention cannot be used (none)\"; exit 201"
prints 1 "^SKIP .*attention of cuDNN: *cuDNN's attention cannot be used .none" env PATH="$PWD/hangs:$PATH" SFT_DEVICE_STEP_S=4 "$run" build first
sound device_cudnn_test

# A kernel crashes: its line, and nothing else but what builds on it.
stand_in build/bin/device_attention_test <<'END'
if [[ $* == *rows_without_a_span* ]]; then kill -SEGV $$; fi
END
prints 1 '^FAIL .*attention_sm80_forward.cu.*ended by signal 11' "$run" build first
check "one FAIL line" test "$(grep -c '^FAIL ' out)" -eq 1
check "what builds on it is skipped" grep -q '^SKIP .*attention as the formula' out
check "and what builds on that" grep -q '^SKIP .*optimizer steps of' out
check "other kernels are tried" grep -q '^PASS .*attention_sm80_backward.cu' out
sound device_attention_test

# The GPU hangs at once: one line, all others are skipped, and the archive is there.
stand_in build/bin/device_ops_test <<<'sleep 60'
prints 1 '^FAIL .*the GPU is there.*no end after' env SFT_DEVICE_STEP_S=1 "$run" build first
check "one FAIL line of a GPU that hangs" test "$(grep -c '^FAIL ' out)" -eq 1
check "nothing passes behind it" test "$(grep -c '^PASS ' out)" -eq 1
check "the archive of a GPU that hangs" grep -q 'no end after' <(results)
sound device_ops_test

# A program that ends by itself like one that was ended by force is none that hangs.
# shellcheck disable=SC2016
stand_in build/bin/device_experts_test <<<'kill -KILL $$'
prints 1 '^FAIL .*a kernel of router.cu: ended by signal 9' "$run" build first
sound device_experts_test

# The part's time is up: what was not tried is no failure, and is counted. One step is ended by it, or none.
# shellcheck disable=SC2016
stand_in build/bin/device_ops_test <<<'sleep "${STUB_SLEEP:-1.5}"'
prints 0 ' PASS, 0 FAIL, [0-9]+ SKIP, [0-9]+ of them with no time left$' env SFT_DEVICE_PART_S=5 "$run" build first
check "what was in time" grep -q '^PASS .*the GPU is there' out
check "no step is called one that hangs" test "$(grep -c 'no end after' out)" -eq 0
check "steps that build on nothing or on what passed" test "$(grep -c '^SKIP .*a kernel of .*: no time left$' out)" -ge 20
check "the archive has them" grep -q 'no time left' <(results)
prints 0 '^SKIP .*the GPU is there.*: no time left: ended after [0-9]+ of its 60 s' \
  env STUB_SLEEP=60 SFT_DEVICE_PART_S=6 "$run" build first
prints 1 '^FAIL .*the GPU is there.*no end after 2 s' env STUB_SLEEP=60 SFT_DEVICE_PART_S=60 SFT_DEVICE_STEP_S=2 "$run" build first
sound device_ops_test

# NCCL alone comes before what needs MPI too.
stand_in build/bin/device_nccl_probe <<<'echo "sft: error: ncclAllReduce gives wrong numbers" >&2; exit 1'
prints 1 '^FAIL .*NCCL alone, without MPI: status 1: .*ncclAllReduce gives wrong numbers' "$run" build first
check "what needs MPI too is skipped" grep -q '^SKIP .*NCCL on one rank: it builds on nccl_alone' out
check "there are no figures of it" test "$(grep -c 'NCCL alone: ' out)" -eq 0
sound_probe
stand_in build/bin/device_nccl_test <<<'echo "libmpi.so.40: cannot open shared object file" >&2; exit 127'
prints 1 '^FAIL .*NCCL on one rank: .*libmpi.so.40: cannot open' "$run" build first
check "NCCL is tried without MPI" grep -q '^PASS .*NCCL alone, without MPI' out

# A library is missing, a program is missing: said with its name.
stand_in build/bin/device_nccl_test <<'END'
echo "$0: error while loading shared libraries: libnccl.so.2: cannot open shared object file: No such file" >&2
exit 127
END
prints 1 '^FAIL .*NCCL on one rank: .*libnccl.so.2: cannot open' "$run" build first
rm build/bin/device_nccl_test
prints 1 '^FAIL .*NCCL on one rank: .*device_nccl_test is not there' "$run" build first
check "the rest goes on" grep -q '^PASS .*optimizer steps of' out

# A library that is loaded when it is first called: the program's own line, to its end, which says what to do. In a line
# that is longer than anyone reads, the middle goes.
stand_in build/bin/device_nccl_test <<'END'
echo 'NCCL INFO a plug-in failed to load'
printf 'unknown location(0): fatal error: in "every_call_gives_back_what_one_rank_gave": sft::Error: NCCL cannot be used '
printf '(libnccl.so.2: cannot open\tshared object file: %s): install it, add its folder to LD_LIBRARY_PATH, or set comm = host\n' \
  "$(printf "%${STUB_LENGTH:-80}s" | tr ' ' '/')"
exit 201
END
named='^FAIL .*NCCL on one rank: status 201: .*NCCL cannot be used .libnccl.so.2: cannot open shared object file: /'
told='.: install it, add its folder to LD_LIBRARY_PATH, or set comm = host$'
prints 1 "$named/{79}$told" "$run" build first
check "the table has the end too" grep -qE "^ .*NCCL on one rank +FAIL .*$told" out
prints 1 "$named/+ \[\.\.\.\] /+$told" env STUB_LENGTH=5000 "$run" build first
sound device_nccl_test

# Killed in the middle, there is an archive of what was before.
# shellcheck disable=SC2016
stand_in build/bin/device_experts_test <<<'kill -KILL "$RUN_PID"; sleep 1'
rm -rf device_results
bash -c 'export RUN_PID=$$; exec "$0" build first' "$run" >out 2>&1 || true
check "the archive of a run that was killed" grep -q 'a kernel of rope.cu' <(results)
sound device_experts_test

# Parts that start ranks ask for mpirun before anything runs.
sound device_nccl_test
sound sft
mkdir bare
for tool in env bash dirname awk sed grep sort tr ldd cat readlink python3; do ln -s "$(command -v "$tool")" bare/; done
prints 2 'error: there is no mpirun in PATH .the part nccl' env PATH="$PWD/bare" "$run" build nccl
finish_checks
