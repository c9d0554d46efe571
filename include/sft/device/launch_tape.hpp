// SPDX-License-Identifier: Apache-2.0
#pragma once
// What repeats of the work that the host queues on a stream is queued by one call. A host takes a few microseconds for
// each launch of a kernel: a GPU that is done with it sooner waits for the next one.
//
// Launches are put off until something else happens on the stream: then they are a chain, and what they are, every
// argument of every launch, is its key. A chain that comes again, argument by argument the same, is recorded; from then
// on the recording is launched in its place. So nothing has to be known of what varies between two micro-batches: what
// varies makes another chain, which is launched as it always was.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace sft::device {

/// Queues work on the stream of a tape, always the same: it may be called again, after what it was made from is gone,
/// as long as the memory that the work is about is there.
using Launch = std::function<void()>;

/// The launches of a chain, recorded. Destroyed behind its last launch(), whose work may be under way.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Queues all of it, in order.
  virtual void launch() = 0;
};

/// How a kind of streams records.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// Of so many launches, which `launches` makes: while it is called here it queues nothing. Null where it cannot be
  /// recorded, for which the recorder has said why: then none will be asked for again.
  [[nodiscard]] virtual std::unique_ptr<Recording> record(std::size_t num_launches, const Launch& launches) = 0;
};

/// The tape of a stream, which owns it. What its launches refer to is used until settle() or stop().
class LaunchTape {
 public:
  struct Limits {
    /// A chain is recorded when it comes for this time: by then its kernels are loaded, which cannot be recorded.
    int recorded_at = 2;
    /// Recordings that are kept, and keys of as many chains that are none: those that came last.
    std::size_t kept = 2048;
  };
  struct Counts {
    std::int64_t plain = 0, repeated = 0;     ///< launches: made one by one, and in recordings
    std::int64_t recordings = 0, chains = 0;  ///< that were made; launches of recordings
  };

  LaunchTape(std::unique_ptr<Recorder> recorder, const Limits& limits);

  /// From now on launches are put off.
  void start() { is_on_ = true; }
  /// Settles, and from now on they are not.
  void stop();
  [[nodiscard]] bool is_on() const { return is_on_; }

  /// Puts `launch` off, or calls it where none is put off. `key` is all that tells it from any other launch, the kind
  /// of its work and how long the key is among it.
  void defer(std::span<const std::uint64_t> key, Launch launch);
  /// Makes all launches that are put off, before anything else is queued on the stream. Cheap where there are none.
  void settle() {
    if (!launches_.empty() && !is_settling_) settle_chain();
  }
  /// Forgets them: the work that they belong to has failed.
  void forget() noexcept;

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  using Key = std::vector<std::uint64_t>;
  struct HashOfKey {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Chain {
    const Key* key = nullptr;
    int times_seen = 0;
    std::unique_ptr<Recording> recording = {};
  };
  using Chains = std::list<Chain>;

  void settle_chain();
  /// The recording of the chain that is put off; null: it has none.
  [[nodiscard]] Recording* recording_of_chain(const std::vector<Launch>& launches);
  /// The chain of that key, now the one that came last.
  [[nodiscard]] Chain& find_chain();

  std::unique_ptr<Recorder> recorder_;  ///< null: it cannot record
  const Limits limits_;
  bool is_on_ = false, is_settling_ = false;
  Key key_;
  std::vector<Launch> launches_;
  Chains chains_;  ///< the one that came last first
  std::unordered_map<Key, Chains::iterator, HashOfKey> by_key_;
  Counts counts_;
};

/// Calls work(), whose launches on the stream of `tape` are put off; null: none are.
template <class Work>
void defer_launches(LaunchTape* tape, const Work& work) {
  if (tape == nullptr) return work();
  tape->start();
  try {
    work();
    tape->stop();
  } catch (...) {
    tape->forget();
    throw;
  }
}

}  // namespace sft::device
