// SPDX-License-Identifier: Apache-2.0
#include "weight_files.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "sft/core/error.hpp"

namespace sft::hub {

namespace {

using nlohmann::json;

constexpr std::uint64_t max_header_bytes = 100'000'000;  ///< as the reference implementation has it
constexpr std::size_t max_dims = 8;
constexpr const char* what_to_do = "copy or download the file again";

/// Reads the JSON as it comes, so that no text can make more of it than its tensors.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] std::vector<StoredTensor>&& take() { return std::move(tensors_); }

  bool start_object(std::size_t /*size*/) override {
    if (depth_ == 0 && !in_array_) return enter(Level::names);
    if (depth_ == 1 && key_ == "__metadata__") return enter(Level::metadata);
    if (depth_ == 1) {
      tensors_.push_back({.name = key_, .dtype = "", .shape = {}});
      has_dtype_ = has_shape_ = has_offsets_ = false;
      return enter(Level::tensor);
    }
    return fail("an object where none belongs");
  }
  bool end_object() override {
    if (level_ == Level::tensor && !(has_dtype_ && has_shape_ && has_offsets_)) {
      return fail(fmt::format("tensor {} lacks its dtype, shape or data_offsets", tensors_.back().name));
    }
    --depth_;
    level_ = depth_ == 1 ? Level::names : Level::none;
    return true;
  }
  bool key(std::string& name) override {
    if (level_ == Level::names && !names_.insert(name).second)
      return fail(fmt::format("the name {} comes twice", name));
    key_ = name;
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    if (level_ != Level::tensor || in_array_ || (key_ != "shape" && key_ != "data_offsets")) {
      return fail("an array where none belongs");
    }
    in_array_ = true;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    if (key_ == "shape") {
      for (const std::uint64_t size : numbers_) {
        if (!std::in_range<std::int64_t>(size))
          return fail(fmt::format("the shape of {} is out of range", tensors_.back().name));
        tensors_.back().shape.push_back(static_cast<std::int64_t>(size));
      }
      has_shape_ = true;
      return true;
    }
    if (numbers_.size() != 2) return fail(fmt::format("data_offsets of {} are not two", tensors_.back().name));
    tensors_.back().begin = numbers_[0];
    tensors_.back().end = numbers_[1];
    has_offsets_ = true;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) return fail("a number where none belongs");
    if (numbers_.size() == max_dims) return fail(fmt::format("tensor {} has too many dims", tensors_.back().name));
    numbers_.push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (level_ == Level::metadata) return true;
    if (level_ != Level::tensor || in_array_ || key_ != "dtype") return fail("a text where none belongs");
    tensors_.back().dtype = value;
    has_dtype_ = true;
    return true;
  }
  bool null() override { return fail("null where none belongs"); }
  bool boolean(bool /*value*/) override { return fail("a truth where none belongs"); }
  bool number_integer(number_integer_t /*value*/) override { return fail("a negative number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return fail("a broken number"); }
  bool binary(binary_t& /*value*/) override { return fail("binary data"); }
  bool parse_error(std::size_t position, const std::string& /*token*/, const json::exception& /*error*/) override {
    return fail(fmt::format("its byte {} is no JSON", position));
  }

 private:
  enum class Level { none, names, metadata, tensor };

  bool enter(Level level) {
    level_ = level;
    ++depth_;
    return true;
  }
  bool fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
    return false;
  }

  Level level_ = Level::none;
  int depth_ = 0;
  bool in_array_ = false, has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::string key_, problem_;
  std::set<std::string> names_;
  std::vector<std::uint64_t> numbers_;
  std::vector<StoredTensor> tensors_;
};

[[noreturn]] void refuse(const io::RawFile& file, const std::string& why) {
  throw_data_error(file.path() + " is no whole safetensors file", why, what_to_do);
}

std::string read_header_text(const io::RawFile& file) {
  const std::uint64_t size = file.size_bytes();
  if (size < 8) refuse(file, fmt::format("it has {} bytes, fewer than the length of a header", size));
  std::array<unsigned char, 8> bytes{};
  file.read(0, bytes.size(), bytes.data());
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) length = length << 8U | bytes[i];
  if (std::ranges::equal(bytes, std::string_view("version "))) {
    throw_data_error(file.path() + " is a pointer of git-lfs", "it stands for the file, which was not fetched",
                     "fetch it: `git lfs pull` in the clone, or `hf download`");
  }
  if (length > max_header_bytes || length > size - 8) {
    refuse(file, fmt::format("its header would have {} bytes, the file has {}", length, size));
  }
  std::string text(length, '\0');
  file.read(8, text.size(), text.data());
  return text;
}

