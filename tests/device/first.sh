# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# The part of run.sh for a GPU that nothing has run on yet: it teaches as much as ten minutes can. Steps are processes of
# their own with limits of their own, so that one that hangs or crashes takes nothing with it but what builds on it: a
# FAIL line for it, SKIP for those. What there is lies packed in $output/first.tar.gz after every step. No step needs
# mpirun. Uses what run.sh and report.sh have.

# One kernel of each source file of the ops: FILE PROGRAM CASES. A crash names the file. first_test.sh holds it against the
# sources. Those of src/hardware/comm run between ranks that have a GPU each.
first_kernels() {
  cat <<'LIST'
elementary.cu device_ops_test elementary/add_and_scale
reduce.cu device_ops_test elementary/bias_backward
upload.cu device_ops_test elementary/upload
random.cu device_ops_test random_numbers/add_uniform
embedding.cu device_ops_test block_ops/embedding_forward
sort.cu device_ops_test block_ops/embedding_backward
cross_entropy.cu device_ops_test block_ops/cross_entropy
gated.cu device_ops_test block_ops/swiglu
rms_norm.cu device_ops_test rms_norm/forward_and_apply
split_norm.cu device_ops_test rms_norm/columns_of_several_ranks
rope.cu device_ops_test rotary/forward_and_backward
update.cu device_ops_test optimizer/every_rule_of_every_dtype
update_blockwise.cu device_ops_test optimizer/blocks_of_codes
factored.cu device_ops_test factored/factors_of_moments
magnitudes.cu device_ops_test magnitudes/factors
four_bits.cu device_ops_test four_bits/read_four_bits
fp8.cu device_ops_test fp8_rounding/codes_and_scales
fp8_runs.cu device_ops_test fp8_rounding/runs
router.cu device_experts_test experts/router
expert_rows.cu device_experts_test experts/rows_of_tokens
attention_delta.cu device_attention_test attention/delta_is_the_product_of_output_and_its_gradient
attention_float32.cu device_attention_test attention/no_queries_or_no_keys
attention_sm80_forward.cu device_attention_test attention/rows_without_a_span_are_left_alone_by_a_merge
attention_sm80_backward.cu device_attention_test attention/a_document_does_not_see_its_neighbours
attention_sm90_forward.cu device_hopper_test attention/rows_without_a_span_are_left_alone_by_a_merge
attention_sm90_backward.cu device_hopper_test attention/a_document_does_not_see_its_neighbours
attention_merge.cu device_attention_test attention_merge/results_of_other_keys
attention_sinks.cu device_attention_test attention_scores/gradients_of_sinks_of_any_size
LIST
}

# pack: everything so far, in one file that is whole at any time.
pack() {
  # A step that was ended may leave a process behind that still writes: tar warns, and has all the rest.
  tar -C "$output" -czf "$output/first.tar.gz.new" results.tsv machine.txt first 2>/dev/null || true
  mv "$output/first.tar.gz.new" "$output/first.tar.gz"
}

declare -A first_failed=()

# step NAME NEEDS SECONDS WHAT COMMAND...: a line of the table. NEEDS: steps, between commas, that it builds on, or -.
# Ends within SECONDS, or SFT_DEVICE_STEP_S; SKIP where the part's time is up before that. Never fails itself.
step() {
  local name=$1 needs=$2 seconds=${SFT_DEVICE_STEP_S:-$3} what=$4 need status=0 begin=$SECONDS
  shift 4
  if [[ $begin -ge $deadline ]]; then
    skip "$name" "$what" "$no_time"
    return 0
  fi
  local -a all
  IFS=, read -r -a all <<<"$needs"
  for need in "${all[@]}"; do
    if [[ -n ${first_failed[$need]:-} ]]; then
      skip "$name" "$what" "it builds on $need"
      return 0
    fi
  done
  local limit=$seconds took whole=$deadline
  if [[ $((deadline - begin)) -lt $limit ]]; then limit=$((deadline - begin)); fi
  if [[ ! -x $(command -v "$1") ]]; then
    log=$output/$part/$name.log
    echo "$1 is not there" >"$log"
    status=127
  else
    deadline=$((begin + limit))
    logged "$name" "$@" || status=$?
    deadline=$whole
  fi
  took=$((SECONDS - begin))
  # Killed by force, behind its limit; before that a signal is not of timeout.
  if [[ $status -eq 137 && $took -ge $limit ]]; then status=124; fi
  if [[ $status -eq 124 && $limit -lt $seconds ]]; then
    skip "$name" "$what" "$no_time: ended after $took of its $seconds s, see $log"
    return 0
  fi
  case $status in
    0) record PASS "$what" "$took s" ;;
    124) record FAIL "$what" "no end after $took s, see $log" ;;
    127) record FAIL "$what" "$(grep -m1 -E 'cannot open shared|not found|is not there' "$log" || tail -n 1 "$log")" ;;
    13[0-9] | 14[0-9]) record FAIL "$what" "ended by signal $((status - 128)), see $log" ;;
    *) record FAIL "$what" "status $status: $(reason "$log")" ;;
  esac
  if [[ $status -ne 0 ]]; then first_failed[$name]=$name; fi
  pack
  return 0
}

