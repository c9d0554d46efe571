#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# .ci/spdx finds the sources without a licence line, writes it where it belongs, and then finds none.
#
#   spdx.sh SPDX
set -euo pipefail

spdx=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
git init -q
mkdir .ci
printf '#pragma once\n' >a.hpp
printf '#!/usr/bin/env bash\necho hello\n' >.ci/run
printf '#!/bin/sh\n' >lone.sh
printf 'cmake_minimum_required(VERSION 3.24)\n' >CMakeLists.txt
printf 'local a = 1\n' >m.lua.in
: >empty.py
printf '# Title\n' >README.md
printf '// SPDX-License-Identifier: Apache-2.0\nint x;\n' >done.cpp
git add -A

expect() { # WHAT EXPECTED FOUND
  [[ $2 == "$3" ]] || { printf 'WRONG %s: expected\n%s\nfound\n%s\n' "$1" "$2" "$3" && exit 1; }
}
found=$({ "$spdx" --check || true; } | cut -d: -f1 | sort | tr '\n' ' ')
expect 'files without the line' '.ci/run CMakeLists.txt a.hpp empty.py lone.sh m.lua.in ' "$found"
"$spdx" --check a.hpp >/dev/null && { echo 'WRONG: --check of a file without the line succeeds' && exit 1; }
"$spdx" --add
"$spdx" --check
line='SPDX-License-Identifier: Apache-2.0'
expect a.hpp $'// '"$line"$'\n#pragma once' "$(cat a.hpp)"
expect .ci/run $'#!/usr/bin/env bash\n# '"$line"$'\necho hello' "$(cat .ci/run)"
expect lone.sh $'#!/bin/sh\n# '"$line" "$(cat lone.sh)"
expect empty.py "# $line" "$(cat empty.py)"
expect m.lua.in "-- $line"$'\nlocal a = 1' "$(cat m.lua.in)"
expect README.md '# Title' "$(cat README.md)"
before=$(cat -- * | cksum)
"$spdx" --add
expect 'adding twice' "$before" "$(cat -- * | cksum)"
