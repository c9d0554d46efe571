// SPDX-License-Identifier: Apache-2.0
#include "folder_tensors.hpp"

#include <algorithm>
#include <utility>

#include "quantization.hpp"

namespace sft::hub {

namespace {

/// Frequencies that transformers once stored and now leaves unread.
bool is_old_buffer(const std::string& name) { return name.ends_with("rotary_emb.inv_freq"); }

const char* dtype_of(WeightType type) {
  switch (type) {
    case WeightType::float32:
      return "F32";
    case WeightType::bfloat16:
      return "BF16";
    case WeightType::float16:
      return "F16";
  }
  return "";
}

}  // namespace

std::uint64_t FolderTensor::num_bytes() const {
  if (codes == nullptr) return num_stored_bytes();
  std::uint64_t bytes = size_bytes_of(codes->type());
  for (const std::int64_t size : stored.shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

FolderTensors::FolderTensors(std::string folder, const std::vector<std::string>& paths) : folder_(std::move(folder)) {
  for (const std::string& path : paths) add_file(path);
  join_four_bits(*this);
  join_fp8(*this, quantization_of(folder_));
}

void FolderTensors::add_file(const std::string& path) {
  files_.push_back(io::RawFile::open(path));
  for (StoredTensor& stored : read_safetensors_header(files_.back())) {
    const std::string name = stored.name;
    if (is_old_buffer(name)) continue;
    const auto [place, is_new] = tensors_.insert_or_assign(name, FolderTensor{std::move(stored), &files_.back()});
    if (is_new) names_.push_back(name);
  }
}

std::vector<FileTensor> FolderTensors::list() const {
  std::vector<FileTensor> result;
  result.reserve(names_.size());
  for (const std::string& name : names_) {
    const FolderTensor& tensor = at(name);
    result.push_back({name, tensor.stored.dtype, tensor.stored.shape, tensor.num_bytes()});
  }
  return result;
}

const FolderTensor* FolderTensors::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void FolderTensors::remove(const std::set<std::string>& names) {
  std::erase_if(names_, [&](const std::string& name) { return names.contains(name); });
  std::erase_if(tensors_, [&](const auto& tensor) { return names.contains(tensor.first); });
}

void FolderTensors::rename(const std::string& from, const std::string& to) {
  FolderTensor tensor = std::move(tensors_.at(from));
  tensors_.erase(from);
  tensor.stored.name = to;
  tensors_.insert_or_assign(to, std::move(tensor));
  std::ranges::replace(names_, from, to);
}

void FolderTensors::set_codes(const std::string& name, std::vector<std::int64_t> shape,
                              std::shared_ptr<const CodedTensor> codes) {
  FolderTensor& tensor = tensors_.at(name);
  tensor.stored.shape = std::move(shape);
  tensor.stored.dtype = dtype_of(codes->type());
  tensor.codes = std::move(codes);
}

FolderTensors read_folder_tensors(const std::string& folder) { return {folder, find_weight_files(folder)}; }

}  // namespace sft::hub
