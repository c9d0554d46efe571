// SPDX-License-Identifier: Apache-2.0
#include "sft/text/hub_tokenizer.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hash.hpp"
#include "text/added_tokens.hpp"
#include "text/byte_pair_model.hpp"
#include "text/text_steps.hpp"
#include "text/tokenizer_config.hpp"
#include "text/utf8.hpp"

namespace sft::text {

namespace {

const Json& field_or_null(const Json& object, const char* name) {
  static const Json null;
  return has_field(object, name) ? field_of(object, name) : null;
}

/// What one call of encode() works with; reused by the next one.
struct Workspace {
  WordCache cache;
  std::vector<TextView> words;
  std::vector<TokenOrText> parts, normalized_parts;
  std::vector<WordToken> tokens;
};

class WorkspacePool {
 public:
  std::unique_ptr<Workspace> take() {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) return std::make_unique<Workspace>();
    std::unique_ptr<Workspace> workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<Workspace> workspace) {
    const std::scoped_lock lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

class HubTokenizer : public Tokenizer {
 public:
  /// Throws std::invalid_argument with the reason.
  HubTokenizer(std::string name, const Json& json, const TokenizerConfig& config)
      : name_(std::move(name)),
        normalizer_(make_normalizer(field_or_null(json, "normalizer"))),
        pre_tokenizer_(field_or_null(json, "pre_tokenizer")),
        model_(field_of(json, "model"), pre_tokenizer_.yields_bytes()),
        post_processor_(make_post_processor(field_or_null(json, "post_processor"))),
        decoder_(make_decoder(field_or_null(json, "decoder"))) {
    add_tokens(json, config);
    set_roles(config);
    num_ids_ = static_cast<std::int64_t>(model_.vocabulary().num_ids());
    for (const auto& [id, token] : added_.all()) num_ids_ = std::max(num_ids_, std::int64_t{id} + 1);
    for (const std::vector<TokenId>* ids : {&post_processor_.before, &post_processor_.after}) {
      for (const TokenId id : *ids) {
        if (id >= num_ids_) throw std::invalid_argument(fmt::format("the post-processor's id {} is no token's", id));
      }
    }
    fingerprint_ = fingerprint_of(json);
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const std::string& fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::int64_t vocab_size() const override { return num_ids_; }
  [[nodiscard]] const SpecialTokens& specials() const override { return specials_; }

  [[nodiscard]] std::optional<TokenId> id_of(std::string_view token) const override {
    const auto added = added_.id_of(token);
    return added ? added : model_.vocabulary().id_of(token);
  }

  [[nodiscard]] std::string token_of(TokenId id) const override {
    const std::string* const token = find_token(id);
    return token == nullptr ? "" : *token;
  }

  [[nodiscard]] bool is_special(TokenId id) const override {
    const std::string* const token = find_token(id);
    return token != nullptr && added_.is_special(*token);
  }

  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
    return run(text, options, /*with_offsets=*/false).ids;
  }

  [[nodiscard]] Encoding encode_with_offsets(std::string_view text, const EncodeOptions& options) const override {
    return run(text, options, /*with_offsets=*/true);
  }

  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override {
    std::vector<std::string> parts;
    for (const TokenId id : ids) {
      const std::string* const added = added_.text_of(id);
      const std::string* const token = added == nullptr ? find_token(id) : added;
      if (token == nullptr || (skip_special_tokens && added_.is_special(*token))) continue;
      parts.push_back(*token);
    }
    if (decoder_) decoder_->decode(parts);
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0 && !decoder_) text += ' ';
      text += parts[i];
    }
    return text;
  }

 private:
  /// One text on its way.
  struct Run {
    Workspace& workspace;
    const EncodeOptions& options;
    bool with_offsets;
    Encoding& encoding;

    void append(TokenId id, ByteRange offsets) const {
      encoding.ids.push_back(id);
      if (with_offsets) encoding.offsets.push_back(offsets);
    }
  };

