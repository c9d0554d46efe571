// SPDX-License-Identifier: Apache-2.0
// What a run finds in its own folder, and what a machine tells of itself.
#include <algorithm>

#include "comm/node_reports.hpp"
#include "readers.hpp"
#include "sft/core/ensure.hpp"
#include "sft/io/file_lock.hpp"
#include "sft/machine/node.hpp"
#include "sft/train/goodput.hpp"
#include "sft/train/metrics.hpp"

namespace sft::fuzz {

namespace {

/// metrics.jsonl and starts.jsonl, which read what others than the run may have written: they refuse nothing.
void read_metrics(const std::string& bytes) {
  const std::string kept = train::keep_steps(bytes, 3, 2);
  SFT_ENSURE(train::keep_steps(kept, 3, 2) == kept, "the lines that are kept once are kept");
  (void)train::last_line_of(bytes);
  (void)train::last_start_of("a-run", bytes);
  train::Goodput goodput(1.0);
  goodput.resume(3, train::parse_time_note(bytes), train::last_start_of("a-run", bytes), train::last_line_of(bytes));
  goodput.begin_steps(2.0);
  (void)train::describe(goodput.at(3.0));
}

/// run.lock, as another process left it.
void read_lock(const std::string& bytes) {
  const io::FileLock lock(put_file("run", "run.lock", bytes) + "/run.lock", {});
  (void)lock.holder();
}

/// What a node tells the others when a rank stands still.
void read_node_report(const std::string& bytes) {
  if (const auto report = comm::parse_node_report(bytes)) {
    const std::string text = comm::to_text(*report);
    const auto again = comm::parse_node_report(text);
    SFT_ENSURE(again && comm::to_text(*again) == text, "a report that was read is read again the same");
  }
}

/// /proc and /sys: the same bytes in each of their files.
void read_machine(const std::string& bytes) {
  for (const char* folder : {"node/proc", "node/proc/self", "node/proc/1", "node/proc/1/task/1", "node/sys/fs/cgroup",
                             "node/sys/fs/cgroup/memory", "node/sys/class/net/eth0"}) {
    for (const char* name : {"meminfo", "cgroup", "mountinfo", "stat", "memory.max", "memory.limit_in_bytes", "speed",
                             "operstate", "type"}) {
      static_cast<void>(put_file(folder, name, bytes));
    }
  }
  const std::string root = scratch().file("node");
  (void)machine::node_memory_bytes(root);
  (void)machine::network_adapters(root);
  (void)machine::process_state(1, root);
}

}  // namespace

std::vector<Reader> run_readers() {
  return {{"metrics", read_metrics}, {"lock", read_lock}, {"node_report", read_node_report}, {"machine", read_machine}};
}

}  // namespace sft::fuzz
