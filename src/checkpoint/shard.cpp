#include "shard.hpp"

#include <algorithm>
#include <filesystem>

#include "sft/core/error.hpp"
#include "sft/io/checksum.hpp"
#include "sft/io/files.hpp"

namespace sft::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* what_to_do = "restore the file, or use another checkpoint";

std::string path_in(const std::string& folder, const Shard& shard) { return (fs::path(folder) / shard.name).string(); }

}  // namespace

Staging::Staging(device::Device& device) : block_(device.allocate(capacity_bytes, device::Space::pinned)) {}

std::vector<Tensor> tensors_of(const State& state) { return {state.parameters, state.exp_avg, state.exp_avg_sq}; }

Shard write_shard(const std::string& folder, const std::string& name, const State& state, device::Device& device,
                  device::Stream& stream) {
  const std::string path = (fs::path(folder) / name).string();
  const Staging staging(device);
  const std::vector<Tensor> tensors = tensors_of(state);
  io::Hdf5File file = io::Hdf5File::create(path);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string dataset = std::string("/") + group_names[i];
    const std::int64_t size = tensors[i].num_elements();
    file.create_dataset(dataset, io::Number::float32, {size});
    for (std::int64_t begin = 0; begin < size; begin += Staging::capacity_elements()) {
      const std::int64_t count = std::min(Staging::capacity_elements(), size - begin);
      device.copy(staging.data(), tensors[i].as<float>() + begin, static_cast<std::size_t>(count) * sizeof(float),
                  stream);
      stream.synchronize();
      file.write(dataset, io::Number::float32, {.row_begin = begin, .num_rows = count}, staging.data());
    }
  }
  file.close();
  io::sync_path(path);
  return {name, static_cast<std::int64_t>(fs::file_size(path)), io::checksum_of_file(path)};
}

void check_presence(const std::string& folder, const Shard& shard) {
  const std::string path = path_in(folder, shard);
  if (!fs::exists(path)) throw_data_error("cannot find " + path, "checkpoint.h5 needs it", what_to_do);
  const auto size_bytes = static_cast<std::int64_t>(fs::file_size(path));
  if (size_bytes != shard.size_bytes) {
    throw_data_error(
        path + " is damaged",
        "it has " + std::to_string(size_bytes) + " bytes, checkpoint.h5 says " + std::to_string(shard.size_bytes),
        what_to_do);
  }
}

void check_contents(const std::string& folder, const Shard& shard) {
  check_presence(folder, shard);
  const std::string checksum = io::checksum_of_file(path_in(folder, shard));
  if (checksum != shard.checksum) {
    throw_data_error(path_in(folder, shard) + " is damaged",
                     "its checksum is " + checksum + ", checkpoint.h5 says " + shard.checksum, what_to_do);
  }
}

}  // namespace sft::checkpoint
