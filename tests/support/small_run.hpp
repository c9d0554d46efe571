// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run to plan: a small model whose units divide into four shards without padding, and a few rows of 64 tokens.

#include "sft/rank/datasets.hpp"
#include "support/awkward_data.hpp"
#include "support/layout.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

namespace sft::test {

struct SmallRun {
  SmallRun() {
    write_packed_file(folder.file("rows.h5"), make_awkward_rows(8, 64, 1), small_vocab_size);
    config.data.train_files = {folder.file("rows.h5")};
    config.model.hidden_size = 256;
    config.model.num_hidden_layers = 2;
    config.model.num_attention_heads = 8;
    config.model.num_key_value_heads = 4;
    config.model.head_dim = 32;
    config.model.intermediate_size = 512;
    config.model.vocab_size = 1024;
    config.train.max_steps = 3;
  }

  /// The configuration, for as many ranks as its mesh has.
  [[nodiscard]] config::ValidConfig valid() const {
    return config::validate(config, mesh::layout_of(config.parallel).size());
  }

  [[nodiscard]] rank::Datasets datasets() const {
    rank::Datasets all{rows::PackedDataset(config.data.train_files), {}};
    if (!config.data.eval_files.empty()) all.eval.emplace(config.data.eval_files);
    return all;
  }

  TemporaryFolder folder;
  config::Config config;
};

}  // namespace sft::test
