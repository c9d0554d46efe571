// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writing a checkpoint in steps, so that the long one may run beside training:
//
//   checkpoint::Save save(...);             // collective: the folder, and shard files without their numbers
//   take_snapshot(save.plan(), ...);        // local: what this rank writes, copied to the host; or leave it out
//   save.write(snapshot);                   // local, on any thread: neither MPI nor HDF5
//   save.commit();                          // collective: the map of the files, and the name that says complete
//   remove_old(...);                        // local, on any thread
//
// checkpoint::save() (checkpoint.hpp) calls them one after the other. docs/checkpoints.md has the format.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/config/config.hpp"
#include "sft/core/dtype.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/mesh/place.hpp"

namespace sft::checkpoint {

/// Neighbouring elements of an entry's memory.
struct MemoryRange {
  std::int64_t begin = 0, count = 0;
};

/// What a rank writes of an entry.
struct EntryWrites {
  DType dtype = DType::float32;
  std::vector<MemoryRange> ranges;  ///< in the order of the file
  std::int64_t num_elements = 0;    ///< of them together
  std::size_t snapshot_begin = 0;   ///< where they begin in a snapshot, in bytes: a multiple of 64

  [[nodiscard]] std::size_t num_bytes() const { return static_cast<std::size_t>(num_elements) * size_of(dtype); }
};

/// What a rank writes of all entries: of R ranks that hold the same shard each writes about 1/R. Pure: of the entries
/// it takes shard map, layout and dtype, so that a snapshot's memory can be planned before there is any.
class WritePlan {
 public:
  explicit WritePlan(const std::vector<Entry>& entries);

  [[nodiscard]] const std::vector<EntryWrites>& entries() const { return entries_; }
  /// The size of a snapshot, a multiple of 64.
  [[nodiscard]] std::size_t snapshot_bytes() const { return snapshot_bytes_; }
  /// That of another rank of the mesh, whose shard of each entry holds as many numbers to write.
  [[nodiscard]] std::size_t snapshot_bytes_of(const mesh::Place& place) const;

 private:
  /// What the ranks along `copy_axes` write of an entry together.
  struct Shared {
    DType dtype;
    std::int64_t num_elements;
    AxisSet copy_axes;
  };
  std::vector<EntryWrites> entries_;
  std::vector<Shared> shared_;  ///< by entry
  std::size_t snapshot_bytes_ = 0;
};

/// Neighbouring bytes to copy from memory of the state to a snapshot.
struct SnapshotCopy {
  std::byte* to;
  const void* from;
  std::size_t num_bytes;
};

/// Reads what this rank writes of state in files to `snapshot`, plan.snapshot_bytes() of host memory, and returns the
/// copies of memory that are left to make. Local; a data Error names a file.
[[nodiscard]] std::vector<SnapshotCopy> begin_snapshot(const WritePlan& plan, const State& state, std::byte* snapshot);
/// Copies what this rank writes to `snapshot`, plan.snapshot_bytes() of host memory: the elements of each entry from
/// its snapshot_begin on, without gaps. Local. State in files is read before it returns, where a data Error names them;
/// copies of memory are queued on `stream`.
void take_snapshot(const WritePlan& plan, const State& state, device::Device& device, device::Stream& stream,
                   std::byte* snapshot);

/// One checkpoint in the making: OUTPUT_DIR/checkpoint-SSSSSS.tmp until it is committed.
class Save {
 public:
  /// Makes the folder and lays out the shard files, `config.checkpoint.files_per_node` on each node; in the place of
  /// what an unfinished save left. `position`, `config`: what commit() will write. The entries' shard maps and layouts,
  /// and the groups, outlive it. Collective over the world; a data Error is the same on all ranks.
  Save(const std::string& output_dir, const config::Config& config, const std::string& tokenizer,
       const mesh::Place& place, const mesh::Groups& groups, const std::vector<Entry>& entries,
       const Position& position);
  /// Leaves what is not committed under its temporary name, where others may still write; the next save removes it.
  ~Save();
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  /// OUTPUT_DIR/checkpoint-SSSSSS
  [[nodiscard]] const std::string& folder() const;
  /// What this rank writes.
  [[nodiscard]] const WritePlan& plan() const;
  /// Whether write() went wrong on this rank. Behind it.
  [[nodiscard]] bool has_failed() const;

  /// Writes what take_snapshot() copied, hashing it on the way, and syncs the file. Once, or the write() below instead.
  /// Local, on any thread, also while others use this rank's groups and HDF5. What goes wrong is kept for commit(): it
  /// throws nothing.
  void write(const std::byte* snapshot) noexcept;
  /// Writes straight from the entries' memory, which must not change meanwhile. Not beside other work of `device`.
  void write(const State& state, device::Device& device, device::Stream& stream) noexcept;

  /// Ends it, when write() has returned (and what its thread wrote is visible here): the map of the files, its seal,
  /// and the name that says complete. Throws a data Error, the same on all ranks, where a rank could not write; then
  /// the files are gone. Returns the date that was written on rank 0, for position.date of the next save. Collective
  /// over the world.
  std::string commit();

  /// Removes the files in place of commit(), while no rank writes: behind an error that all ranks have met. Rank 0 does
  /// it; what cannot be removed stays for the next save.
  void discard() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Removes complete checkpoints beside `folder` that are on the way of `lineage`, all but the `limit` of the highest
/// steps, `folder` among them; 0 keeps all. One named `best` stays, too, and is one of the `limit` unless that is 1.
/// Those of other runs stay, and those whose checkpoint.h5 does not say whose they are. Not collective: rank 0 calls
/// it, on any thread.
void remove_old(const std::string& folder, const Lineage& lineage, std::int64_t limit, const std::string& best = "");

}  // namespace sft::checkpoint