/// Bytes of an element; none: a type that is not known here.
std::optional<std::uint64_t> size_of_type(const std::string& dtype) {
  constexpr std::array<std::pair<const char*, std::uint64_t>, 17> sizes{{{"F64", 8},
                                                                         {"I64", 8},
                                                                         {"U64", 8},
                                                                         {"C64", 8},
                                                                         {"F32", 4},
                                                                         {"I32", 4},
                                                                         {"U32", 4},
                                                                         {"F16", 2},
                                                                         {"BF16", 2},
                                                                         {"I16", 2},
                                                                         {"U16", 2},
                                                                         {"F8_E4M3", 1},
                                                                         {"F8_E5M2", 1},
                                                                         {"F8_E8M0", 1},
                                                                         {"I8", 1},
                                                                         {"U8", 1},
                                                                         {"BOOL", 1}}};
  for (const auto& [name, size] : sizes) {
    if (dtype == name) return size;
  }
  return std::nullopt;
}

/// Bytes that dtype and shape need; none: more than fit into 64 bits.
std::optional<std::uint64_t> needed_bytes(const StoredTensor& tensor, std::uint64_t element_bytes) {
  std::uint64_t bytes = element_bytes;
  for (const std::int64_t size : tensor.shape) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (factor != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / factor) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

/// Whether the tensors fill the bytes behind the header, one after the other; moves their places behind it.
void place_tensors(const io::RawFile& file, std::uint64_t data_begin, std::vector<StoredTensor>& tensors) {
  const std::uint64_t data_bytes = file.size_bytes() - data_begin;
  std::ranges::sort(tensors, {}, [](const StoredTensor& tensor) { return std::pair(tensor.begin, tensor.end); });
  std::uint64_t next = 0;
  for (StoredTensor& tensor : tensors) {
    const auto refuse_place = [&](const std::string& why) {
      refuse(file, fmt::format("tensor {} {}", tensor.name, why));
    };
    if (tensor.begin != next || tensor.end < tensor.begin) {
      refuse_place(fmt::format("begins at byte {} where {} comes next", tensor.begin, next));
    }
    if (tensor.end > data_bytes) {
      refuse_place(fmt::format("ends at byte {} of {}: the file is cut", tensor.end, data_bytes));
    }
    if (const auto element_bytes = size_of_type(tensor.dtype)) {
      if (needed_bytes(tensor, *element_bytes) != tensor.end - tensor.begin) {
        refuse_place("has other bytes than its dtype and shape need");
      }
    }
    next = tensor.end;
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  if (next != data_bytes) {
    refuse(file, fmt::format("its tensors have {} bytes, the file holds {}", next, data_bytes));
  }
}

}  // namespace

std::vector<StoredTensor> read_safetensors_header(const io::RawFile& file) {
  const std::string text = read_header_text(file);
  HeaderReader reader;
  if (text.empty() || text.front() != '{' || !json::sax_parse(text, &reader)) {
    refuse(file, "its header is broken: " + (reader.problem().empty() ? "it is no JSON object" : reader.problem()));
  }
  std::vector<StoredTensor> tensors = reader.take();
  place_tensors(file, 8 + text.size(), tensors);
  return tensors;
}

}  // namespace sft::hub
