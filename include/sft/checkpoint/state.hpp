// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run saves and loads: named entries ("model", the moments of the optimizer ...), each a tensor for every
// parameter, or for some, of which a rank holds parts. Filling the entries from a source and emptying them into a sink
// is done here, the same for every file format; nothing here knows HDF5 or files.

#include <functional>
#include <string>
#include <vector>

#include "sft/checkpoint/loaded_weights.hpp"
#include "sft/device/device.hpp"
#include "sft/io/tensor_source.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/parallel/stored_layout.hpp"
#include "sft/parallel/unit_storage.hpp"
#include "sft/tensor/tensor.hpp"
#include "sft/transfer/offloaded_shard.hpp"

namespace sft::checkpoint {

/// What is behind the name of an entry in that of another one: what its tensors began with, which belongs to them.
inline constexpr const char* start_suffix = "_start";

/// One named part of the state, of one part of the model. In storage its tensors are "NAME/PARAMETER".
struct Entry {
  std::string name;                     ///< "model", "exp_avg" ...: without "/"
  const parallel::ShardMap* shard_map;  ///< which parameters, and what this rank holds of them; outlives the entry
  Tensor tensor;  ///< (num_elements of the layout), in memory of the device or pinned, owned by others; or empty:
  transfer::OffloadedShard* in_file = nullptr;  ///< where it lies instead
  /// Which tensors, and where their parts lie in that memory; outlives the entry.
  const parallel::StoredLayout* layout = &parallel::as_parameters();

  /// Storage of matrices in 4 bits whose records `tensor` is, and whose nested scales come with them; null: `tensor`
  /// has the numbers. Such entries are loaded by load_shared() and load_weights() alone, and not saved.
  const parallel::UnitStorage* four_bits = nullptr;

  /// The dtype in memory, which is that of the file, too.
  [[nodiscard]] DType dtype() const { return in_file != nullptr ? in_file->dtype() : tensor.dtype; }
};

/// All that a run must keep to go on, and how what follows from it is brought up to date.
class State {
 public:
  /// `refresh` recomputes on the device whatever is derived from the entries, such as low-precision copies of the
  /// parameters. Local. Throws std::logic_error without entries or `refresh`, for two entries of one name, map and
  /// layout, and for a tensor that is not as long as its layout says. Entries of one name follow each other and share
  /// its tensors: those of different maps are of different parts of the model (parallel::Part), those of one map are
  /// read alone.
  State(std::vector<Entry> entries, std::function<void()> refresh);

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  /// Those that have the name of the first, with a part of the weights each, and those of what these began with.
  [[nodiscard]] std::vector<Entry> first_entries() const;
  /// The memory of the entry `name`. Throws std::logic_error when there is none, or none in memory.
  [[nodiscard]] Tensor tensor(const std::string& name) const;
  /// Must follow every write to the tensors; load_entries() does it.
  void refresh() const { refresh_(); }

 private:
  std::vector<Entry> entries_;
  std::function<void()> refresh_;
};

/// Refuses a source that lacks a tensor of these entries, has one more in them, or one of another shape, or codes for
/// numbers: a data Error that names it and ends with `what_to_do`. Entries of the source that are not asked for are
/// left alone. Reads no element. Local.
void check_entries(const io::TensorSource& source, const std::vector<Entry>& entries,
                   const std::string& what_to_do = "use the [model] section that it was written with");

/// Reads the parts that this rank holds of every entry, with zeros between them, then refreshes what follows from
/// them. The source must have passed check_entries. Refuses weights ("model", "adapter") that are no finite numbers;
/// `seen` gets those of "model". Local; returns when all is read.
void load_entries(const io::TensorSource& source, const State& state, device::Device& device, device::Stream& stream,
                  LoadedWeights& seen);
void load_entries(const io::TensorSource& source, const State& state, device::Device& device, device::Stream& stream);

/// Writes the parts that this rank owns of every entry (StoredPart::is_owner), in the order of entries and, within one,
/// of its memory. Local; returns when the sink has all.
void save_entries(const State& state, io::TensorSink& sink, device::Device& device, device::Stream& stream);

}  // namespace sft::checkpoint
