// SPDX-License-Identifier: Apache-2.0
#include "prepare/byte_stream.hpp"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/io/file_kind.hpp"

namespace sft::prepare {

namespace {

constexpr std::string_view gzip_magic = "\x1f\x8b";
constexpr std::string_view zstd_magic = "\x28\xb5\x2f\xfd";

/// Frames of Zstandard that hold no data may come first: pzstd writes one before each of its others.
bool begins_as_zstandard(std::string_view bytes) {
  constexpr std::string_view skippable_end = "\x2a\x4d\x18";
  const bool is_skippable =
      bytes.size() > skippable_end.size() && (bytes[0] & 0xF0) == 0x50 && bytes.substr(1).starts_with(skippable_end);
  return is_skippable || bytes.starts_with(zstd_magic);
}

/// The input as it is, or from a place in it on, with a look ahead at its first bytes.
class RawInput {
 public:
  RawInput(const std::string& input, ByteRange range, std::function<void(std::int64_t)> advance)
      : name_(display_name(input)), range_(range), advance_(std::move(advance)), buffer_(buffer_bytes) {
    file_ = input == standard_input ? stdin : std::fopen(input.c_str(), "rbe");
    if (file_ == nullptr) {
      throw_data_error(fmt::format("cannot read '{}'", name_), std::strerror(errno),
                       "check the path and its permissions");
    }
    std::setvbuf(file_, nullptr, _IONBF, 0);
    if (range.begin > 0 && ::fseeko(file_, range.begin, SEEK_SET) != 0) throw_unreadable();
    fill();
  }
  ~RawInput() {
    if (file_ != stdin) std::fclose(file_);
  }
  RawInput(const RawInput&) = delete;
  RawInput& operator=(const RawInput&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  /// What was read and not taken yet; empty at the end.
  [[nodiscard]] std::span<const char> ready() {
    if (begin_ == end_) fill();
    return std::span(buffer_).subspan(begin_, end_ - begin_);
  }
  [[nodiscard]] std::string_view beginning() {
    const std::span<const char> bytes = ready();
    return {bytes.data(), bytes.size()};
  }
  void take(std::size_t num_bytes) {
    begin_ += num_bytes;
    advance_(static_cast<std::int64_t>(num_bytes));
  }
  [[noreturn]] void refuse(const std::string& why, const std::string& what_to_do = "get the file again") const {
    throw_data_error(fmt::format("cannot unpack '{}'", name_), why, what_to_do);
  }

 private:
  void fill() {
    constexpr std::int64_t bytes_behind_range = 1 << 14;
    const std::int64_t left = range_.end - range_.begin;
    const std::int64_t wanted = left > 0 ? std::min<std::int64_t>(left, std::ssize(buffer_)) : bytes_behind_range;
    begin_ = 0;
    end_ = std::fread(buffer_.data(), 1, static_cast<std::size_t>(wanted), file_);
    range_.begin += static_cast<std::int64_t>(end_);
    if (end_ == 0 && std::ferror(file_) != 0) throw_unreadable();
  }
  [[noreturn]] void throw_unreadable() const {
    throw_data_error(fmt::format("cannot read '{}'", name_), std::strerror(errno), "check the disk");
  }

  std::string name_;
  ByteRange range_;  ///< what is left of it
  std::function<void(std::int64_t)> advance_;
  std::FILE* file_ = nullptr;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(std::unique_ptr<RawInput> input) : input_(std::move(input)) {}

  std::size_t read(std::span<char> bytes) override {
    const std::span<const char> ready = input_->ready();
    const std::size_t count = std::min(ready.size(), bytes.size());
    std::copy_n(ready.begin(), count, bytes.begin());
    if (count > 0) input_->take(count);
    return count;
  }

 private:
  std::unique_ptr<RawInput> input_;
};

class GzipStream : public ByteStream {
 public:
  explicit GzipStream(std::unique_ptr<RawInput> input) : input_(std::move(input)) {
    constexpr int largest_window_gzip_only = 15 + 16;
    SFT_ENSURE(::inflateInit2(&state_, largest_window_gzip_only) == Z_OK, "zlib starts");
  }
  ~GzipStream() override { ::inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(std::span<char> bytes) override {
    while (true) {
      const std::span<const char> ready = input_->ready();
      if (ready.empty()) {
        if (!is_between_members_) input_->refuse("its gzip data end early");
        return 0;
      }
      if (is_between_members_) {
        if (std::exchange(is_first_, false) == false && ready.front() == '\0') return skip_padding();
        ::inflateReset(&state_);
        is_between_members_ = false;
      }
      state_.next_in = reinterpret_cast<const Bytef*>(ready.data());
      state_.avail_in = static_cast<uInt>(ready.size());
      state_.next_out = reinterpret_cast<Bytef*>(bytes.data());
      state_.avail_out = static_cast<uInt>(bytes.size());
      const int status = ::inflate(&state_, Z_NO_FLUSH);
      input_->take(ready.size() - state_.avail_in);
      if (status == Z_STREAM_END) {
        is_between_members_ = true;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        input_->refuse(std::string("its gzip data are damaged: ") + (state_.msg != nullptr ? state_.msg : "unknown"));
      }
      if (const std::size_t count = bytes.size() - state_.avail_out; count > 0) return count;
    }
  }

 private:
  /// Tapes and some tools fill up with zeros.
  std::size_t skip_padding() {
    for (std::span<const char> ready = input_->ready(); !ready.empty(); ready = input_->ready()) {
      if (std::ranges::any_of(ready, [](char c) { return c != '\0'; }))
        input_->refuse("it has bytes behind its gzip data");
      input_->take(ready.size());
    }
    return 0;
  }

  std::unique_ptr<RawInput> input_;
  z_stream state_{};
  bool is_first_ = true;
  bool is_between_members_ = true;
};

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(std::unique_ptr<RawInput> input) : input_(std::move(input)), state_(::ZSTD_createDStream()) {
    SFT_ENSURE(state_ != nullptr, "Zstandard starts");
    constexpr int max_window_log = 27;  // 128 MiB, as the program zstd
    ::ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, max_window_log);
  }
  ~ZstdStream() override { ::ZSTD_freeDStream(state_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  std::size_t read(std::span<char> bytes) override {
    while (true) {
      const std::span<const char> ready = input_->ready();
      // Even without new input it may hold more output.
      ZSTD_inBuffer in = {ready.data(), ready.size(), 0};
      ZSTD_outBuffer out = {bytes.data(), bytes.size(), 0};
      if (ready.empty() && is_between_frames_) return 0;
      const std::size_t status = ::ZSTD_decompressStream(state_, &out, &in);
      if (::ZSTD_isError(status) != 0) refuse(status);
      if (in.pos > 0) input_->take(in.pos);
      is_between_frames_ = status == 0;
      if (out.pos > 0) return out.pos;
      if (ready.empty() && !is_between_frames_) input_->refuse("its Zstandard data end early");
    }
  }

 private:
  [[noreturn]] void refuse(std::size_t status) const {
    const ZSTD_ErrorCode code = ::ZSTD_getErrorCode(status);
    if (code == ZSTD_error_frameParameter_windowTooLarge) {
      input_->refuse("its Zstandard data look back further than 128 MiB, as `zstd --long` writes them",
                     "unpack it by `zstd -dc --long=31 FILE | sft-prepare --input - ...`");
    }
    if (code == ZSTD_error_dictionary_wrong) {
      input_->refuse("its Zstandard data were packed with a dictionary",
                     "unpack it by `zstd -dc -D DICTIONARY FILE | sft-prepare --input - ...`");
    }
    input_->refuse(std::string("its Zstandard data are damaged: ") + ::ZSTD_getErrorName(status));
  }

  std::unique_ptr<RawInput> input_;
  ZSTD_DStream* state_;
  bool is_between_frames_ = true;
};

}  // namespace

std::string display_name(const std::string& input) { return input == standard_input ? "standard input" : input; }

std::unique_ptr<ByteStream> open_bytes(const std::string& input, std::function<void(std::int64_t num_bytes)> advance) {
  auto raw = std::make_unique<RawInput>(input, ByteRange(), std::move(advance));
  const std::string start(raw->beginning());
  const bool is_packed = begins_compressed(start);
  if (is_packed && input.find(".tar.") == std::string::npos && !input.ends_with(".tgz")) {
    if (start.starts_with(gzip_magic)) return std::make_unique<GzipStream>(std::move(raw));
    return std::make_unique<ZstdStream>(std::move(raw));
  }
  if (input == standard_input) {
    io::require_kind_of_bytes(raw->name(), start, io::Expected::json_lines);
  } else {
    io::require_kind(input, io::Expected::json_lines);
  }
  return std::make_unique<PlainStream>(std::move(raw));
}

std::unique_ptr<ByteStream> open_range(const std::string& file, ByteRange range,
                                       std::function<void(std::int64_t num_bytes)> advance) {
  auto raw = std::make_unique<RawInput>(file, range, std::move(advance));
  if (range.begin == 0) io::require_kind(file, io::Expected::json_lines);
  return std::make_unique<PlainStream>(std::move(raw));
}

bool begins_compressed(std::string_view bytes) { return bytes.starts_with(gzip_magic) || begins_as_zstandard(bytes); }

}  // namespace sft::prepare
