// SPDX-License-Identifier: Apache-2.0
#include "sft/report/event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <boost/crc.hpp>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <protozero/pbf_builder.hpp>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::report {

namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little, "lengths and checksums of frames are little endian");

constexpr const char* name_begin = "events.out.tfevents.";

// Numbers of the fields that are used, from tensorboard/compat/proto/{event,summary,tensor}.proto.
enum class Event : protozero::pbf_tag_type { wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7 };
enum class SessionLog : protozero::pbf_tag_type { status = 1 };
enum class Summary : protozero::pbf_tag_type { value = 1 };
enum class Value : protozero::pbf_tag_type { tag = 1, simple_value = 2, tensor = 8, metadata = 9 };
enum class Metadata : protozero::pbf_tag_type { plugin_data = 1 };
enum class PluginData : protozero::pbf_tag_type { plugin_name = 1 };
enum class TensorProto : protozero::pbf_tag_type { dtype = 1, string_val = 8 };

constexpr std::uint64_t frame_overhead_bytes = 16;  // the length, its checksum, that of the event
constexpr std::int32_t session_starts = 1;
constexpr std::int32_t type_string = 7;

/// CRC-32C, turned and shifted so that a checksum of data that holds checksums is one too (TFRecord).
std::uint32_t masked_checksum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xA282EAD8U;
}

template <class Number>
std::string_view bytes_of(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

protozero::pbf_builder<Event> begin_event(std::string& event, const Moment& moment) {
  protozero::pbf_builder<Event> builder(event);
  builder.add_double(Event::wall_time, moment.time_s);
  if (moment.step != 0) builder.add_int64(Event::step, moment.step);
  return builder;
}

/// The event files of a folder by the number in their name, seconds.
std::multimap<std::int64_t, std::string> earlier_files(const std::string& folder) {
  const std::string begin = (fs::path(folder) / name_begin).string();
  std::multimap<std::int64_t, std::string> files;
  for (const std::string& path : io::expand_glob(begin + "*")) {
    std::int64_t number = 0;
    std::from_chars(path.data() + begin.size(), path.data() + path.size(), number);
    files.emplace(number, path);
  }
  return files;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

EventFile::EventFile(const std::string& folder, double time_s) {
  io::make_folders(folder);
  const auto earlier = earlier_files(folder);
  std::int64_t number = static_cast<std::int64_t>(time_s);  // the order of names is that in which files are read
  if (!earlier.empty()) number = std::max(number, earlier.rbegin()->first + 1);
  for (const auto& [earlier_number, path] : earlier) earlier_.push_back(path);
  path_ = fmt::format("{}/{}{}.{}.{}", folder, name_begin, number, host_name(), getpid());
  stream_ = std::ofstream(path_, std::ios::binary | std::ios::trunc);
  if (!stream_) throw_data_error("cannot open " + path_, "it cannot be written", "check the folder's permissions");
  std::string event;
  begin_event(event, {0, time_s}).add_string(Event::file_version, "brain.Event:2");
  write(event);
  event.clear();
  {
    auto builder = begin_event(event, {0, time_s});
    protozero::pbf_builder<SessionLog> log(builder, Event::session_log);
    log.add_enum(SessionLog::status, session_starts);
  }
  write(event);
}

void EventFile::replace_earlier() const {
  std::error_code ignored;
  for (const std::string& path : earlier_) {
    if (path != earlier_.back()) {
      fs::remove(path, ignored);
      continue;
    }
    std::uint64_t length = 0;
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&length), sizeof length);
    const std::uint64_t first_frame_bytes = length + frame_overhead_bytes;  // the version of the format
    if (const auto size = fs::file_size(path, ignored); !ignored && length < size && first_frame_bytes < size) {
      fs::resize_file(path, first_frame_bytes, ignored);
    }
  }
}

void EventFile::add(const Moment& moment, std::span<const Scalar> scalars) {
  std::string event;
  {
    auto builder = begin_event(event, moment);
    protozero::pbf_builder<Summary> summary(builder, Event::summary);
    for (const Scalar& scalar : scalars) {
      protozero::pbf_builder<Value> value(summary, Summary::value);
      value.add_string(Value::tag, scalar.tag);
      value.add_float(Value::simple_value, static_cast<float>(scalar.value));
    }
  }
  write(event);
}

void EventFile::add_text(const Moment& moment, const std::string& tag, const std::string& text) {
  std::string event;
  {
    auto builder = begin_event(event, moment);
    protozero::pbf_builder<Summary> summary(builder, Event::summary);
    protozero::pbf_builder<Value> value(summary, Summary::value);
    value.add_string(Value::tag, tag);
    {
      protozero::pbf_builder<TensorProto> tensor(value, Value::tensor);
      tensor.add_enum(TensorProto::dtype, type_string);
      tensor.add_bytes(TensorProto::string_val, text);
    }
    protozero::pbf_builder<Metadata> metadata(value, Value::metadata);
    protozero::pbf_builder<PluginData> plugin(metadata, Metadata::plugin_data);
    plugin.add_string(PluginData::plugin_name, "text");
  }
  write(event);
}

void EventFile::write(const std::string& event) {
  const std::uint64_t length = event.size();
  stream_ << bytes_of(length) << bytes_of(masked_checksum(bytes_of(length))) << event
          << bytes_of(masked_checksum(event)) << std::flush;
  if (!stream_) throw_data_error("cannot write " + path_, "the disk may be full", "free space");
}

}  // namespace sft::report
