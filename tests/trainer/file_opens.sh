#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How often a run opens the shards of its data: each once to learn what is in it, by one rank of all, and at most once for
# each row that is read, by one of the ranks that share rows.
#
#   file_opens.sh COMPILER
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
compiler=$1

num_shards=40 num_steps=4
make_pairs 400
"$sft_prepare" --input pairs.jsonl --output data --max_length 64 --num_shards $num_shards --num_threads 1 >out 2>err
cat >run.ini <<'INI'
[model]
hidden_size = 32
num_hidden_layers = 1
num_attention_heads = 2
num_key_value_heads = 2
intermediate_size = 32
vocab_size = 272
[data]
train_files = data/train-*.h5
[train]
output_dir = run
[checkpoint]
save_hub_model = false
[device]
backend = cpu
INI

# Every file that is opened whose name holds "/train-", by whichever function, is a line of opens.RANK.
cat >count.cpp <<'C'
#include <dlfcn.h>
#include <fcntl.h>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
namespace {
template <class Function>
Function* next_of(const char* name) { return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name)); }
void note(const char* path) {
  if (path == nullptr || std::strstr(path, "/train-") == nullptr) return;
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  char text[512];
  std::snprintf(text, sizeof text, "opens.%s", rank != nullptr ? rank : "0");
  const int file = next_of<int(const char*, int, ...)>("open")(text, O_WRONLY | O_CREAT | O_APPEND, 0666);
  const int size = std::snprintf(text, sizeof text, "%s\n", path);
  if (write(file, text, static_cast<std::size_t>(size)) != size) std::abort();
  close(file);
}
}  // namespace
extern "C" {
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = va_arg(list, int);
  va_end(list);
  note(path);
  return next_of<int(const char*, int, ...)>("open")(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = va_arg(list, int);
  va_end(list);
  note(path);
  return next_of<int(const char*, int, ...)>("open64")(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = va_arg(list, int);
  va_end(list);
  note(path);
  return next_of<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  note(path);
  return next_of<FILE*(const char*, const char*)>("fopen")(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  note(path);
  return next_of<FILE*(const char*, const char*)>("fopen64")(path, mode);
}
}
C
"$compiler" -shared -fPIC -o count.so count.cpp -ldl

# count_opens NAME RANKS ROWS READERS WORD...: a run of num_steps steps with these options that reads ROWS rows on the
# first of every RANKS / READERS ranks.
count_opens() {
  local name=$1 ranks=$2 rows=$3 readers=$4 rank
  shift 4
  rm -rf run opens.*
  succeeds "$name" "$mpiexec" -np "$ranks" env LD_PRELOAD="$PWD/count.so" "$sft" run.ini --train.max_steps $num_steps "$@"
  for rank in $(seq 0 $((ranks - 1))); do touch "opens.$rank"; done
  wc -l opens.* | sed 's/^/      /'
  local opened
  opened=$(cat opens.* | wc -l)
  check "$name: $opened opens of $num_shards shards for $rows rows" \
    test $((num_shards)) -le "$opened" -a "$opened" -le $((num_shards + rows))
  for rank in $(seq 0 $((ranks - 1))); do
    if ((rank % (ranks / readers) == 0)); then
      [[ $rank -eq 0 ]] || check "rank $rank reads rows" test -s "opens.$rank" -a "$(wc -l <"opens.$rank")" -le $((rows / readers))
    else
      check "rank $rank opens none" test ! -s "opens.$rank"
    fi
  done
}

batch='--train.per_device_train_batch_size 2 --train.gradient_accumulation_steps 3'
# shellcheck disable=SC2086  # several words
{
  count_opens 'one rank' 1 $((num_steps * 6)) 1 $batch
  count_opens 'two that share rows' 2 $((num_steps * 6)) 1 $batch --parallel.tp_size 2
  count_opens 'two pairs' 4 $((num_steps * 12)) 2 $batch --parallel.sp_size 2
}
finish_checks
