// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "call_log.hpp"
#include "comm/mpi/shared_window.hpp"
#include "hang.hpp"
#include "node_reports.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/log.hpp"
#include "sft/core/stop_signals.hpp"
#include "sft/machine/node.hpp"

namespace sft::comm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto relaxed = std::memory_order_relaxed;

/// Where nobody stands out on this node and others say nothing, another node is given so much more time to name its
/// rank, before the launcher ends that one too.
constexpr double other_node_factor = 1.5;

/// What the last report of another node says of the time, as it is some pauses old: of the timeout, when that is over.
constexpr double reported_share = 0.9;

/// What a rank notes for the others of its node. Written by that rank, but for `end`.
struct Notes {
  std::atomic<std::int64_t> process_id{0};
  std::atomic<std::int64_t> rank{0};       ///< of the world
  std::atomic<std::uint64_t> progress{0};  ///< as of the last beat
  std::atomic<std::uint64_t> beat{0};      ///< grows while the thread of its Watch runs
  std::atomic<bool> has_calls{false};      ///< calls of its GPU are under way
  std::atomic<bool> end{false};            ///< in the notes of the node's first rank: all that is to be said is said
  ActivityRecord activities;
};

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

/// How long a number has not changed.
struct Standing {
  std::uint64_t last = 0;
  double time_s = 0.0;

  void look(std::uint64_t now, double elapsed_s) {
    time_s = now == last ? time_s + elapsed_s : 0.0;
    last = now;
  }
};

/// Whether a rank waits for others, or for a disk.
bool may_stand(const std::vector<ActivityText>& activities) {
  if (activities.empty()) return false;
  return activities.back().kind == ActivityKind::waits ||
         std::ranges::any_of(activities, [](const ActivityText& activity) {
           return activity.kind == ActivityKind::reads || activity.kind == ActivityKind::saves;
         });
}

}  // namespace

class Watch::Impl {
 public:
  Impl(const Group& world, const Group& node, double timeout_s, const std::string& folder)
      : timeout_s_(timeout_s), host_(host_name()) {
    share_notes(node);
    own_->process_id = ::getpid();
    own_->rank = world.rank();
    has_other_nodes_ = world.size() > node.size();
    list_nodes(world, node);
    note_activities_in(&own_->activities);
    if (has_other_nodes_ && !folder.empty()) {
      const std::filesystem::path reports = std::filesystem::path(folder) / "hang";
      std::error_code ignored;
      if (world.rank() == 0) std::filesystem::remove_all(reports, ignored);  // of an earlier run
      std::int64_t first_rank = world.rank();
      node.broadcast(std::span(&first_rank, 1), 0);
      reports_ = std::make_unique<NodeReports>(reports, first_rank, timeout_s / 16);
      first_rank_ = first_rank;
    }
    std::int64_t is_ready = 1;
    node.sum(std::span(&is_ready, 1));  // all notes are there before anybody reads them
    seen_.resize(notes_.size());
    thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }

  ~Impl() {
    thread_.request_stop();
    thread_.join();
    note_activities_in(nullptr);
  }

  void begin_steps() { has_begun_.store(true, relaxed); }

 private:
  /// How far a rank has got, as this one sees it.
  struct Seen {
    Standing progress, beat;
  };

  void share_notes(const Group& node) {
    auto outcome = SharedWindow::Outcome::made;
    if (node.size() > 1) window_ = SharedWindow::make(node, MemoryUse::reduced, sizeof(Notes), outcome);
    if (window_ == nullptr) {  // a node without room for it: each rank sees itself
      alone_ = std::make_unique<Notes>();
      own_ = alone_.get();
      notes_ = {own_};
      return;
    }
    own_ = new (window_->data(node.rank())) Notes{};
    for (int rank = 0; rank < node.size(); ++rank) notes_.push_back(reinterpret_cast<Notes*>(window_->data(rank)));
  }

