// SPDX-License-Identifier: Apache-2.0
#include "index_tensors.hpp"

#include <algorithm>
#include <cstring>

namespace sft::checkpoint {

std::vector<io::TensorInfo> IndexSource::tensors() const {
  std::vector<io::TensorInfo> tensors;
  for (const std::string& entry : index_.list_groups("/")) {
    std::vector<std::string> parameters = index_.list_datasets("/" + entry);
    std::ranges::sort(parameters, [](const std::string& left, const std::string& right) {
      return ::strverscmp(left.c_str(), right.c_str()) < 0;  // layers.2 before layers.10
    });
    for (const std::string& parameter : parameters) {
      const std::string name = entry + "/" + parameter;
      const DType dtype = index_.is_dataset_uint8("/" + name) ? DType::uint8 : DType::float32;
      tensors.push_back({name, index_.dataset_shape("/" + name), dtype});
    }
  }
  return tensors;
}

void IndexSource::read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const {
  if (dtype == DType::float32 || dtype == DType::uint8) {
    index_.read("/" + name, dtype == DType::uint8 ? io::Number::uint8 : io::Number::float32, where, values);
    return;
  }
  std::vector<float> stored(where.num_elements());
  index_.read("/" + name, io::Number::float32, where, stored.data());
  io::convert(stored, dtype, values);
}

}  // namespace sft::checkpoint
