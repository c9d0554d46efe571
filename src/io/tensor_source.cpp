// SPDX-License-Identifier: Apache-2.0
#include "sft/io/tensor_source.hpp"

#include <functional>
#include <numeric>

namespace sft::io {

std::int64_t TensorInfo::num_elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string entry_of(const std::string& name) { return name.substr(0, name.find('/')); }

}  // namespace sft::io