# reason FILE: the first line of what a program printed that says what went wrong. Of a very long one its beginning and its
# end: what is missing is named in the one, what to do about it in the other.
reason() {
  { grep -m1 'error:' "$1" || grep -m1 'failed' "$1" || true; } | tr '\t' ' ' | awk -v half=300 '
    length($0) > 2 * half { $0 = substr($0, 1, half) " [...] " substr($0, length($0) - half + 1) }
    { print }'
}

# skip NAME WHAT WHY: the line of a step that is not taken, nor are those that build on it.
skip() {
  first_failed[$1]=skipped
  record SKIP "$2" "$3"
  pack
}

# path NAME: of a program, also of one that is missing.
path() { (program "$1") 2>/dev/null || echo "$build/bin/$1"; }

# figures NAME WHAT: rates that bench_ops printed in the step of that name.
figures() {
  [[ -n ${first_failed[$1]:-} ]] && return 0
  local op
  for op in matmul attention_forward attention_backward; do
    local rate
    rate=$(mean_rate "$output/$part/$1.log" "$op")
    if [[ -n $rate ]]; then record FIGURE "$2: $op" "$rate"; fi
  done
}

# beside_torch NAME WHAT: rates of PyTorch, and those that bench_ops printed in the step of that name over them.
beside_torch() {
  [[ -n ${first_failed[$1]:-}${first_failed[torch_ops]:-} ]] && return 0
  local ours theirs rate
  while read -r ours theirs; do
    rate=$(over_torch "$output/$part/$1.log" "$ours" "$output/$part/torch_ops.log" "$theirs")
    if [[ -n $rate ]]; then record FIGURE "$2: $theirs" "$rate"; fi
  done <<'LIST'
matmul torch.mm
attention_forward torch.flash_forward
attention_backward|attention_delta torch.flash_backward
attention_forward torch.cudnn_forward
attention_backward|attention_delta torch.cudnn_backward
LIST
}

# has_torch: whether PyTorch is there and finds the GPU; a driver that hangs is not waited for.
has_torch() {
  timeout --kill-after=1 "${SFT_DEVICE_STEP_S:-60}" "$python" -c '
import sys, torch
sys.exit(sys.argv[1] == "cuda" and not torch.cuda.is_available())' "$peer" >/dev/null 2>&1
}

# unless_given OPTION VALUE: these words, but for an option of bench_ops that SFT_DEVICE_BENCH_OPS has.
unless_given() { [[ " ${bench_ops_words[*]} " == *" $1 "* ]] || echo "$1 $2"; }

