#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole program with device.attention = cudnn on emulated GPUs: it trains as with its own kernels, keeps the graphs it
# compiled, says what cuDNN does and what not, and goes on without it where its numbers are wrong.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
sft=$bin/sft_emulated
# shellcheck source=tests/shell/gpu_training.sh
source "$frame_folder/gpu_training.sh"
export SFT_EMULATED_COMPUTE_CAPABILITY=90 XDG_CACHE_HOME=$work/cache

make_tiny_run 2
sed -i '/^\[model\]$/a head_dim = 16' tiny.ini  # a multiple of 16, which cuDNN's backward pass takes
on_gpus=("${train[@]}" --device.backend cuda --train.precision bf16)
by_cudnn=("${on_gpus[@]}" --device.attention cudnn)

differ() { ! same_bits "$1" "$2"; }
# other_gradients FOLDER FOLDER: their norms, the same but for the rounding of bf16, and in other bits.
other_gradients() {
  local norm='s/.*"grad_norm":\([^,}]*\).*/\1/p'
  paste <(sed -n "$norm" "$1/metrics.jsonl") <(sed -n "$norm" "$2/metrics.jsonl") | awk -v steps="$num_steps" '
    NF != 2 { exit 1 }
    { n += 1; d = $1 - $2; if (d < 0) d = -d; if (d > 2e-3 * $1) bad = 1; if (d > 0) other = 1 }
    END { exit bad || !other || n != steps }'
}
# graphs: how many are stored.
graphs() { find cache/sft/attention -type f 2>/dev/null | wc -l; }

succeeds "its own kernels" "${on_gpus[@]}" --train.output_dir own
check "auto is own: nothing is compiled" test "$(graphs)" -eq 0
succeeds "cuDNN" "${by_cudnn[@]}" --train.output_dir cudnn
check "it says what cuDNN does" \
  grep -qE 'attention: cuDNN 9\.28\.1 forward and backward, tried beside this program.s kernels$' out
check "graphs of each pass are compiled at once" \
  test "$(grep -cE 'attention: graphs of cuDNN for the documents to come: [0-9]+ compiled, [0-9]+ from the folder' out)" -eq 2
check "nothing is warned of" test "$(grep -c 'attention: this program' err)" -eq 0
check "it trains as with its own kernels" near_in_bf16 own cudnn
check "in other bits" differ own cudnn
stored=$(graphs)
check "graphs of both passes are stored" test "$stored" -ge 4
succeeds "once more" "${by_cudnn[@]}" --train.output_dir again
check "with the same bits" same_bits cudnn again
check "it says that all are stored" \
  grep -qE 'attention: graphs of cuDNN for the documents to come: 0 compiled, [0-9]+ from the folder' out
check "from the stored graphs" test "$(graphs)" -eq "$stored"

XDG_CACHE_HOME=$work/forward_cache succeeds "its forward pass alone" "${on_gpus[@]}" --device.attention cudnn_forward --train.output_dir forward
check "it says so" grep -qE 'attention: cuDNN 9\.28\.1 forward; this program.s kernels backward, tried beside' out
check "it trains as with its own kernels" near_in_bf16 own forward
check "no graph of a backward pass is compiled" \
  test "$(find forward_cache -type f | wc -l) $(find forward_cache -name '*backward*' | wc -l)" = "$((stored / 2)) 0"

# Of heads whose backward pass has no bound of memory that a plan could have: said at the start.
uneven=(--model.head_dim 24)
succeeds "heads of no multiple of 16 by its own kernels" "${on_gpus[@]}" "${uneven[@]}" --train.output_dir own_uneven
for choice in cudnn cudnn_unordered; do
  XDG_CACHE_HOME=$work/uneven_cache succeeds "$choice of such heads" "${on_gpus[@]}" --device.attention "$choice" "${uneven[@]}" \
    --train.output_dir "uneven_$choice"
  check "it says why" grep -q 'forward; this program.s kernels backward, as cuDNN.s memory for heads of 24 numbers, no multiple of 16' out
  check "nothing is warned of" test "$(grep -c 'attention: this program' err)" -eq 0
  check "no graph of a backward pass is compiled" test -z "$(find uneven_cache -name '*backward*')"
  check "it trains as with its own kernels" near_in_bf16 own_uneven "uneven_$choice"
