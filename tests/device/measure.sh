# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# The parts of run.sh that measure. Uses what run.sh and report.sh have, $mpiexec and $python.

read -r -a models <<<"${SFT_DEVICE_MODELS:-qwen2.5-0.5b qwen3-8b llama-3.1-8b}"
read -r -a lengths <<<"${SFT_DEVICE_LENGTHS:-4096 16384 65536}"
roofline_tokens=${SFT_DEVICE_TOKENS:-16384} # of a micro-batch of memory-bound kernels
step_tokens=${SFT_DEVICE_STEP_TOKENS:-65536}
steps=${SFT_DEVICE_STEPS:-3}
least_share=0.8        # of a memory-bound kernel: within 1.25 of its roofline
most_over_products=1.25 # a step over its products and attention

# shape MODEL LENGTH: sets rows, accumulation and checkpointing of a step on rows of LENGTH tokens. The small model has
# micro-batches of up to 16384 tokens, the large ones of a row, and long rows are computed again, so that layers fit.
shape() {
  rows=1 checkpointing=none
  if [[ $1 == qwen2.5-0.5b ]]; then
    rows=$((16384 / $2))
    if [[ $rows -lt 1 ]]; then rows=1; fi
  elif [[ $2 -gt 16384 ]]; then
    checkpointing=full
  fi
  accumulation=$((step_tokens / (rows * $2)))
  if [[ $accumulation -lt 1 ]]; then accumulation=1; fi
}

# With words of the caller, such as small sizes for a GPU that is emulated.
read -r -a bench_ops_words <<<"${SFT_DEVICE_BENCH_OPS:-}"
bench_ops=("$( (program bench_ops) 2>/dev/null || echo "$build/bin/bench_ops")" --backend cuda --precision bf16 "${bench_ops_words[@]}")

# timed_ops FILE: name, ms, rate, unit and share of the roof of every op that bench_ops printed, between tabs.
timed_ops() {
  awk -v OFS='\t' '/ of the roof / {
    for (i = 1; i <= NF; ++i) if ($i == "of" && $(i + 1) == "the" && $(i + 2) == "roof") at = i
    name = $1
    for (i = 2; i < at - 5; ++i) name = name " " $i
    print name, $(at - 5), $(at - 3), $(at - 2), $(at - 1)
  }' "$1"
}

part_rooflines() {
  local model name share slowest least num
  for model in "${models[@]}"; do
    logged "$model" "${bench_ops[@]}" --model "$model" --part memory --tokens "$roofline_tokens" \
      --length "${lengths[0]}" || {
      record FAIL "$model: memory-bound kernels" "see $log"
      continue
    }
    least=1000 slowest='' num=0
    while IFS=$'\t' read -r name _ _ _ share; do
      num=$((num + 1))
      printf '        %-28s %s\n' "$name" "$share"
      if awk "BEGIN { exit !($share < $least) }"; then least=$share slowest=$name; fi
      if awk "BEGIN { exit !($share < $least_share) }"; then
        record FAIL "$model: $name" "$share of the bandwidth of a copy"
      fi
    done < <(timed_ops "$log")
    judge "$model: the slowest of $num memory-bound kernels" "$least of the bandwidth of a copy ($slowest)" \
      "$num > 0 && $least >= $least_share"
  done
}

# mean_rate FILE NAME: rate, unit and share of the roof of all ops whose name begins so, together.
mean_rate() {
  timed_ops "$1" | awk -F '\t' -v name="$2" '
    index($1, name) == 1 { ms += $2; work += $2 * $3; share += $2 * $5; unit = $4 }
    END { if (ms > 0) printf "%.1f %s, %.2f of the roof", work / ms, unit, share / ms }'
}

# timed_by_torch FILE: name, ms and rate of every op that peer_ops.py printed, between tabs.
timed_by_torch() {
  awk -v OFS='\t' 'NF > 4 && $(NF - 2) == "ms" && $NF == "TF/s" {
    name = $1
    for (i = 2; i < NF - 3; ++i) name = name " " $i
    print name, $(NF - 3), $(NF - 1)
  }' "$1"
}

# over_torch OURS NAME TORCH NAME: the rate of all ops of PyTorch whose first word is that name, and ours over it; with the
# least of those that have the same words behind the first. OURS is what bench_ops printed, TORCH what peer_ops.py printed;
# our name is an expression, of ops that do together what PyTorch's do.
over_torch() {
  awk -F '\t' -v ours="$2" -v theirs="$4" '
    { first = rest = $1; sub(/ .*/, "", first); sub(/^[^ ]* ?/, "", rest) }
    FNR == NR { if (first ~ "^(" ours ")$") { our_ms += $2; by_rest[rest] += $2 }; next }
    first == theirs {
      ms += $2; work += $2 * $3; num += 1
      if (by_rest[rest] > 0 && (least == "" || $2 / by_rest[rest] < least)) { least = $2 / by_rest[rest]; at = rest }
    }
    END {
      if (ms <= 0 || our_ms <= 0) exit
      printf "%.1f TF/s, ours over it %.2f", work / ms, ms / our_ms
      if (num > 1 && least != "") printf ", least %.2f of %s", least, at
    }' <(timed_ops "$1") <(timed_by_torch "$3")
}

