// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shard files: what each writing rank owns of every entry.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "header.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/io/hdf5.hpp"

namespace sft::checkpoint {

/// Elements of the parts that are owned.
[[nodiscard]] std::int64_t num_owned_elements(const std::vector<parallel::StoredPart>& parts);
/// What the numbers of an entry are in files.
[[nodiscard]] io::Number number_of(const Entry& entry);

/// Writes one shard file with a flat dataset /ENTRY for each entry: the owned parts, one after the other, as
/// save_entries() sends them. uint8 stays as it is; bf16 becomes float32, which is exact.
class ShardFileSink final : public io::TensorSink {
 public:
  ShardFileSink(const std::string& folder, const std::string& name, const std::vector<Entry>& entries);

  void write(const std::string& name, const io::Rectangle& where, DType dtype, const void* values) override;
  /// The dataset of the entry is not written: it reads as zeros.
  void leave_zero(const std::string& entry);
  /// Closes and syncs; what checkpoint.h5 says of the file.
  /// Throws std::logic_error unless all that the entries own was written.
  [[nodiscard]] ShardFile finish();

 private:
  std::string name_;
  io::Hdf5File file_;
  struct Dataset {
    io::Number number = io::Number::float32;
    std::int64_t size = 0, num_written = 0;  ///< elements
  };
  std::map<std::string, Dataset> datasets_;  ///< by entry
  std::vector<float> widened_;
};

/// Refuses a shard file that is missing or has another size, and one whose values lie in yet other files.
void check_presence(const std::string& folder, const ShardFile& file);
/// The same, and refuses one that holds other bytes than were written.
void check_contents(const std::string& folder, const ShardFile& file);

}  // namespace sft::checkpoint
