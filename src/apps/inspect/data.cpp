// SPDX-License-Identifier: Apache-2.0
#include "views.hpp"

#include <fmt/core.h>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/common/json_text.hpp"
#include "sft/core/log.hpp"
#include "sft/core/table.hpp"
#include "sft/io/files.hpp"
#include "sft/rows/packed_dataset.hpp"

namespace sft::apps {

namespace {

std::string percent(std::int64_t part, std::int64_t whole) {
  const double share = whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  return fmt::format("{:.1f} %", share);
}

void print_text(const rows::PackedDataset& dataset, bool verified) {
  const std::int64_t num_places = dataset.num_rows() * dataset.max_length();
  Table table({Align::left, Align::left});
  const auto add = [&](const char* name, const std::string& value) { table.add({name, value}); };
  add("shard files", fmt::format("{}{}", dataset.files().size(), verified ? ", all as they were written" : ""));
  add("rows", fmt::format("{} of {} tokens, {} filled", dataset.num_rows(), dataset.max_length(),
                          percent(dataset.num_tokens(), num_places)));
  add("documents", std::to_string(dataset.num_documents()));
  add("tokens", std::to_string(dataset.num_tokens()));
  add("trained on", fmt::format("{} of them, {}", dataset.num_target_tokens(),
                                percent(dataset.num_target_tokens(), dataset.num_tokens())));
  add("tokenizer", fmt::format("{}, vocabulary of {}", dataset.tokenizer(), dataset.vocab_size()));
  add("fingerprint", dataset.fingerprint());
  log_info(table.text());
}

}  // namespace

std::optional<std::vector<std::string>> packed_files_at(const std::string& path) {
  const std::filesystem::path folder(path);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    if (folder.extension() != ".h5") return std::nullopt;
    return std::vector<std::string>{path};
  }
  if (std::filesystem::exists(folder / "checkpoint.h5", ignored)) return std::nullopt;
  const std::string pattern = (folder / "train-*.h5").string();
  if (io::expand_glob(pattern).empty()) return std::nullopt;
  return std::vector<std::string>{pattern};
}

void inspect_data(const std::vector<std::string>& files, bool verify, bool json) {
  const rows::PackedDataset dataset(files);
  if (verify) dataset.verify();
  if (!json) return print_text(dataset, verify);
  nlohmann::ordered_json result = {{"files", dataset.files()},
                                   {"num_rows", dataset.num_rows()},
                                   {"max_length", dataset.max_length()},
                                   {"num_documents", dataset.num_documents()},
                                   {"num_tokens", dataset.num_tokens()},
                                   {"num_target_tokens", dataset.num_target_tokens()},
                                   {"tokenizer", dataset.tokenizer()},
                                   {"tokenizer_fingerprint", dataset.tokenizer_fingerprint()},
                                   {"vocab_size", dataset.vocab_size()},
                                   {"pad_token_id", dataset.pad_token_id()},
                                   {"eos_token_id", dataset.eos_token_id()},
                                   {"fingerprint", dataset.fingerprint()}};
  if (verify) result["verified"] = true;
  log_info(json_text(result));
}

}  // namespace sft::apps
