// SPDX-License-Identifier: Apache-2.0
#include "sft/io/tensor_source.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "sft/core/dtype.hpp"
#include "sft/core/ensure.hpp"

namespace sft::io {

std::int64_t TensorInfo::num_elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string entry_of(const std::string& name) { return name.substr(0, name.find('/')); }

void convert(std::span<const float> values, DType dtype, void* out) {
  if (dtype == DType::float32) {
    std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  SFT_ENSURE(dtype == DType::bf16, "numbers in files become float32 or bf16");
  std::ranges::transform(values, static_cast<std::uint16_t*>(out), bf16_of_float32);
}

const float* as_float32(const void* values, DType dtype, std::size_t count, std::vector<float>& scratch) {
  if (dtype == DType::float32) return static_cast<const float*>(values);
  SFT_ENSURE(dtype == DType::bf16, "numbers in memory are float32 or bf16");
  scratch.resize(count);
  const auto* bits = static_cast<const std::uint16_t*>(values);
  std::transform(bits, bits + count, scratch.begin(), float32_of_bf16);
  return scratch.data();
}

}  // namespace sft::io
