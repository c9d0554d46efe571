// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this process is doing, in words, and whether it gets on: for those who look for a rank that stands still. The
// thread of `main` says what it does by Activity objects, which nest; whatever thread completes a piece of work calls
// note_progress(). Neither takes a lock nor allocates memory; an Activity costs some dozens of nanoseconds.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sft {

enum class ActivityKind : std::uint8_t {
  works,
  device,  ///< waits for its own GPU
  waits,   ///< for other ranks
  reads,   ///< rows
  saves,
};

/// One of the nested activities of a process, the name of a call with what it is about: "sum over world".
struct ActivityText {
  ActivityKind kind = ActivityKind::works;
  std::string text;
  std::uint64_t number = 0;  ///< of a call among those of its group, which all its ranks count alike; 0: none
};

/// The activities of a process in memory that other processes may read while it writes: fixed size, no pointers.
class ActivityRecord {
 public:
  static constexpr std::size_t max_depth = 4;        ///< deeper ones are left out
  static constexpr std::size_t max_text_bytes = 72;  ///< longer texts are cut

  /// One writer.
  void enter(ActivityKind kind, std::string_view what, std::string_view of, std::string_view over,
             std::uint64_t number);
  void leave();
  /// Takes what `other` holds.
  void take(const ActivityRecord& other);

  /// The outermost first. While the writer changes them, a text may be partly that of its successor.
  [[nodiscard]] std::vector<ActivityText> read() const;

 private:
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share atomics without a lock");
  struct Frame {
    std::array<std::atomic<std::uint64_t>, max_text_bytes / sizeof(std::uint64_t)> text;
    std::atomic<std::uint64_t> kind_and_number;
  };

  std::atomic<std::uint64_t> depth_;
  std::array<Frame, max_depth> frames_;
};

/// Where the activities of this process are noted: `record`, which takes over those that there are, until the next
/// call; nullptr: in memory of its own, as at the start. By the thread of `main`.
void note_activities_in(ActivityRecord* record);
/// Those that there are now. From any thread.
[[nodiscard]] const ActivityRecord& own_activities();

/// This process has got on with its work. From any thread.
void note_progress();
/// Grows with note_progress(), and where an Activity begins or ends.
[[nodiscard]] std::uint64_t progress();

/// How long the thread of `main` was in activities that wait for other ranks. By that thread.
[[nodiscard]] std::chrono::nanoseconds time_waited();

/// What the thread of `main` does while the object lives; of other threads it is ignored.
class Activity {
 public:
  /// Told as "WHAT of OF over OVER", each part where it is given.
  explicit Activity(ActivityKind kind, std::string_view what, std::string_view of = {}, std::string_view over = {},
                    std::uint64_t number = 0);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  bool is_noted_;
  bool is_outermost_wait_ = false;
  std::chrono::steady_clock::time_point start_;  ///< of the outermost wait
};

}  // namespace sft
