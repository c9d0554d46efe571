#pragma once
// Looking into a checkpoint without a mesh: for tools. Nothing here is collective, and no more than a few rows of a
// tensor are in memory at a time.

#include <cstdint>
#include <string>
#include <vector>

namespace sft::checkpoint {

struct TensorInfo {
  std::string dataset;  ///< "model/model.norm.weight"
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::int64_t num_elements() const;
};

/// Every tensor of the checkpoint: model first, then exp_avg and exp_avg_sq, each sorted by name, numbers in names by
/// value. Refuses a damaged checkpoint.h5, and a shard that is missing or cut; the functions below rely on that.
[[nodiscard]] std::vector<TensorInfo> list_tensors(const std::string& folder);

struct Statistics {
  double norm = 0.0;            ///< root of the sum of squares, NaN where a value is
  double min = 0.0, max = 0.0;  ///< of the values that are numbers; 0 when there is none
  std::int64_t num_nan = 0;
};

/// Statistics of one tensor of list_tensors.
[[nodiscard]] Statistics measure(const std::string& folder, const TensorInfo& tensor);

/// How far two tensors of one name and shape are apart.
struct Difference {
  double max_abs = 0.0;   ///< largest |a - b|; NaN where a value is
  double relative = 0.0;  ///< norm of a - b over the norm of a; 0 when they are equal
};

/// Compares a tensor of list_tensors(folder) with its namesake in `other`, listed before too; refuses one that is
/// missing or has another shape there.
[[nodiscard]] Difference compare(const std::string& folder, const std::string& other, const TensorInfo& tensor);

struct ShardInfo {
  std::string name;
  std::int64_t size_bytes = 0;
};
[[nodiscard]] std::vector<ShardInfo> list_shards(const std::string& folder);

/// Reads every shard and compares its size and checksum, then every tensor through the index; what is damaged first is
/// a data Error that names it.
void verify(const std::string& folder);

}  // namespace sft::checkpoint