  void add_tokens(const Json& json, const TokenizerConfig& config) {
    const Vocabulary& vocabulary = model_.vocabulary();
    std::vector<AddedToken> tokens;
    if (has_field(json, "added_tokens")) {
      for (const Json& token : array_of(json, "added_tokens")) tokens.push_back(added_token_of(token));
    }
    added_.add(tokens, vocabulary);

    tokens.clear();
    for (const AddedToken& token : config.added) {
      const auto id = added_.id_of(token.content);
      if (!id || *added_.token_of(*id) != token) tokens.push_back(token);
    }
    added_.add(tokens, vocabulary);

    // Those with a role are special, whatever tokenizer.json says.
    std::vector<AddedToken> specials = config.extra_specials;
    for (const auto& [role, token] : config.roles) specials.push_back(token);
    for (AddedToken& token : specials) {
      if (const auto id = added_.id_of(token.content)) token = *added_.token_of(*id);
      token.special = true;
    }
    added_.add(specials, vocabulary);
    added_.prepare(normalizer_.get());
  }

  void set_roles(const TokenizerConfig& config) {
    const auto id_of_role = [&](const char* role) -> std::optional<TokenId> {
      if (const auto found = config.roles.find(role); found != config.roles.end()) return id_of(found->second.content);
      const auto found = config.default_roles.find(role);
      return found == config.default_roles.end() ? std::nullopt : id_of(found->second);
    };
    specials_ = {.bos = id_of_role("bos_token"),
                 .eos = id_of_role("eos_token"),
                 .pad = id_of_role("pad_token"),
                 .unk = id_of_role("unk_token")};
    if (config.begins_with_bos && specials_.bos) post_processor_ = {.before = {*specials_.bos}, .after = {}};
  }

