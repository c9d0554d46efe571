#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A build without the planner refuses by name what only the planner answers, and holds no code of it.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

# shellcheck disable=SC2317  # called through check
lacks_planner() {
  nm -C "$1" >out && ! grep -qE " [Tt] sft::(planner|simulator)::" out
}
for program in "$sft" "$sft_launch"; do
  check "$(basename "$program") holds no code of planner and simulator" lacks_planner "$program"
done
printf '[data]\ntrain_files = rows.h5\n' >run.ini
refuses 2 '--dry-run needs the planner .*-DSFT_PLANNER=OFF' "$sft" run.ini --dry-run
refuses 2 '--machine needs the planner' "$sft" run.ini --machine h100x8
refuses 2 '--write_machine needs the planner' "$sft" run.ini --check --write_machine here.ini
finish_checks
