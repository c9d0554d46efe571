// SPDX-License-Identifier: Apache-2.0
#pragma once
// A collective on a shared window as work of a CPU stream.

#include <cstdint>
#include <functional>
#include <vector>

#include "collective_work.hpp"
#include "shared_window.hpp"

namespace sft::comm {

/// Rounds of local work, each begun when all ranks have ended the one before; the first when all have come to the call,
/// so that their tensors are ready and free. The call is over when all ranks have ended the last round. Never blocks.
class WindowCall final : public CollectiveWork {
 public:
  /// In which call of which window a round works.
  struct Site {
    SharedWindow& window;
    std::uint64_t call;

    [[nodiscard]] std::byte* tensor(int rank) const { return window.tensor(call, rank); }
  };
  using Round = std::function<void(const Site&)>;

  /// `collective`: its name, a literal. `tensor`: this rank's, in the window, which outlives the call. One or two
  /// rounds. `at_end`, where given, runs when the call is over, with no access to tensors of others.
  WindowCall(SharedWindow& window, const char* collective, const std::byte* tensor, std::vector<Round> rounds,
             std::function<void()> at_end = nullptr)
      : CollectiveWork(window.group(), collective),
        site_{window, window.next_call()},
        offset_(tensor - window.data(window.group().rank())),
        rounds_(std::move(rounds)),
        at_end_(std::move(at_end)) {}

  bool test() override;

 private:
  /// Goes on as far as the other ranks allow; true when the call is over.
  bool advance();

  Site site_;
  std::size_t offset_;
  std::vector<Round> rounds_;
  std::function<void()> at_end_;
  std::size_t stage_ = 0;  ///< that this rank has noted: 1 + ended rounds
};

}  // namespace sft::comm
