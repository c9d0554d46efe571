#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a machine with a GPU is sent, with the libraries that it need not have, stays far below what may travel to it: by
# the sizes of files alone, of the programs that every build has. archive_test.sh packs them all.
#
#   size_test.sh GPU_ARCHITECTURE...
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

travels_mib=64         # a machine takes as much in one piece
others_packed_mib=8    # for the programs of tests/device, which share their kernels with sft: packed they took 4 MiB more
packed_of_thousand=285 # what xz leaves of 1000 at most: it made 41 MiB of 156, with Open MPI's plug-ins beside them
if [[ $# -gt 1 ]]; then
  skip_test "kernels for $*; what travels is built for one GPU (CUDA_ARCHS=90)"
fi
limit_mib=$(((travels_mib - others_packed_mib) * 1000 / packed_of_thousand))

mkdir stripped
for name in sft sft-prepare; do strip -o "stripped/$name" "$bin/$name"; done
# The C and C++ runtimes are everywhere, and CUDA's libraries where there is a GPU.
elsewhere='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc[+][+]|cuda.*|cublas.*|cudnn.*|nccl|nvrtc.*|nvJitLink|nvidia-.*)[.]so)'
libraries=$(ldd stripped/* | awk -v elsewhere="$elsewhere" '$2 == "=>" && $3 ~ /^\// && $1 !~ elsewhere { print $3 }' | sort -u)

# mib_of FILE...: whole MiB of all of them, behind links.
mib_of() { du --apparent-size --dereference --total --block-size=1M "$@" | tail -n 1 | cut -f 1; }
programs_mib=$(mib_of stripped/*)
# shellcheck disable=SC2086
libraries_mib=$(mib_of $libraries)
total_mib=$((programs_mib + libraries_mib))
printf 'sft and sft-prepare without symbols: %d MiB\nthe %d libraries that they need: %d MiB\n' "$programs_mib" \
  "$(wc -w <<<"$libraries")" "$libraries_mib"
printf 'together %d MiB of %d, which are at most %d MiB packed: %d MiB travel, %d are for the programs of tests/device\n' \
  "$total_mib" "$limit_mib" $((travels_mib - others_packed_mib)) "$travels_mib" "$others_packed_mib"
check 'something was measured' test "$programs_mib" -ge 1 -a "$libraries_mib" -ge 1
if [[ $total_mib -gt $limit_mib ]]; then
  echo "the largest, in KiB:"
  # shellcheck disable=SC2086
  du --apparent-size --dereference -k stripped/* $libraries | sort -rn | head -n 10
  wrong "too large to send (above): find what made it grow, or take it out of the programs"
fi
finish_checks