done
check "neither sums in any order" same_bits uneven_cudnn uneven_cudnn_unordered
refuses 2 'does not go with model.head_dim = 20' "${by_cudnn[@]}" --model.head_dim 20 --train.output_dir refused_heads

groups=(--train.attention_head_groups 2 --train.activation_checkpointing full)
succeeds "heads in groups by its own kernels" "${on_gpus[@]}" "${groups[@]}" --train.output_dir own_groups
XDG_CACHE_HOME=$work/groups_cache succeeds "heads in groups" "${by_cudnn[@]}" "${groups[@]}" --train.output_dir groups
check "cuDNN does both passes" grep -qE 'attention: cuDNN 9\.28\.1 forward and backward, tried beside' out
check "in the memory that is planned" test "$(grep -c 'attention: this program' err)" -eq 0
check "it trains as with its own kernels" near_in_bf16 own_groups groups
check "in other bits" differ own_groups groups
check "the trial has the heads of a group too" test -z "$(find groups_cache -type f ! -name '*-h2-k1-*')"

windowed=(--model.num_hidden_layers 2 --model.sliding_window 5 --model.layer_types 'full_attention,sliding_attention')
succeeds "windows by its own kernels" "${on_gpus[@]}" "${windowed[@]}" --train.output_dir own_windows
succeeds "windows" "${by_cudnn[@]}" "${windowed[@]}" --train.output_dir windows
check "it says what cuDNN does" grep -qE 'attention: cuDNN 9\.28\.1 forward and backward, tried beside' out
check "it trains as with its own kernels" near_in_bf16 own_windows windows
check "in other bits" differ own_windows windows
# windowed_graphs PASS: how many of them are stored.
windowed_graphs() { find cache/sft/attention -name "cudnn*-$1-*-w5-*" | wc -l; }
check "graphs of the forward pass have the window" test "$(windowed_graphs forward)" -ge 1
check "graphs of the backward pass have it" test "$(windowed_graphs backward)" -ge 1
export SFT_EMULATED_CUDNN_REFUSES=windows XDG_CACHE_HOME=$work/cache_of_refusals
succeeds "windows that cuDNN refuses" "${by_cudnn[@]}" "${windowed[@]}" --train.output_dir refused_windows
check "a warning says so" grep -q 'attention: this program.s kernels where cuDNN refuses forward-.*-w[0-9]*-' err
check "cuDNN does the other layer" grep -qE 'attention: cuDNN 9\.28\.1 forward and backward, tried beside' out
check "it trains as with its own kernels" near_in_bf16 own_windows refused_windows
check "in other bits" differ own_windows refused_windows
succeeds "windows alone" "${by_cudnn[@]}" --model.sliding_window 5 --train.output_dir all_refused
check "nothing is left for cuDNN" grep -q 'attention: this program.s kernels, as cuDNN 9.28.1 refuses heads' err
unset SFT_EMULATED_CUDNN_REFUSES
export XDG_CACHE_HOME=$work/cache

cut=(--parallel.dp_shard_size 1 --parallel.sp_size 2 --data.row_order endless)
exchanges=("${cut[@]}" --parallel.sp_method ulysses)
# exchanged NAME OPTION...: heads by both, with these options.
exchanged() {
  local name=$1
  shift
  succeeds "exchanged heads by its own kernels, $name" "${on_gpus[@]}" "${exchanges[@]}" "$@" --train.output_dir "own_ulysses_$name"
  own_sends=$(grep -m1 '^ *sends ' out)
  succeeds "exchanged heads, $name" "${by_cudnn[@]}" "${exchanges[@]}" "$@" --train.output_dir "ulysses_$name"
  check "the output is sent, too" test "$(grep -m1 '^ *sends ' out)" != "$own_sends"
  check "cuDNN does both passes" grep -qE 'attention: cuDNN 9\.28\.1 forward and backward, tried beside' out
  check "nothing is warned of" test "$(grep -c 'attention: this program' err)" -eq 0
  check "graphs of each pass are compiled at once" \
    test "$(grep -cE 'attention: graphs of cuDNN for the documents to come: [0-9]+ compiled, [0-9]+ from the folder' out)" -eq 2
  check "it trains as with its own kernels" near_in_bf16 "own_ulysses_$name" "ulysses_$name"
  check "in other bits" differ "own_ulysses_$name" "ulysses_$name"
}
exchanged plain
plain_sends=$own_sends
succeeds "once more" "${by_cudnn[@]}" "${exchanges[@]}" --train.output_dir ulysses_again
check "with the same bits" same_bits ulysses_plain ulysses_again
exchanged replicas --model.num_key_value_heads 1
exchanged windows "${windowed[@]}"
exchanged groups "${groups[@]}"
SFT_EMULATED_CUDNN_WRONG=backward succeeds "wrong numbers of exchanged heads" "${by_cudnn[@]}" "${exchanges[@]}" \
  --train.output_dir wrong_ulysses
