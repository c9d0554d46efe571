// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds devices that wait for each other for ever.
//
// A device runs one NCCL operation at a time here, the least that NCCL may count on. While that operation waits for
// ranks that have not begun it, the process says so on a page that others can read. An operation ends only when all
// whom it waits for have begun it, and they begin it only after the one they run now: so a circle of such waits never
// ends.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared_memory.hpp"

namespace sft::emulation {

class WaitPage {
 public:
  /// Of this process.
  [[nodiscard]] static WaitPage& mine();

  [[nodiscard]] const SharedMemoryKey& key() const { return key_; }
  /// Operation `what` of this process waits now for these to begin their part; none: it waits for nobody. Called again
  /// and again while it waits.
  void set(const std::string& what, const std::vector<SharedMemoryKey>& waited_for);

  /// Describes a circle of waits through this process that will not end. It has to be seen twice, some time apart, so
  /// it is found after some calls. Cheap in between. Who finds it tells the other processes of the circle, which then
  /// get the same words even where it leaves at once.
  [[nodiscard]] std::optional<std::string> find_circle();

 private:
  WaitPage();

  /// What a page said at one moment.
  struct Wait {
    SharedMemoryKey page;
    std::uint64_t version = 0, beat = 0;
    std::string what;
    std::vector<SharedMemoryKey> waited_for;
  };
  /// The page of a process; null when that has ended.
  [[nodiscard]] const SharedMemory* memory_of(const SharedMemoryKey& key);
  [[nodiscard]] std::optional<Wait> read(const SharedMemoryKey& key);
  /// Writes to the page of one who waits that the wait belongs to this circle.
  void tell(const Wait& wait, const std::string& circle);
  /// Follows the waits from the last of `path` until they come back to its first.
  [[nodiscard]] bool extend_to_circle(std::vector<Wait>& path);

  SharedMemoryKey key_;
  SharedMemory memory_;
  std::string what_;
  std::vector<SharedMemoryKey> waited_for_;
  std::map<std::pair<std::int32_t, std::int32_t>, SharedMemory> others_;
  std::vector<Wait> seen_;  ///< the circle that was found last
  std::chrono::steady_clock::time_point looked_at_;
};

}  // namespace sft::emulation
