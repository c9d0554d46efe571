#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build under DESTDIR, moves the tree, and uses it from outside: programs, job scripts, modulefiles, and a CMake
# project that finds the rooms' libraries.
#
#   install.sh CMAKE VERSION CXX_COMPILER PROGRAM...
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
cmake=$1 version=$2 compiler=$3 build=${bin%/bin}
shift 3

DESTDIR="$work/stage" "$cmake" --install "$build" --prefix /opt/sft >"$work/install.log"
check 'libraries and headers only on request' test ! -e "$work/stage/opt/sft/include"
DESTDIR="$work/stage" "$cmake" --install "$build" --prefix /opt/sft --component development >>"$work/install.log"
[[ ! -e /opt/sft || -z $(find /opt/sft -newer "$work/install.log") ]]
prefix="$work/moved here"
mv "$work/stage/opt/sft" "$prefix"

# has PATTERN COMMAND...: the command succeeds and prints such a line.
has() {
  local pattern=$1
  shift
  "$@" 2>&1 | tee printed
  grep -qE -- "$pattern" printed
}

# Programs
printf '{"prompt": "One and one?", "completion": "two"}\n{"prompt": "Two and two?", "completion": "four"}\n' >pairs.jsonl
cat >run.ini <<INI
[model]
hidden_size = 16
num_hidden_layers = 1
num_attention_heads = 2
intermediate_size = 16
vocab_size = 272
[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = 2
output_dir = output
[device]
backend = cpu
INI
succeeds 'sft --version' has "^sft $version\$" "$prefix/bin/sft" --version
succeeds 'sft-prepare' "$prefix/bin/sft-prepare" --input pairs.jsonl --output data --max_length 64
succeeds 'two ranks train' "$mpiexec" -np 2 "$prefix/bin/sft" run.ini
succeeds 'sft-run finds the installed sft' "$prefix/bin/sft-run" -n 2 run.ini --train.output_dir output2
succeeds 'sft-inspect' has 'step +2' "$prefix/bin/sft-inspect" output/checkpoint-000002
for program; do
  check "$program is there" test -x "$prefix/bin/$program"
  succeeds "man $program" has '^\.SH NAME' cat "$prefix/share/man/man1/$program.1"
  completion="$prefix/share/bash-completion/completions/$program"
  # shellcheck disable=SC2016  # for the inner shell
  succeeds "completion of $program" has "-F .* $program\$" bash -c 'source "$1" && complete -p "$2"' - "$completion" "$program"
done
succeeds 'postprocess is there' has 'usage' "$prefix/share/sft/postprocess/parquet_to_jsonl.py" --help
succeeds 'no rpath leads into the build' bash -c "! readelf -d '$prefix'/bin/sft* | grep -F '$build'"

# Modulefiles: Lmod reads both languages; alone, the Tcl file is what Environment Modules would read.
lmod=/usr/share/lmod/lmod/libexec/lmod
runs_as_module() { # TREE
  local commands
  commands=$(MODULEPATH="$1/share/modulefiles" "$lmod" bash load sft) &&
    (eval "$commands" && [[ $SFT_ROOT == "$1" && $MANPATH == "$1/"* && $(command -v sft) == "$1/bin/sft" ]] && sft --version)
}
if [[ -e $lmod ]]; then
  mkdir -p tcl_only/share/modulefiles/sft
  cp "$prefix/share/modulefiles/sft/$version" tcl_only/share/modulefiles/sft
  ln -s "$prefix/bin" tcl_only/bin
  succeeds 'module load sft, from Lua' runs_as_module "$prefix"
  succeeds 'module load sft, from Tcl' runs_as_module "$work/tcl_only"
else
  echo 'Lmod is not installed: the modulefiles are not tried'
fi

# A project of someone else's
succeeds 'find_package(sft) configures' "$cmake" -S "$test_folder/consumer" -B consumer -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release
succeeds 'and builds' "$cmake" --build consumer
succeeds 'and runs' has "^sft $version: 1 rank, 1 rows, CPU backend built: 1\$" consumer/count_rows data/train-00000.h5

finish_checks