check "it goes on without cuDNN" grep -q 'attention: this program.s kernels, as cuDNN 9.28.1 does not give what they give' err
check "with its own bits" same_bits own_ulysses_plain wrong_ulysses
SFT_EMULATED_CUDNN=91800 succeeds "exchanged heads of an old version" "${by_cudnn[@]}" "${exchanges[@]}" --train.output_dir old_ulysses
check "the output is not sent for nothing" test "$(grep -m1 '^ *sends ' out)" = "$plain_sends"
check "cuDNN forward alone" grep -q 'forward; this program.s kernels backward, as cuDNN repeats its bits from 9.25 on' out
check "it trains as with its own kernels" near_in_bf16 own_ulysses_plain old_ulysses
# Sinks: its forward pass takes none, its backward pass has them in the log-sum-exp.
sinks=(--model.attention_sinks true)
for kind in whole ulysses gathered ring; do
  options=("${sinks[@]}")
  [[ $kind == whole ]] || options+=("${cut[@]}" --parallel.sp_method "${kind/gathered/all_gather}")
  succeeds "sinks by its own kernels, $kind" "${on_gpus[@]}" "${options[@]}" --train.output_dir "own_sinks_$kind"
  own_sends=$(grep -m1 '^ *sends ' out)
  succeeds "sinks, $kind" "${by_cudnn[@]}" "${options[@]}" --train.output_dir "sinks_$kind"
  check "it says what cuDNN does" \
    grep -qE 'attention: cuDNN 9\.28\.1 backward; this program.s kernels forward, as cuDNN.s forward pass takes no sinks, tried beside' out
  check "nothing is warned of" test "$(grep -c 'attention: this program' err)" -eq 0
  check "it trains as with its own kernels" near_in_bf16 "own_sinks_$kind" "sinks_$kind"
  check "with gradients of cuDNN" other_gradients "own_sinks_$kind" "sinks_$kind"
  if [[ $kind == ulysses ]]; then
    check "the output is sent, which its backward pass reads" test "$(grep -m1 '^ *sends ' out)" != "$own_sends"
  fi
  # Nothing is left for it.
  succeeds "its forward pass of sinks, $kind" "${on_gpus[@]}" --device.attention cudnn_forward "${options[@]}" \
    --train.output_dir "forward_sinks_$kind"
  check "a warning says so" grep -q 'attention: this program.s kernels, as cuDNN.s forward pass takes no sinks' err
  check "no output is sent" test "$(grep -m1 '^ *sends ' out)" = "$own_sends"
  check "with its own bits" same_bits "own_sinks_$kind" "forward_sinks_$kind"
done
SFT_EMULATED_CUDNN=91900 succeeds "sinks by an old version" "${by_cudnn[@]}" "${exchanges[@]}" "${sinks[@]}" --train.output_dir old_sinks
check "a warning says so" grep -q 'attention: this program.s kernels, as cuDNN.s forward pass takes no sinks' err
check "with its own bits" same_bits own_sinks_ulysses old_sinks
SFT_EMULATED_CUDNN_WRONG=backward succeeds "wrong numbers of sinks" "${by_cudnn[@]}" "${exchanges[@]}" "${sinks[@]}" \
  --train.output_dir wrong_sinks
check "it goes on without cuDNN" grep -q 'attention: this program.s kernels, as cuDNN 9.28.1 does not give what they give' err

succeeds "a ring by its own kernels" "${on_gpus[@]}" "${cut[@]}" --parallel.sp_method ring --train.output_dir own_ring
succeeds "a ring" "${by_cudnn[@]}" "${cut[@]}" --parallel.sp_method ring --train.output_dir ring
check "cuDNN does both passes" grep -qE 'attention: cuDNN 9\.28\.1 forward and backward, tried beside' out
check "nothing is warned of" test "$(grep -c 'attention: this program' err)" -eq 0
check "graphs of each pass are looked for at once" \
  test "$(grep -cE 'attention: graphs of cuDNN for the documents to come: [0-9]+ compiled, [0-9]+ from the folder' out)" -eq 2
