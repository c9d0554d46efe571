// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the nodes of a run tell each other when one of them stands still: a small file each, in a folder that all see.
// No message of MPI is needed, and nothing is written while the run gets on.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hang.hpp"

namespace sft::comm {

struct NodeReport {
  std::int64_t first_rank = 0;  ///< the lowest rank of the node
  std::int64_t beat = 0;        ///< grows with each report
  bool calls = false;           ///< the others are to tell what they know
  double hang_s = 0.0;          ///< for how long none of its ranks has got on
  std::vector<StandingRank> ranks;
};

/// As text, and back; what is no such text is no report.
[[nodiscard]] std::string to_text(const NodeReport& report);
[[nodiscard]] std::optional<NodeReport> parse_node_report(const std::string& text);

/// A thread writes and reads the files, because a file system may never answer. Errors are no reports.
class NodeReports {
 public:
  /// `folder` is there only while nodes tell something; `period_s`: between two looks at it.
  NodeReports(std::filesystem::path folder, std::int64_t first_rank, double period_s);
  /// Removes this node's file where this rank speaks for it. Not to be called when the file system does not answer:
  /// std::_Exit() then.
  ~NodeReports();
  NodeReports(const NodeReports&) = delete;
  NodeReports& operator=(const NodeReports&) = delete;

  /// What this node has to tell: is written soon while it or another one calls. Its beat is not read.
  void tell(const NodeReport& mine);
  /// Another rank speaks for this node: its file is that rank's alone. So it is until the first tell().
  void leave_to_another();
  /// What was read last of other nodes that still write.
  [[nodiscard]] std::vector<NodeReport> others() const;

 private:
  struct Seen {
    std::string text;
    int num_looks_ago = 0;  ///< that it changed
    NodeReport report;
  };

  void work(const std::stop_token& stop);
  void write_own();
  [[nodiscard]] bool speaks() const;
  /// Whether this node or another one calls.
  [[nodiscard]] bool is_called() const;
  void remove_own() const;
  void read_others();
  [[nodiscard]] std::filesystem::path file_of(std::int64_t first_rank) const;

  const std::filesystem::path folder_;
  const std::int64_t first_rank_;
  const std::chrono::duration<double> period_;
  mutable std::mutex mutex_;
  bool speaks_ = false;                ///< under mutex_
  NodeReport mine_;                    ///< under mutex_
  std::map<std::int64_t, Seen> seen_;  ///< under mutex_
  std::jthread thread_;
};

}  // namespace sft::comm
