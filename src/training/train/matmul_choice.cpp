// SPDX-License-Identifier: Apache-2.0
#include "sft/train/matmul_choice.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include "sft/core/activity.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"
#include "sft/ops/factory.hpp"

namespace sft::train {

namespace {

namespace fs = std::filesystem;

constexpr const char* file_of_run = "matmul_algorithms.txt";

/// Where lists of this library and GPU are kept; empty where the user has no folder.
fs::path file_of_user(const std::string& library) {
  const auto variable = [](const char* name) -> std::string {
    const char* text = std::getenv(name);
    return text != nullptr ? text : "";
  };
  fs::path cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) {
    const std::string home = variable("HOME");
    if (home.empty()) return {};
    cache = fs::path(home) / ".cache";
  }
  std::string name = library;
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '.') letter = '-';
  }
  return cache / "sft/matmul" / (name + ".txt");
}

/// Empty where there is none.
ops::MatmulAlgorithms read_list(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return {};
  return ops::read_matmul_algorithms(std::string{std::istreambuf_iterator<char>(stream), {}});
}

/// Adds what `more` has of the same library and `list` has not.
void merge(ops::MatmulAlgorithms& list, const ops::MatmulAlgorithms& more) {
  if (more.library != list.library) return;
  list.of_products.insert(more.of_products.begin(), more.of_products.end());
}

void write_list_of_user(const fs::path& file, const ops::MatmulAlgorithms& list) {
  if (file.empty()) return;
  try {
    fs::create_directories(file.parent_path());
    io::write_file_atomically(file.string(), ops::to_text(list));
  } catch (const std::exception& error) {  // measured again next time
    log_warning(fmt::format("the measured matrix products are not kept for later runs ({})", error.what()));
  }
}

std::string describe(const ops::MatmulTuning& tuning, std::size_t num_products, double seconds) {
  std::string text = fmt::format("matmul: {} of {} measured in {}", tuning.num_measured,
                                 plural(static_cast<std::int64_t>(num_products), "product"), format_seconds(seconds));
  if (tuning.num_measured > 0) {
    text += fmt::format(", {:.1f} % faster together than what cuBLASLt puts first",
                        100.0 * (tuning.seconds_first / tuning.seconds_fastest - 1.0));
  }
  if (tuning.num_without_memory > 0) {
    text += fmt::format("; {} are as cuBLASLt puts them first, for want of memory to measure them in",
                        tuning.num_without_memory);
  }
  return text;
}

/// On rank 0.
ops::MatmulAlgorithms measure(const config::ValidConfig& config,
                              const std::function<ops::ListedProducts()>& list_products, device::Device& device) {
  const Activity measuring(ActivityKind::works, "measuring matrix products");
  const auto begin = std::chrono::steady_clock::now();
  const ops::ListedProducts products = list_products();
  ops::MatmulAlgorithms known{.library = ops::matmul_library(device), .of_products = {}};
  const fs::path of_user = file_of_user(known.library);
  merge(known, read_list(fs::path(config->train.output_dir) / file_of_run));
  merge(known, read_list(of_user));
  const ops::MatmulTuning tuning = ops::tune_matmul(device, products, known);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  if (tuning.num_measured > 0) write_list_of_user(of_user, tuning.algorithms);
  log_event(describe(tuning, products.size(), taken.count()));
  return tuning.algorithms;
}

}  // namespace

MatmulChoice::MatmulChoice(const config::ValidConfig& config, const std::function<ops::ListedProducts()>& list_products,
                           device::Device& device, const comm::Group& world) {
  if (!config->device.matmul_autotune) return;
  std::string text;
  world.agree([&] {
    if (device.kind() != device::Kind::cuda) {
      throw_config_error("`device.matmul_autotune = true` cannot be done", "the ranks compute on CPUs",
                         "leave device.matmul_autotune out, or set backend = cuda to see what is missing");
    }
    if (world.rank() == 0) text = ops::to_text(measure(config, list_products, device));
  });
  world.broadcast(text, 0);
  ops::MatmulAlgorithms list = ops::read_matmul_algorithms(text);
  const bool is_of_this_gpu = list.library == ops::matmul_library(device);
  if (is_of_this_gpu) list_ = std::move(list);
  std::array<std::int64_t, 1> num_others{is_of_this_gpu ? 0 : 1};
  world.sum(std::span<std::int64_t>(num_others));
  if (num_others[0] > 0) {
    log_warning(fmt::format("matmul: {} with another GPU than rank 0 take what cuBLASLt puts first",
                            plural(num_others[0], "rank")));
  }
}

void MatmulChoice::keep(const std::string& output_dir) const {
  if (list_) io::write_file_atomically((fs::path(output_dir) / file_of_run).string(), ops::to_text(*list_));
}

}  // namespace sft::train