check "graphs of float32 results are stored" test "$(find cache -name '*forward*f' | wc -l)" -ge 1
check "it trains as with its own kernels" near_in_bf16 own_ring ring
check "in other bits" differ own_ring ring
succeeds "a ring once more" "${by_cudnn[@]}" "${cut[@]}" --parallel.sp_method ring --train.output_dir ring_again
check "with the same bits" same_bits ring ring_again
check "all graphs are stored" grep -q 'documents to come: 0 compiled' out
SFT_EMULATED_CUDNN=91900 succeeds "a ring by cuDNN forward alone" "${by_cudnn[@]}" "${cut[@]}" --parallel.sp_method ring \
  --train.output_dir forward_ring
check "as its backward pass does not repeat its bits" \
  grep -q 'forward; this program.s kernels backward, as cuDNN repeats its bits from 9.25 on' out
check "it trains as with its own kernels" near_in_bf16 own_ring forward_ring
for pass in forward backward; do
  SFT_EMULATED_CUDNN_WRONG=$pass succeeds "a ring of wrong numbers, $pass" "${by_cudnn[@]}" "${cut[@]}" \
    --parallel.sp_method ring --train.output_dir "wrong_ring_$pass"
  check "it goes on without cuDNN" grep -q 'attention: this program.s kernels, as cuDNN 9.28.1 does not give what they give' err
  check "with its own bits" same_bits own_ring "wrong_ring_$pass"
done
SFT_EMULATED_CUDNN=91800 succeeds "a ring of an old version" "${by_cudnn[@]}" "${cut[@]}" --parallel.sp_method ring \
  --train.output_dir old_ring
check "is not for it" grep -q 'as rows are cut over ranks (cuDNN 9.18.0 gives no float32 results on some rank' err
check "with its own bits" same_bits own_ring old_ring
# Rows so long that keys of other ranks go to cuDNN: chunks of 192 tokens, a row of one document and one of two. Rectangles
# are of 384 x 192, 192 x 384 and 192 x 208 tokens, in calls of at most 128 queries in this program.
awk 'BEGIN {
  split("767 559 207", lengths)
  for (i = 1; i <= 3; ++i) {
    text = "Words of document " i
    while (length(text) < lengths[i]) text = text " and " 7 * length(text)
    printf "{\"text\": \"%s\"}\n", substr(text, 1, lengths[i])
  }
}' >long.jsonl
"$sft_prepare" --input long.jsonl --output long --tokenizer byte --max_length 768 --packing true >/dev/null
long_ring=("${cut[@]}" --parallel.sp_method ring --data.train_files 'long/*.h5' --model.initializer_range 0.3)
succeeds "a ring over long rows by its own kernels" "${on_gpus[@]}" "${long_ring[@]}" --train.output_dir own_long_ring
XDG_CACHE_HOME=$work/long_cache succeeds "a ring over long rows" "${by_cudnn[@]}" "${long_ring[@]}" --train.output_dir long_ring
check "nothing is warned of" test "$(grep -c 'attention: this program' err)" -eq 0
# rectangles PASS: graphs of pieces of them that were compiled.
rectangles() { find long_cache -name "*-$1-d1-l128-*-r[0-9]*" | wc -l; }
check "rectangles go to cuDNN forward" test "$(rectangles forward)" -ge 2
check "and backward" test "$(rectangles backward)" -ge 2
check "it trains as with its own kernels" near_in_bf16 own_long_ring long_ring
check "with gradients of cuDNN" other_gradients own_long_ring long_ring

