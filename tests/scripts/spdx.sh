#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# .ci/spdx finds the sources without a licence line, writes it where it belongs, and then finds none.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
spdx=$source_folder/.ci/spdx

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

found=$({ "$spdx" --check || true; } | cut -d: -f1 | sort | tr '\n' ' ')
same_text 'files without the line' '.ci/run CMakeLists.txt a.hpp empty.py lone.sh m.lua.in ' "$found"
prints 1 a.hpp "$spdx" --check a.hpp
succeeds 'adding the line' "$spdx" --add
succeeds 'no file without it' "$spdx" --check
line='SPDX-License-Identifier: Apache-2.0'
same_text a.hpp $'// '"$line"$'\n#pragma once' "$(cat a.hpp)"
same_text .ci/run $'#!/usr/bin/env bash\n# '"$line"$'\necho hello' "$(cat .ci/run)"
same_text lone.sh $'#!/bin/sh\n# '"$line" "$(cat lone.sh)"
same_text empty.py "# $line" "$(cat empty.py)"
same_text m.lua.in "-- $line"$'\nlocal a = 1' "$(cat m.lua.in)"
same_text README.md '# Title' "$(cat README.md)"
before=$(git ls-files -z | xargs -0 cat | cksum)
succeeds 'adding twice' "$spdx" --add
same_text 'changes nothing' "$before" "$(git ls-files -z | xargs -0 cat | cksum)"
finish_checks
