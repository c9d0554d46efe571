// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tensors that the safetensors files of a folder hold, each where it is, and codes with their scales as one.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coded_tensor.hpp"
#include "sft/hub/file_layout.hpp"
#include "sft/io/raw_file.hpp"
#include "weight_files.hpp"

namespace sft::hub {

/// A tensor, as one file holds it.
struct FolderTensor {
  StoredTensor stored;  ///< name and shape are those of the numbers where it is coded, and so is dtype
  const io::RawFile* file = nullptr;
  std::shared_ptr<const CodedTensor> codes = nullptr;

  /// All of its bytes in the file: codes where it is coded.
  [[nodiscard]] std::uint64_t num_stored_bytes() const { return stored.end - stored.begin; }
  /// The bytes of its numbers.
  [[nodiscard]] std::uint64_t num_bytes() const;
};

/// Opens all files and reads their headers. As transformers loads a folder: the last of several tensors of one name
/// is the one, and buffers that older files hold (rotary_emb.inv_freq) are left out.
class FolderTensors {
 public:
  /// Matrices in FP8 and in the 4 bits of bitsandbytes are joined, by config.json in the folder, if it has one.
  FolderTensors(std::string folder, const std::vector<std::string>& paths);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// In the order of the files.
  [[nodiscard]] std::vector<FileTensor> list() const;
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// Null: there is none of that name.
  [[nodiscard]] const FolderTensor* find(const std::string& name) const;
  [[nodiscard]] const FolderTensor& at(const std::string& name) const { return tensors_.at(name); }

  void remove(const std::set<std::string>& names);
  void rename(const std::string& from, const std::string& to);
  /// Makes the tensor one of these numbers.
  void set_codes(const std::string& name, std::vector<std::int64_t> shape, std::shared_ptr<const CodedTensor> codes);

 private:
  void add_file(const std::string& path);

  std::string folder_;
  std::deque<io::RawFile> files_;
  std::vector<std::string> names_;
  std::map<std::string, FolderTensor> tensors_;
};

/// All tensors of a model folder.
[[nodiscard]] FolderTensors read_folder_tensors(const std::string& folder);

}  // namespace sft::hub
