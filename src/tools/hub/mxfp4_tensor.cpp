// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "folder_tensors.hpp"
#include "mxfp4.hpp"
#include "sft/core/error.hpp"

namespace sft::hub {

namespace {

constexpr const char* blocks_suffix = "_blocks";
constexpr const char* scales_suffix = "_scales";

/// Matrices of all experts of a layer in MXFP4.
class Mxfp4Tensor final : public CodedTensor {
 public:
  /// `matrix_size`: numbers of an expert.
  Mxfp4Tensor(FolderTensor blocks, FolderTensor scales, std::int64_t matrix_size)
      : blocks_(std::move(blocks)), scales_(std::move(scales)), size_(matrix_size) {}

  [[nodiscard]] WeightType type() const override { return WeightType::float32; }

  void read(std::int64_t first, std::int64_t count, float* values) const override {
    const std::scoped_lock held(lock_);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t matrix = (first + i) / size_;
      if (matrix != last_) read_matrix(matrix);
      values[i] = mxfp4_value(block_bytes_.data(), scale_bytes_.data(), first + i - matrix * size_);
    }
  }

 private:
  void read_matrix(std::int64_t matrix) const {
    last_ = -1;
    block_bytes_.resize(size_ / 2);
    scale_bytes_.resize(size_ / mxfp4_block);
    blocks_.file->read(blocks_.stored.begin + matrix * block_bytes_.size(), block_bytes_.size(), block_bytes_.data());
    scales_.file->read(scales_.stored.begin + matrix * scale_bytes_.size(), scale_bytes_.size(), scale_bytes_.data());
    last_ = matrix;
  }

  FolderTensor blocks_, scales_;
  std::int64_t size_;
  // The matrix that was read last: what asks for it goes through it row by row.
  mutable std::mutex lock_;
  mutable std::int64_t last_ = -1;
  mutable std::vector<std::uint8_t> block_bytes_, scale_bytes_;
};

}  // namespace

void join_mxfp4(FolderTensors& tensors) {
  std::set<std::string> scales_of;
  for (const std::string& name : std::vector<std::string>(tensors.names())) {
    if (!name.ends_with(blocks_suffix)) continue;
    const FolderTensor& blocks = tensors.at(name);
    const std::string joined = name.substr(0, name.size() - std::strlen(blocks_suffix));
    const FolderTensor* const scales = tensors.find(joined + scales_suffix);
    std::vector<std::int64_t> shape = blocks.stored.shape;
    if (!shape.empty()) shape.pop_back();
    const bool is_whole = scales != nullptr && shape.size() == 3 && blocks.stored.dtype == "U8" &&
                          blocks.stored.shape.back() == mxfp4_block_bytes && scales->stored.dtype == "U8" &&
                          scales->stored.shape == shape;
    if (!is_whole) {
      throw_data_error(fmt::format("tensor {} of {} cannot be read as MXFP4", name, tensors.folder()),
                       "it is (experts, rows, blocks, 16) of U8, and has scales (experts, rows, blocks)",
                       "copy or download the folder again");
    }
    shape.back() *= mxfp4_block;
    tensors.set_codes(name, shape, std::make_shared<Mxfp4Tensor>(blocks, *scales, shape[1] * shape[2]));
    tensors.rename(name, joined);
    scales_of.insert(joined + scales_suffix);
  }
  tensors.remove(scales_of);
}

}  // namespace sft::hub
