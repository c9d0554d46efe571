// SPDX-License-Identifier: Apache-2.0
#pragma once
// The readers under test: each reads one kind of file as the programs do and tells all that they would get from it.

#include <functional>
#include <string>

namespace sft::test {

struct Reader {
  /// The content of `path` as text, the same for the same content; throws what the programs would.
  std::function<std::string(const std::string& path)> read;
  /// Whether damage may also make other content that is legal, as in a text that a user writes.
  bool may_change = false;
};

/// "packed": a folder of packed shards. "checkpoint": a checkpoint's folder. "config": a configuration file.
/// "hub": the folder of a model. "records": a folder with inputs of sft-prepare. "template": a chat template.
/// "tokenizer": a folder with tokenizer.json. "weights": the folder of a model, without what its config.json says.
/// Throws a configuration Error on any other kind.
[[nodiscard]] Reader make_reader(const std::string& kind);

}  // namespace sft::test
