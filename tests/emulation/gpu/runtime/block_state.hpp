// SPDX-License-Identifier: Apache-2.0
#pragma once
// The block that runs: its threads, and what each of them waits for.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/block.hpp"
#include "runtime/fiber.hpp"
#include "runtime/running.hpp"
#include "runtime/wgmma.hpp"

namespace sft::emulation {

struct DeferredCopy {
  char* destination;
  const char* source;
  std::size_t bytes, source_bytes;
};

/// A product of a warpgroup that a thread has started.
struct StartedWgmma {
  Wgmma product;
  std::array<std::uint32_t, 4> a_values;     ///< of a_registers when it started
  std::shared_ptr<std::vector<float>> sums;  ///< what d holds for the products under way
};

struct ThreadWgmma {
  std::vector<StartedWgmma> uncommitted;
  std::vector<std::vector<StartedWgmma>> groups;               ///< the oldest first
  std::map<float*, std::shared_ptr<std::vector<float>>> sums;  ///< of every d with a product under way
  bool has_begun = false;                                      ///< has passed a wgmma.fence since it last waited
  bool has_hidden_copies = false;  ///< cp.async copies have come that it has not shown to products
  std::uint64_t trace = 0;         ///< of all products: equal for the threads of a warpgroup
};

/// What a thread came to. Two threads meet where all of it is equal.
struct Meeting {
  const char* name;  ///< of the intrinsic
  bool of_block;
  unsigned mask;  ///< lanes of the warp, where it is not of the block
  Site site;
};

struct BlockThread {
  enum class State { ready, waiting, ended };

  Fiber* fiber = nullptr;
  State state = State::ready;
  Meeting meeting{};
  // What it brings to the meeting, and takes from it.
  std::uint64_t bits = 0;
  int source_lane = 0;
  bool predicate = false;
  void* collective = nullptr;
  std::uint64_t result = 0;
  bool has_fenced = false;  ///< since its last atomic operation

  std::vector<DeferredCopy> uncommitted_copies;
  std::vector<std::vector<DeferredCopy>> copy_groups;  ///< the oldest first
  ThreadWgmma wgmma;
};

/// Runs one block after the other with the same fibers and the same shared memory.
class Block {
 public:
  Block();

  void run(const KernelLaunch& launch, uint3 index);

  [[nodiscard]] const KernelLaunch& launch() const { return *launch_; }
  [[nodiscard]] BlockThread& current() { return threads_[current_]; }
  [[nodiscard]] uint3 thread_index(std::uint32_t thread) const { return indices_[thread]; }

  /// The running thread waits until all whom `meeting` names have come. Returns false to exactly one of them, at its
  /// arrival as the last: it computes the results, then calls complete().
  [[nodiscard]] bool meet(const Meeting& meeting);
  /// Threads [begin, end) are those of the meeting's warp or of the block; absent lanes of a warp are left out.
  [[nodiscard]] std::uint32_t group_begin() const;
  [[nodiscard]] std::uint32_t group_end() const;
  [[nodiscard]] BlockThread& thread(std::uint32_t index) { return threads_[index]; }
  void complete(bool orders_memory);
  /// A fault where products cannot see what some thread has copied.
  void check_copies_are_shown() const;

 private:
  static void enter(void* block);
  void begin(const KernelLaunch& launch, uint3 index);
  void run_threads();
  void resume(std::uint32_t thread);
  void end();
  void poison_shared_memory();
  void check_red_zones() const;
  void check_products() const;
  [[nodiscard]] bool all_have_come(const Meeting& meeting) const;
  void make_ready(std::uint32_t thread);
  [[noreturn]] void report_divergence() const;

  const KernelLaunch* launch_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<BlockThread> threads_;
  std::vector<std::uint32_t> ready_;
  std::uint32_t current_ = 0;
  std::uint32_t num_ended_ = 0;
  std::uint32_t num_at_block_barrier_ = 0;
  std::array<std::uint32_t, Running::max_warps> num_waiting_in_warp_{};  ///< for others of their warp
  std::vector<uint3> indices_;                                           ///< of the threads
  std::vector<unsigned char> shared_;                                    ///< red zone, shared memory, red zone
};

[[nodiscard]] Block& block();

}  // namespace sft::emulation