part_products() {
  local model length what
  for length in "${lengths[@]}"; do
    for model in "${models[@]}"; do
      shape "$model" "$length"
      logged "$model-$length" "${bench_ops[@]}" --model "$model" --part products --tokens $((rows * length)) \
        --length "$length" || {
        record FAIL "$model, rows of $length: products" "see $log"
        continue
      }
      sed 's/^/        /' "$log"
      for what in matmul attention_forward attention_backward; do
        record FIGURE "$model, rows of $length: $what" "$(mean_rate "$log" "$what")"
      done
    done
  done
}

# run_step NAME MODEL LENGTH LAYERS: steps of a model; its figures are in $log.
run_step() {
  logged "$1" "$mpiexec" -np 1 "$(program bench_step)" --backend cuda --precision bf16 --model "$2" --layers "$4" \
    --length "$3" --rows "$rows" --accumulation "$accumulation" --activation_checkpointing "$checkpointing" \
    --steps "$steps"
}

part_step() {
  local model length layers what mfu step_s products_s ratio
  for length in "${lengths[@]}"; do
    for model in "${models[@]}"; do
      shape "$model" "$length"
      run_step "$model-$length" "$model" "$length" fit || {
        record FAIL "$model, rows of $length" "see $log"
        continue
      }
      sed 's/^/        /' "$log"
      layers=$(value layers "$log") step_s=$(value step_s "$log")
      what="$model with $layers layers, rows of $length, recomputation $checkpointing"
      record FIGURE "$what: tokens/s" "$(value tokens_per_second "$log")"
      mfu=$(value mfu "$log")
      record FIGURE "$what: MFU" "${mfu:-unknown, as the peak of this GPU is}"
      logged "$model-$length-products" "${bench_ops[@]}" --model "$model" --part products --layers "$layers" \
        --tokens $((rows * length)) --length "$length" --activation_checkpointing "$checkpointing" || {
        record FAIL "$what: its products and attention" "see $log"
        continue
      }
      products_s=$(value sum_s "$log")
      ratio=$(awk "BEGIN { printf \"%.2f\", $step_s / ($accumulation * $products_s) }")
      judge "$what: step over its products and attention" "$ratio" "$ratio <= $most_over_products"
    done
  done
}

# run_peer NAME MODEL LENGTH LAYERS: the same of PyTorch; status 3 where its memory does not suffice.
run_peer() {
  logged "$1" "$python" "$(script ../tools/benchmarks/peer_torch.py)" --device "${SFT_DEVICE_PEER:-cuda}" --precision bf16 \
    --compile --model "$2" --layers "$4" --length "$3" --rows "$rows" --accumulation "$accumulation" --steps "$steps"
}

# Beside PyTorch at the first of the lengths, one after the other, with as many layers as fit both.
part_peers() {
  local model length=${lengths[0]} layers fitting status ours theirs
  if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
    record SKIP "PyTorch" "$python has no torch and transformers (PYTHON names another one)"
    return
  fi
  "$python" -c 'import torch, transformers; print("torch", torch.__version__, "transformers", transformers.__version__)' |
    tee -a "$output/machine.txt"
  for model in "${models[@]}"; do
    shape "$model" "$length"
    run_step "$model-sft" "$model" "$length" fit || {
      record FAIL "$model, rows of $length" "see $log"
      continue
    }
    fitting=$(value layers "$log") ours=$(value tokens_per_second "$log")
    layers=$fitting
    # PyTorch needs more memory: where that decides, it begins with fewer, since a failed try takes a minute.
    if [[ $fitting -lt $(value layers "$log" 4) ]]; then layers=$((fitting - fitting / 8)); fi
    while true; do
      status=0
      run_peer "$model-torch-$layers" "$model" "$length" "$layers" || status=$?
      if [[ $status -ne 3 || $layers -le 1 ]]; then break; fi
      layers=$((layers - (layers + 7) / 8))
    done
    if [[ $status -ne 0 ]]; then
      record FAIL "$model with $layers layers: PyTorch" "status $status, see $log"
      continue
    fi
    theirs=$(value tokens_per_second "$log")
    if [[ $layers -ne $fitting ]]; then
      run_step "$model-sft-$layers" "$model" "$length" "$layers" || {
        record FAIL "$model with $layers layers, rows of $length" "see $log"
        continue
      }
      ours=$(value tokens_per_second "$log")
    fi
    judge "$model with $layers layers, rows of $length: tokens/s over PyTorch's, compiled, SDPA" \
      "$ours / $theirs = $(awk "BEGIN { printf \"%.2f\", $ours / $theirs }")" "$ours >= $theirs"
    if [[ $layers -ne $fitting ]]; then
      record FIGURE "$model, rows of $length: layers that fit" "$fitting, of PyTorch $layers"
    fi
  done
}