part_first() {
  # A process of MPI by itself needs no daemon.
  export OMPI_MCA_ess_singleton_isolated=1 SFT_OPS_SIZES=small SFT_ATTENTION_ROUNDS=1
  local file name cases what
  first_failed=()
  deadline=$((SECONDS + ${SFT_DEVICE_PART_S:-540}))
  if command -v nvidia-smi >/dev/null; then
    step smi - 20 "the driver answers" nvidia-smi
  else
    record SKIP "the driver answers" "there is no nvidia-smi"
  fi
  step device - 60 "the GPU is there: memory, copies, a kernel" "$(path device_ops_test)" --run_test=elementary/fill
  while read -r file name cases; do
    if [[ $name == device_hopper_test ]] && ! is_hopper; then
      record SKIP "a kernel of $file" "it is for GPUs of compute capability 9.0"
      continue
    fi
    step "$file" device 30 "a kernel of $file" "$(path "$name")" "--run_test=$cases"
  done < <(first_kernels)
  step products device 60 "products of cuBLASLt, small" "$(path device_ops_test)" --run_test=products
  # shellcheck disable=SC2046
  step roof products 40 "a copy, and a product of cuBLASLt of 4096^3" \
    "${bench_ops[@]}" --model "${models[0]}" --part products --layers 1 --tokens 256 --length 128 \
    $(unless_given --product_size 4096) $(unless_given --repetitions 2)
  figures roof "256 tokens"
  step loops attention_sm80_forward.cu,attention_sm80_backward.cu 40 "attention as the formula's loops have it" \
    "$(path device_attention_test)" --run_test=attention/gradients_are_those_of_the_formula
  if is_hopper; then
    step hopper_loops attention_sm90_forward.cu,attention_sm90_backward.cu 40 "attention for Hopper as the loops have it" \
      "$(path device_hopper_test)" --run_test=attention/gradients_are_those_of_the_formula
    step hopper hopper_loops 60 "attention for Hopper as on CPUs" "$(path device_hopper_test)"
  fi
  step nccl_alone device 40 "NCCL alone, without MPI" "$(path device_nccl_probe)"
  for what in versions memory; do
    [[ -n ${first_failed[nccl_alone]:-} ]] || record FIGURE "NCCL alone: $what" "$(sed -n "s/^$what: //p" "$log")"
  done
  step nccl nccl_alone 40 "NCCL on one rank" "$(path device_nccl_test)"
  step experts device,products 60 "products of experts" "$(path device_experts_test)" --run_test=experts/products
  step trainer products,loops 60 "a tiny model for some steps, as on CPUs" "$(path device_trainer_test)"
  unset SFT_OPS_SIZES
  step memory device 60 "memory-bound kernels at the shapes of a step" "${bench_ops[@]}" --model "${models[0]}" \
    --part memory --tokens "$roofline_tokens" --length "${lengths[0]}"
  step rates roof,loops 60 "products and attention at the shapes of a step" "${bench_ops[@]}" --model "${models[0]}" \
    --part products --layers 1 --tokens "${lengths[0]}" --length "${lengths[0]}"
  figures rates "rows of ${lengths[0]}"
  if is_hopper; then
    step hopper_rates rates,hopper_loops 60 "attention for Hopper at the shapes of a step" "${bench_ops[@]}" --model "${models[0]}" \
      --part products --layers 1 --tokens "${lengths[0]}" --length "${lengths[0]}" --attention hopper
    figures hopper_rates "rows of ${lengths[0]}, for Hopper"
  fi
  local peer=${SFT_DEVICE_PEER:-cuda} skipped
  what="products and attention by PyTorch"
  if [[ -n ${first_failed[rates]:-} ]]; then
    skip torch_ops "$what" "it builds on rates"
  elif has_torch; then
    step torch_ops rates 60 "$what" "$python" "$(script ../tools/benchmarks/peer_ops.py)" --device "$peer" \
      --model "${models[0]}" --tokens "${lengths[0]}" --length "${lengths[0]}" \
      --head_tokens "$(value head_tokens "$output/$part/rates.log")"
  else
    skip torch_ops "$what" "$python has no torch that finds a GPU (PYTHON names another one)"
  fi
  beside_torch rates "rows of ${lengths[0]}"
  what="attention of cuDNN"
  if ! (program device_cudnn_test) >/dev/null 2>&1; then
    record SKIP "$what" "the build has none: make cudnn-frontend, then make tools"
  elif ! timeout -k 2 20 "$(program device_cudnn_test)" --run_test=cudnn/is_found >"$output/$part/cudnn_found.log" 2>&1; then
    record SKIP "$what" "$(grep -m1 -o "cuDNN's attention cannot be used.*" "$output/$part/cudnn_found.log" || echo "no cuDNN is found")"
  else
    step cudnn loops 90 "$what, its sums in one order and in any: as our kernels" "$(program device_cudnn_test)" \
      --run_test=cudnn/agrees_with_the_kernels
    step cudnn_rates rates,cudnn 60 "$what at the shapes of a step, in any order" "${bench_ops[@]}" --model "${models[0]}" \
      --part products --layers 1 --tokens "${lengths[0]}" --length "${lengths[0]}" --attention cudnn_unordered
    figures cudnn_rates "rows of ${lengths[0]}, by cuDNN in any order"
  fi
  if is_hopper; then beside_torch hopper_rates "rows of ${lengths[0]}, for Hopper"; fi
  if [[ -z ${first_failed[torch_ops]:-} ]]; then
    while read -r skipped; do record SKIP "${skipped%%: *}" "${skipped#*: }"; done < <(sed -n 's/^skip //p' "$output/$part/torch_ops.log")
  fi
  shape "${models[0]}" "${lengths[0]}"
  step step rates,trainer 60 "optimizer steps of ${models[0]}" "$(path bench_step)" --backend cuda --precision bf16 \
    --model "${models[0]}" --layers "${SFT_DEVICE_FIRST_LAYERS:-4}" --length "${lengths[0]}" --rows "$rows" --steps 2
  local log=$output/$part/step.log
  if [[ -z ${first_failed[step]:-} ]]; then record FIGURE "${models[0]}: tokens/s" "$(value tokens_per_second "$log")"; fi
  if "$python" -c 'import torch, transformers' 2>/dev/null; then
    step torch step 120 "the same steps by PyTorch" "$python" "$(script ../tools/benchmarks/peer_torch.py)" \
      --device "$peer" --precision bf16 --model "${models[0]}" \
      --layers "${SFT_DEVICE_FIRST_LAYERS:-4}" --length "${lengths[0]}" --rows "$rows" --accumulation 1 --steps 2
    log=$output/$part/torch.log
    if [[ -z ${first_failed[torch]:-} ]]; then
      record FIGURE "${models[0]}: tokens/s of PyTorch" "$(value tokens_per_second "$log")"
    fi
  else
    record SKIP "the same steps by PyTorch" "$python has no torch and transformers (PYTHON names another one)"
  fi
  if command -v ncu >/dev/null; then
    # shellcheck disable=SC2046
    step ncu rates 60 "what ncu sees of attention" ncu --set basic --kernel-name regex:attention --launch-count 4 \
      "${bench_ops[@]}" --model "${models[0]}" --part products --layers 1 --tokens 4096 --length 4096 \
      $(unless_given --repetitions 1)
  else
    record SKIP "what ncu sees of attention" "there is no ncu (it comes with the CUDA toolkit)"
  fi
  unset SFT_ATTENTION_ROUNDS OMPI_MCA_ess_singleton_isolated
  pack
}
