// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weights of a model folder in the format of the Hugging Face hub: model.safetensors, or several files and
// model.safetensors.index.json, as a source and a sink of named tensors. A tensor NAME of the files is "model/NAME".
//
// A safetensors file is the length of its header (8 bytes, little-endian), the header (JSON: name, dtype, shape and
// place of every tensor), and the tensors' bytes without gaps (github.com/huggingface/safetensors).

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/hub/tensor_map.hpp"
#include "sft/io/raw_file.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::hub {

/// How weights are stored.
enum class WeightType { float32, bfloat16, float16 };
/// "float32", "bfloat16" or "float16", as PyTorch says it.
[[nodiscard]] const char* name_of(WeightType type);
[[nodiscard]] std::uint64_t size_bytes_of(WeightType type);
/// The inverse of name_of; a configuration Error for another word.
[[nodiscard]] WeightType parse_weight_type(const std::string& text);

/// What the files of weights are called: model.safetensors ..., or those of an adapter in PEFT's format.
inline constexpr const char* model_stem = "model";
inline constexpr const char* adapter_stem = "adapter_model";

/// The weights in `folder`, in F32, BF16 or F16, or what FP8, 4 bits and MXFP4 stand for, read as float32 or bf16, as
/// the tensors of the model: by the rules of the family that its config.json names (file_layout.hpp). Each rank opens
/// it for itself and reads the bytes of what it asks for alone; of experts in MXFP4 a matrix at a time. Left out:
/// buffers that older files hold (rotary_emb.inv_freq), towers other than that of the text and, when `is_head_tied`,
/// lm_head.weight, which is the embedding table where there is none. Refuses, with the file's name: no safetensors
/// files, a damaged header or index, a file that is missing or cut, tensors of other types, and a folder that does not
/// hold the form that its config.json says.
[[nodiscard]] std::unique_ptr<io::TensorSource> open_weights(const std::string& folder, bool is_head_tied);
/// The tensors of an adapter's folder in PEFT's format, adapter_model.safetensors, in the same way: an adapter of a
/// module that is several of the model's is one of each, with the same A. `base`: of the folder that it belongs to.
[[nodiscard]] std::unique_ptr<io::TensorSource> open_adapter_weights(const std::string& folder, const FileLayout& base);

/// In a folder in the 4 bits of bitsandbytes: the linear layers of the model's blocks whose matrices are not taken as
/// codes (io::TensorSource::read_four_bits), because the folder holds numbers, as modules that were found too
/// sensitive, or codes that cannot be kept as they are; by their paths, with those whose matrices are one product with
/// theirs. Nothing for other folders. Reads headers, and the forms of codes. `groups`: the paths of all linear layers,
/// those together that are one product.
[[nodiscard]] std::optional<std::vector<std::string>> unquantized_modules(
    const std::string& folder, bool is_head_tied, const std::vector<std::vector<std::string>>& groups);

/// Refuses files whose lm_head.weight, if they have one, is not their embedding table: then the head is not tied,
/// whatever config.json says. Reads both tensors.
void check_tied_head(const std::string& folder);

/// Which file holds what, for weights that are to be written. The same on every rank for the same arguments. Pure.
class WeightsPlan {
 public:
  /// `tensors`: "ENTRY/NAME" of the model or an adapter, in the order of the files, which hold them as `layout` says;
  /// what that carries comes last, in its own dtypes. A file takes at most `max_file_bytes` of weights, or one tensor.
  /// `stem`: model_stem or adapter_stem. `lora`: of an adapter (TensorMap).
  WeightsPlan(const std::vector<io::TensorInfo>& tensors, WeightType type, std::uint64_t max_file_bytes,
              const std::string& stem = model_stem, const FileLayout& layout = {}, const config::Lora* lora = nullptr);

  struct File {
    std::string name;    ///< "STEM.safetensors", or "STEM-00001-of-00003.safetensors"
    std::string header;  ///< with its length before it
    std::uint64_t size_bytes = 0;
  };
  struct TensorRange {
    std::size_t file = 0;
    std::uint64_t begin = 0;  ///< byte of the file
  };

  [[nodiscard]] WeightType type() const { return type_; }
  /// The type of tensor number `index` of map().files(): type() but for corrections of routers, which are float32 in
  /// any model, as transformers keeps them.
  [[nodiscard]] WeightType type_of(std::size_t index) const;
  [[nodiscard]] const std::vector<File>& files() const { return files_; }
  [[nodiscard]] const TensorMap& map() const { return map_; }
  /// What is known of tensor number `index` of map().files().
  [[nodiscard]] const TensorRange& place(std::size_t index) const { return places_[index]; }
  /// Those that are carried, and where they go.
  [[nodiscard]] const std::vector<std::pair<FileTensor, TensorRange>>& carried() const { return carried_; }
  /// model.safetensors.index.json; empty with one file.
  [[nodiscard]] std::string index_json() const;

 private:
  WeightType type_;
  std::vector<File> files_;
  TensorMap map_;
  std::vector<TensorRange> places_;  ///< as map_.files()
  std::vector<std::pair<FileTensor, TensorRange>> carried_;
  std::map<std::string, std::string> file_of_;  ///< by the name of the tensor
  std::uint64_t total_bytes_ = 0, num_elements_ = 0;
};

/// Makes the files of a plan, without their tensors. One rank calls it before any makes a WeightsSink.
void create_weight_files(const WeightsPlan& plan, const std::string& folder);

/// Copies what the plan carries from the safetensors files in the folder `from` into its own files in `to`, which
/// create_weight_files() made: byte by byte. One rank.
void copy_carried(const WeightsPlan& plan, const std::string& from, const std::string& to);

/// Brings the adapters of experts in the plan's files in `folder` into PEFT's order, once all sinks have finished and
/// before anything reads them; a tensor at a time is in memory. One rank. Nothing to do for other plans.
void order_experts(const WeightsPlan& plan, const std::string& folder);

class SharedRegions;

/// Writes tensors into the files of a plan. Each rank has its own.
class WeightsSink final : public io::TensorSink {
 public:
  /// `plan` outlives it, and so does `regions`: where there are any, which have been started, columns of matrices go
  /// through them, and finish() of all ranks of the node belongs to what is written.
  WeightsSink(const WeightsPlan& plan, const std::string& folder, SharedRegions* regions = nullptr);

  /// Exact where the type holds every bit of them, else rounded to the nearest, ties to even.
  /// Refuses a finite number that float16 cannot hold with a data Error that names the tensor.
  /// Writes a region of the file when it has 4 MiB, or when something else than what follows on it comes: so errors may
  /// come later.
  void write(const std::string& name, const io::Rectangle& where, DType dtype, const void* values) override;
  /// Returns when what this rank wrote is on the disk.
  void finish();

 private:
  void flush();
  io::RawFile& open(std::size_t file);

  const WeightsPlan& plan_;
  std::string folder_;
  SharedRegions* regions_;

  std::map<std::size_t, io::RawFile> files_;  ///< those written to
  std::vector<char> converted_;
  std::vector<float> widened_;
  /// What is to be written next, and where.
  std::vector<char> region_;
  std::size_t region_file_ = 0;
  std::uint64_t region_begin_ = 0;
};

}  // namespace sft::hub