gathers=("${cut[@]}" --parallel.sp_method all_gather)
succeeds "gathered keys by its own kernels" "${on_gpus[@]}" "${gathers[@]}" --train.output_dir own_gathered
succeeds "gathered keys" "${by_cudnn[@]}" "${gathers[@]}" --train.output_dir gathered
check "cuDNN does both passes" grep -qE 'attention: cuDNN 9\.28\.1 forward and backward, tried beside' out
check "nothing is warned of" test "$(grep -c 'attention: this program' err)" -eq 0
check "it trains as with its own kernels" near_in_bf16 own_gathered gathered
check "in other bits" differ own_gathered gathered
check "graphs of queries behind further keys are stored" test "$(find cache -name '*backward*-e[0-9]*' | wc -l)" -ge 1
succeeds "gathered keys once more" "${by_cudnn[@]}" "${gathers[@]}" --train.output_dir gathered_again
check "with the same bits" same_bits gathered gathered_again
check "all graphs are stored" grep -q 'documents to come: 0 compiled' out
succeeds "windows over gathered keys by its own kernels" "${on_gpus[@]}" "${gathers[@]}" "${windowed[@]}" \
  --train.output_dir own_gathered_windows
succeeds "windows over gathered keys" "${by_cudnn[@]}" "${gathers[@]}" "${windowed[@]}" --train.output_dir gathered_windows
check "nothing is warned of" test "$(grep -c 'attention: this program' err)" -eq 0
check "it trains as with its own kernels" near_in_bf16 own_gathered_windows gathered_windows
SFT_EMULATED_CUDNN=91800 succeeds "gathered keys of an old version" "${by_cudnn[@]}" "${gathers[@]}" --train.output_dir old_gathered
check "cuDNN forward alone" grep -q 'forward; this program.s kernels backward, as cuDNN repeats its bits from 9.25 on' out
check "it trains as with its own kernels" near_in_bf16 own_gathered old_gathered
for pass in forward backward; do
  SFT_EMULATED_CUDNN_WRONG=$pass succeeds "wrong numbers of gathered keys, $pass" "${by_cudnn[@]}" "${gathers[@]}" \
    --train.output_dir "wrong_gathered_$pass"
  check "it goes on without cuDNN" grep -q 'attention: this program.s kernels, as cuDNN 9.28.1 does not give what they give' err
  check "with its own bits" same_bits own_gathered "wrong_gathered_$pass"
done

# Ahead of the run: what --compile-attention compiles is what the run looks for.
multiprocessors=$(find cache -type f -name 'cudnn*' -printf '%f\n' | sed -n '1s/.*-sm90-\([0-9]*\)-.*/\1/p')
sed -n '/^\[h200\]/,/^$/p' "$(dirname "$sft")/../share/sft/machines.ini" |
  sed "s/^multiprocessors = .*/multiprocessors = $multiprocessors/" >ours.ini
unordered=("${on_gpus[@]}" --device.attention cudnn_unordered)
# ahead NAME OPTION...: compiles, then trains; the run compiles nothing. With the attention of $attention.
attention=cudnn
ahead() {
  local name=$1
  shift
  export XDG_CACHE_HOME=$work/ahead_$name
  succeeds "$name, compiled ahead" "$sft" tiny.ini --compile-attention --machine ours.ini --num_ranks 2 \
    --device.backend cuda --train.precision bf16 --device.attention "$attention" "$@"
  check "$name: the table says so" grep -qE '^[0-9]+ graphs? of attention for h200, of cuDNN 9\.28\.1, in .*: [1-9][0-9]* compiled' out
  local before
  before=$(find "$XDG_CACHE_HOME" -type f | wc -l)
  succeeds "$name, from these" "${on_gpus[@]}" --device.attention "$attention" "$@" --train.output_dir "ahead_output_$name"
  check "$name: the run compiles none" test "$(grep -c 'documents to come: 0 compiled' out)" -ge 1
  check "$name: and no other" test "$(grep -c 'documents to come: [1-9][0-9]* compiled' out)" -eq 0
  check "$name: none is new" test "$(find "$XDG_CACHE_HOME" -type f | wc -l)" -eq "$before"
}
ahead whole
check "whole: with the bits of a run that compiles" same_bits cudnn ahead_output_whole
ahead windows "${windowed[@]}"
ahead ring "${cut[@]}" --parallel.sp_method ring
ahead gathered "${gathers[@]}"
ahead ulysses "${exchanges[@]}"
ahead replicas "${exchanges[@]}" --model.num_key_value_heads 1
ahead sinks "${exchanges[@]}" "${sinks[@]}"
attention=cudnn_unordered ahead unordered
export XDG_CACHE_HOME=$work/cache