  /// Collective over the world.
  void list_nodes(const Group& world, const Group& node) {
    const std::vector<std::string> hosts = world.all_gather(node.rank() == 0 ? host_ : std::string());
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (!hosts[rank].empty())
        nodes_.push_back({.rank = static_cast<int>(rank), .host = hosts[rank], .activities = {}});
    }
  }

  void watch(const std::stop_token& stop) {
    using std::chrono::duration;
    const auto pause = duration<double>(std::clamp(timeout_s_ / 16, 0.005, 1.0));
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any stopped;
    for (auto last = Clock::now(); !stop.stop_requested();) {
      stopped.wait_for(lock, stop, pause, [] { return false; });
      const auto now = Clock::now();
      // More than two pauses: this process did not run either.
      look(std::min(duration<double>(now - last), 2 * pause).count());
      last = now;
      if (stop.stop_requested()) return;
      if (notes_.front()->end.load()) end_process();
      consider();
    }
  }

  /// Reads all notes, `elapsed_s` after the last time, and writes this rank's.
  void look(double elapsed_s) {
    own_->progress.store(progress(), relaxed);
    own_->beat.fetch_add(1, relaxed);
    for (std::size_t i = 0; i < notes_.size(); ++i) {
      seen_[i].progress.look(notes_[i]->progress.load(relaxed), elapsed_s);
      seen_[i].beat.look(notes_[i]->beat.load(relaxed), elapsed_s);
    }
  }

  /// Ends the run where it stands still.
  void consider() {
    const double limit_s = timeout_s_ * (has_begun_.load(relaxed) ? 1.0 : slow_factor);
    std::string calls;
    if (hang_s() >= limit_s / 2) {
      calls = ask_call_probes();
      look(0.0);
    }
    own_->has_calls.store(!calls.empty(), relaxed);
    if (!speaks_for_node()) {
      if (reports_ != nullptr) reports_->leave_to_another();
      return;
    }
    const bool may = std::ranges::any_of(notes_, [](const Notes* notes) {
      return notes->has_calls.load(relaxed) || may_stand(notes->activities.read());
    });
    std::vector<StandingRank> all = ranks();
    if (reports_ != nullptr) {
      reports_->tell(
          {.first_rank = first_rank_, .calls = may && hang_s() >= limit_s / 2, .hang_s = hang_s(), .ranks = all});
    }
    if (!may || hang_s() < limit_s) return;
    bool prints = true;
    std::vector<NodeReport> others;
    if (reports_ != nullptr) others = reports_->others();
    for (const NodeReport& other : others) {
      if (other.hang_s < limit_s * reported_share) return;
      all.insert(all.end(), other.ranks.begin(), other.ranks.end());
      prints = prints && first_rank_ < other.first_rank;
    }
    const bool others_speak = !others.empty();
    std::vector<std::size_t> culprits = find_culprits(all);
    if (may_be_slow(all, culprits) && hang_s() < timeout_s_ * slow_factor) return;
    const bool is_sure = std::ranges::any_of(culprits, [&](std::size_t i) { return all[i].cannot_go_on(); });
    const std::vector<StandingRank> gone =
        reports_ == nullptr || is_sure ? std::vector<StandingRank>() : silent(others);
    if (!gone.empty() && (others_speak || culprits.empty())) {
      if (hang_s() < limit_s * other_node_factor) return;
      all.insert(all.end(), gone.begin(), gone.end());
      culprits = find_culprits(all);
    }
    if (culprits.empty() && has_other_nodes_ && hang_s() < limit_s * other_node_factor) return;
    // Who ends first has the others ended by the launcher: so not before the line is there.
    if (!prints) std::this_thread::sleep_for(std::chrono::duration<double>(timeout_s_ / 8 + 2));
    if (prints || !others_speak) log_error(hang_error(all, culprits, calls).what());
    notes_.front()->end.store(true);
    end_process();
  }

  /// The first ranks of the nodes that tell nothing.
  [[nodiscard]] std::vector<StandingRank> silent(const std::vector<NodeReport>& others) const {
    std::vector<StandingRank> gone;
    for (const StandingRank& first : nodes_) {
      const bool speaks = first.rank == first_rank_ ||
                          std::ranges::any_of(others, [&](const auto& of) { return of.first_rank == first.rank; });
      if (speaks) continue;
      gone.push_back(first);
      gone.back().condition = StandingRank::Condition::gone;
      gone.back().stood_s = hang_s();
    }
    return gone;
  }

  [[noreturn]] static void end_process() {
    tell_ending(static_cast<int>(ExitStatus::hang));
    std::_Exit(static_cast<int>(ExitStatus::hang));
  }

  /// Whether this is the first rank of the node whose thread runs: it acts, the others follow.
  [[nodiscard]] bool speaks_for_node() const {
    const auto first = std::ranges::find_if(seen_, [this](const Seen& seen) { return seen.beat.time_s < silence_s(); });
    return first != seen_.end() && notes_[first - seen_.begin()] == own_;
  }

  /// A rank whose thread has not run for so long does not run.
  [[nodiscard]] double silence_s() const { return timeout_s_ / 2; }

  /// How long no rank of the node has got on.
  [[nodiscard]] double hang_s() const {
    return std::ranges::min(seen_, {}, [](const Seen& seen) { return seen.progress.time_s; }).progress.time_s;
  }

  [[nodiscard]] std::vector<StandingRank> ranks() const {
    std::vector<StandingRank> all;
    for (std::size_t i = 0; i < notes_.size(); ++i) {
      all.push_back({.rank = static_cast<int>(notes_[i]->rank.load(relaxed)),
                     .host = host_,
                     .condition = condition_of(i),
                     .activities = notes_[i]->activities.read(),
                     .stood_s = seen_[i].progress.time_s});
    }
    return all;
  }

  [[nodiscard]] StandingRank::Condition condition_of(std::size_t i) const {
    using Condition = StandingRank::Condition;
    using machine::ProcessState;
    if (seen_[i].progress.time_s < silence_s()) return Condition::runs;
    const auto state = machine::process_state(static_cast<pid_t>(notes_[i]->process_id.load(relaxed)));
    if (state == ProcessState::blocked) return Condition::blocked;
    if (seen_[i].beat.time_s < silence_s()) return Condition::runs;  // whatever /proc of another container says
    if (state == ProcessState::stopped) return Condition::stopped;
    return state == ProcessState::ended ? Condition::ended : Condition::silent;
  }

  const double timeout_s_;
  const std::string host_;
  std::unique_ptr<SharedWindow> window_;
  std::unique_ptr<Notes> alone_;
  Notes* own_ = nullptr;
  std::vector<Notes*> notes_;             ///< of the node's ranks
  std::vector<Seen> seen_;                ///< the same; of the thread
  std::unique_ptr<NodeReports> reports_;  ///< where there are other nodes
  bool has_other_nodes_ = false;
  std::vector<StandingRank> nodes_;  ///< the first rank of each node of the run, and its host
  std::int64_t first_rank_ = 0;      ///< of the node
  std::atomic<bool> has_begun_ = false;
  std::jthread thread_;
};

Watch::Watch(const Session& session, double timeout_s, const std::string& folder)
    : Watch(session.world(), session.node(), timeout_s, folder) {}

Watch::Watch(const Group& world, const Group& node, double timeout_s, const std::string& folder)
    : impl_(timeout_s > 0 ? std::make_unique<Impl>(world, node, timeout_s, folder) : nullptr) {}

Watch::~Watch() = default;

void Watch::begin_steps() {
  if (impl_ != nullptr) impl_->begin_steps();
}

}  // namespace sft::comm