  [[nodiscard]] std::string fingerprint_of(const Json& json) const {
    io::ContentHash hash;
    const std::vector<const std::string*>& tokens = model_.vocabulary().tokens();
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id] == nullptr) continue;
      hash.add(static_cast<std::int64_t>(id));
      hash.add(*tokens[id]);
    }
    for (const auto& [field, value] : field_of(json, "model").items()) {
      if (field == "vocab" || value.is_null()) continue;
      hash.add(field);
      hash.add(value.dump());
    }
    for (const auto& [id, token] : added_.all()) {
      hash.add(std::int64_t{id});
      hash.add(token.content);
      const int flags =
          token.single_word | token.lstrip << 1 | token.rstrip << 2 | token.normalized << 3 | token.special << 4;
      hash.add(std::int64_t{flags});
    }
    for (const char* part : {"normalizer", "pre_tokenizer"}) hash.add(field_or_null(json, part).dump());
    hash.add(std::span<const TokenId>(post_processor_.before));
    hash.add(std::int64_t{-1});
    hash.add(std::span<const TokenId>(post_processor_.after));
    return hash.text();
  }

  [[nodiscard]] const std::string* find_token(TokenId id) const {
    if (const AddedToken* const added = added_.token_of(id)) return &added->content;
    const std::vector<const std::string*>& tokens = model_.vocabulary().tokens();
    return id >= 0 && static_cast<std::size_t>(id) < tokens.size() ? tokens[id] : nullptr;
  }

  [[nodiscard]] Encoding run(std::string_view text, const EncodeOptions& options, bool with_offsets) const {
    if (text.size() > std::numeric_limits<std::int32_t>::max()) {
      throw_data_error(fmt::format("a text of {} bytes cannot be made tokens of", text.size()), "the limit is 2 GiB",
                       "cut it into documents");
    }
    Encoding encoding;
    encoding.ids.reserve(text.size() / 4 + 16);
    std::unique_ptr<Workspace> workspace = workspaces_.take();
    const Run run = {*workspace, options, with_offsets, encoding};
    if (options.add_special_tokens) {
      for (const TokenId id : post_processor_.before) run.append(id, {});
    }
    if (well_formed_size(text) == text.size()) {
      encode_text({.text = text, .at_input_begin = true}, run);
    } else {
      const AlignedText repaired = AlignedText::repaired(text, with_offsets);
      encode_text(repaired.view(), run);
    }
    if (options.add_special_tokens) {
      for (const TokenId id : post_processor_.after) run.append(id, {text.size(), text.size()});
    }
    workspaces_.give_back(std::move(workspace));
    return encoding;
  }

  void encode_text(const TextView& text, const Run& run) const {
    std::vector<TokenOrText>& parts = run.workspace.parts;
    added_.find(text.text, /*is_normalized=*/false, run.options.split_special_tokens, parts);
    for (const TokenOrText& part : parts) {
      if (part.id) {
        run.append(*part.id, text.origin(part.range.begin, part.range.end));
      } else {
        encode_section(text.part(part.range.begin, part.range.end), run);
      }
    }
  }

  void encode_section(const TextView& section, const Run& run) const {
    TextStore store;
    const TextView text = normalizer_ ? normalizer_->normalize(section, store, run.with_offsets) : section;
    std::vector<TokenOrText>& parts = run.workspace.normalized_parts;
    added_.find(text.text, /*is_normalized=*/true, run.options.split_special_tokens, parts);
    for (const TokenOrText& part : parts) {
      if (part.id) {
        run.append(*part.id, text.origin(part.range.begin, part.range.end));
      } else {
        encode_words(text.part(part.range.begin, part.range.end), store, run);
      }
    }
  }

  void encode_words(const TextView& text, TextStore& store, const Run& run) const {
    std::vector<WordToken>& tokens = run.workspace.tokens;
    pre_tokenizer_.cut(text, store, run.with_offsets, run.workspace.words);
    for (const TextView& word : run.workspace.words) {
      model_.tokenize(word.text, run.workspace.cache, tokens);
      for (const WordToken& token : tokens) {
        run.encoding.ids.push_back(token.id);
        if (run.with_offsets) run.encoding.offsets.push_back(word.origin(token.begin, token.end));
      }
    }
  }

  std::string name_;
  std::unique_ptr<const Normalizer> normalizer_;
  PreTokenizer pre_tokenizer_;
  BytePairModel model_;
  PostProcessor post_processor_;
  std::unique_ptr<const Decoder> decoder_;
  AddedTokens added_;
  SpecialTokens specials_;
  std::int64_t num_ids_ = 0;
  std::string fingerprint_;
  mutable WorkspacePool workspaces_;
};

std::string read_if_there(const std::string& path) { return std::filesystem::exists(path) ? io::read_file(path) : ""; }

}  // namespace

std::unique_ptr<Tokenizer> make_hub_tokenizer(const TokenizerFiles& files) {
  const auto refuse = [&files](const std::string& reason) {
    throw_data_error("cannot use the tokenizer of " + files.name, reason,
                     "fetch the folder again, or take another model");
  };
  TokenizerConfig config;
  try {
    config = read_tokenizer_config(files.tokenizer_config_json, files.special_tokens_map_json);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  try {
    return std::make_unique<HubTokenizer>(files.name, parse_json(files.tokenizer_json), config);
  } catch (const std::invalid_argument& error) {
    refuse(std::string("tokenizer.json: ") + error.what());
  }
  return nullptr;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  if (!std::filesystem::exists(path)) {
    throw_data_error("there is no tokenizer in " + folder, "it has no tokenizer.json",
                     "let transformers write one: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)");
  }
  return make_hub_tokenizer({.name = folder,
                             .tokenizer_json = io::read_file(path),
                             .tokenizer_config_json = read_if_there(folder + "/tokenizer_config.json"),
                             .special_tokens_map_json = read_if_there(folder + "/special_tokens_map.json")});
}

}  // namespace sft::text