SFT_EMULATED_CUDNN=91900 succeeds "an old version" "${by_cudnn[@]}" --train.output_dir old
check "cuDNN forward alone" grep -q 'forward; this program.s kernels backward, as cuDNN repeats its bits from 9.25 on' out
check "it trains too" near_in_bf16 own old
SFT_EMULATED_CUDNN=91900 succeeds "an old version, in any order" "${unordered[@]}" --train.output_dir old_unordered
check "cuDNN does both passes" \
  grep -qF 'attention: cuDNN 9.19.0 forward and backward, its sums in any order (no run repeats its bits), tried beside' out
check "nothing is warned of" test "$(grep -c 'attention: this program' err)" -eq 0
check "it trains as with its own kernels" near_in_bf16 own old_unordered
check "graphs of sums in any order are others" test "$(find cache -name '*91900*backward*-any' | wc -l)" -ge 1
succeeds "exchanged heads, in any order" "${unordered[@]}" "${exchanges[@]}" --train.output_dir unordered_ulysses
check "it trains as with its own kernels" near_in_bf16 own_ulysses_plain unordered_ulysses
succeeds "gathered keys, in any order" "${unordered[@]}" "${gathers[@]}" --train.output_dir unordered_gathered
check "nothing is warned of" test "$(grep -c 'attention: this program' err)" -eq 0
check "it trains as with its own kernels" near_in_bf16 own_gathered unordered_gathered
for pass in forward backward; do
  SFT_EMULATED_CUDNN_WRONG=$pass succeeds "wrong numbers of the $pass pass" "${by_cudnn[@]}" --train.output_dir "wrong_$pass"
  check "it goes on without cuDNN" grep -q 'attention: this program.s kernels, as cuDNN 9.28.1 does not give what they give' err
  check "with its own bits" same_bits own "wrong_$pass"
done

SFT_EMULATED_CUDNN=0 refuses 2 'cuDNN cannot be used' "${by_cudnn[@]}" --train.output_dir absent
SFT_EMULATED_CUDNN=0 refuses 2 'cuDNN cannot be used' "$sft" tiny.ini --compile-attention --machine ours.ini \
  --device.backend cuda --train.precision bf16 --device.attention cudnn
SFT_EMULATED_CUDNN=90300 refuses 2 'older than cuDNN 9\.18\.0' "${by_cudnn[@]}" --train.output_dir ancient
refused=("${train[@]}" --device.attention cudnn --train.output_dir refused)
refuses 2 'does not go with backend = cpu' "${refused[@]}" --device.backend cpu --train.precision bf16
SFT_EMULATED_GPUS=0 refuses 2 'compute on CPUs, and cuDNN on GPUs' "${refused[@]}" --device.backend auto --train.precision bf16
refuses 2 'does not go with precision = fp32' "${refused[@]}" --device.backend cuda --train.precision fp32

# planned OPTION...: bytes of working memory of a rank in a dry run.
planned() {
  "$sft" tiny.ini --dry-run --num_ranks 2 --json --device.backend cuda --train.precision bf16 "$@" >plan.json &&
    tr -d ' \n' <plan.json | grep -oE '"workspace":\{"least_bytes":[0-9]+,"most_bytes":[0-9]+' | grep -oE '[0-9]+$'
}
check "a dry run plans its working memory" test "$(planned --device.attention cudnn)" -gt "$(planned)"
check "and of a ring" test "$(planned "${cut[@]}" --device.attention cudnn)" -gt "$(planned "${cut[@]}")"
check "and of gathered keys" test "$(planned "${gathers[@]}" --device.attention cudnn)" -gt "$(planned "${gathers[@]}")"
check "and of exchanged heads, with their output" \
  test "$(planned "${exchanges[@]}" --device.attention cudnn)" -gt "$(planned "${exchanges[@]}")"
check "of the backward pass alone" \
  test "$(planned --device.attention cudnn_forward)" -lt "$(planned --device.attention cudnn)"
check "with sinks its forward pass needs none" \
  test "$(planned --device.attention cudnn_forward "${sinks[@]}")" -eq "$(planned "${sinks[@]}")"
check "and its backward pass does" test "$(planned --device.attention cudnn "${sinks[@]}")" -gt "$(planned "${sinks[@]}")"
check "where heads are no multiple of 16, too" \
  test "$(planned --device.attention cudnn "${uneven[@]}")" -eq "$(planned --device.attention cudnn_forward "${uneven[@]}")"
finish_checks
