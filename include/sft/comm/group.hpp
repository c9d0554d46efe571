#pragma once
// A set of ranks that communicate: lifetime, identity, and small messages between hosts.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sft/core/error.hpp"

namespace sft::comm {

/// An MPI communicator. Cheap to copy (shared). All host collectives below are collective over the group and blocking;
/// an MPI error is thrown as an Error that names the group, the call and the rank.
class Group {
 public:
  struct Impl;
  Group() = default;
  explicit Group(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// For messages: "world", "tp", "fsdp" ...
  [[nodiscard]] const std::string& name() const;
  /// Whether the two are the same communicator.
  [[nodiscard]] bool operator==(const Group& other) const { return impl_ == other.impl_; }

  void barrier() const;
  void sum(std::span<double> values) const;
  void sum(std::span<std::int64_t> values) const;
  void max(std::span<double> values) const;
  void min(std::span<double> values) const;
  void max(std::span<std::int64_t> values) const;
  void broadcast(std::span<std::int64_t> values, int root) const;
  /// Every rank ends with the text of `root`.
  void broadcast(std::string& text, int root) const;
  /// All ranks' texts in rank order, on every rank.
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& text) const;

  /// Runs `work` on every rank, then agrees: if any rank threw, every rank throws the same Error, the one of the lowest
  /// failing rank; when several ranks could differ the message names it. Use it around work that can fail on one rank.
  void agree(const std::function<void()>& work) const;

  /// A group of the ranks that gave the same color, ordered by (key, rank). Collective.
  [[nodiscard]] Group split(int color, int key, const std::string& name) const;

  [[nodiscard]] Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace sft::comm
