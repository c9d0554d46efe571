// SPDX-License-Identifier: Apache-2.0
// Tokenizers and tokens in folders that are written, beside what TRL 1.16 and transformers 4.57.6 and 5.24 make of
// them.

#include "sft/hub/tokenizer_files.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "hub_fixture.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

using namespace sft;

namespace {

using nlohmann::json;

struct Folder {
  void write(const char* name, const json& object) const { test::write_bytes(folder.file(name), object.dump()); }
  [[nodiscard]] json read(const char* name) const { return json::parse(io::read_file(folder.file(name))); }
  [[nodiscard]] bool has(const char* name) const { return std::filesystem::exists(folder.file(name)); }
  test::TemporaryFolder folder;
};

/// The rewritten tokenizer_config.json for a tokenizer.json with this post-processor.
json readable(const json& config, const json& post_processor = nullptr) {
  const Folder folder;
  folder.write("tokenizer_config.json", config);
  folder.write("tokenizer.json", {{"post_processor", post_processor}});
  BOOST_TEST(hub::is_tokenizer_readable(folder.folder.path()) == false);
  hub::make_tokenizer_readable(folder.folder.path());
  BOOST_TEST(hub::is_tokenizer_readable(folder.folder.path()));
  return folder.read("tokenizer_config.json");
}

/// config.json and generation_config.json afterwards; null: there is none.
struct Settings {
  json config, generation;
};
Settings aligned(const json& config, const json& generation, const hub::TokenIds& ids) {
  const Folder folder;
  if (!config.is_null()) folder.write("config.json", config);
  if (!generation.is_null()) folder.write("generation_config.json", generation);
  hub::write_token_ids(folder.folder.path(), ids);
  Settings left;
  if (folder.has("config.json")) left.config = folder.read("config.json");
  if (folder.has("generation_config.json")) left.generation = folder.read("generation_config.json");
  return left;
}

const json plain = {{"bos_token_id", 256}, {"eos_token_id", 257}};

}  // namespace

BOOST_AUTO_TEST_SUITE(tokenizer_files)

BOOST_AUTO_TEST_CASE(what_version_5_saved_is_read_by_version_4) {
  const json made = readable({{"backend", "tokenizers"},
                              {"tokenizer_class", "TokenizersBackend"},
                              {"extra_special_tokens", {"<think>", "</think>"}}});
  const json expected = {{"backend", "tokenizers"},
                         {"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"additional_special_tokens", {"<think>", "</think>"}}};
  BOOST_TEST((made == expected));
  const json named = {{"boi_token", "<image>"}};
  BOOST_TEST((readable({{"tokenizer_class", "Qwen2Tokenizer"}, {"model_specific_special_tokens", named}})
                  .at("extra_special_tokens") == named));
}

BOOST_AUTO_TEST_CASE(version_4_puts_a_bos_before_texts_only_where_version_5_does) {
  const json config = {
      {"backend", "tokenizers"}, {"tokenizer_class", "LlamaTokenizer"}, {"bos_token", {{"content", "<s>"}}}};
  BOOST_TEST((readable(config).at("add_bos_token") == false));
  const Folder folder;
  folder.write("tokenizer_config.json", config);
  folder.write("tokenizer.json", {{"post_processor", {{"special_tokens", {{"<s>", {{"id", "<s>"}}}}}}}});
  BOOST_TEST(hub::is_tokenizer_readable(folder.folder.path()));
}

BOOST_AUTO_TEST_CASE(other_tokenizers_stay_as_they_are) {
  const Folder folder;
  const std::string path = folder.folder.path();
  BOOST_TEST(hub::is_tokenizer_readable(path));
  for (const std::string text :
       {R"({"tokenizer_class": "LlamaTokenizer",  "extra_special_tokens": {}, "additional_special_tokens": ["<a>"]})",
        "no JSON"}) {
    test::write_bytes(folder.folder.file("tokenizer_config.json"), text);
    BOOST_TEST(hub::is_tokenizer_readable(path));
    hub::make_tokenizer_readable(path);
    BOOST_TEST(io::read_file(folder.folder.file("tokenizer_config.json")) == text);
  }
}

BOOST_AUTO_TEST_CASE(a_template_takes_the_place_of_all_others) {
  const Folder folder;
  const json before = {{"eos_token", "</s>"}, {"chat_template", {{{"name", "default"}, {"template", "x"}}}}};
  folder.write("tokenizer_config.json", before);
  folder.write("special_tokens_map.json", {{"eos_token", {{"content", "</s>"}}}});
  folder.write("chat_template.json", {{"chat_template", "x"}});
  std::filesystem::create_directory(folder.folder.file("additional_chat_templates"));
  hub::change_tokenizer(folder.folder.path(), {});
  BOOST_TEST((folder.read("tokenizer_config.json") == before));
  hub::change_tokenizer(folder.folder.path(),
                        {.eos_token = "<end>", .pad_token = "<pad>", .chat_template = "{{ a }}\n"});
  const json after = {{"eos_token", "<end>"}, {"pad_token", "<pad>"}};
  BOOST_TEST((folder.read("tokenizer_config.json") == after));
  BOOST_TEST((folder.read("special_tokens_map.json") == after));
  BOOST_TEST(io::read_file(folder.folder.file("chat_template.jinja")) == "{{ a }}\n");
  BOOST_TEST(!folder.has("chat_template.json"));
  BOOST_TEST(!folder.has("additional_chat_templates"));
}

// Expected values: files that TRL's trainer saved for the same folders
BOOST_AUTO_TEST_CASE(a_chosen_eos_is_first_and_the_others_stay) {
  const hub::TokenIds chosen{.eos = 258, .bos = 256, .pad = 258, .is_new_eos = true};
  const json config = {{"bos_token_id", 256}, {"eos_token_id", 258}, {"pad_token_id", 258}};
  Settings left = aligned(plain, plain, chosen);
  BOOST_TEST((left.config == config));
  json generation = {{"bos_token_id", 256}, {"eos_token_id", {258, 257}}, {"pad_token_id", 258}};
  BOOST_TEST((left.generation == generation));

  // Without settings of its own
  left = aligned(plain, nullptr, chosen);
  BOOST_TEST((left.config == config));
  generation["_from_model_config"] = true;
  BOOST_TEST((left.generation == generation));

  // One that is in the list already
  const json several = {{"bos_token_id", 256}, {"eos_token_id", {257, 256}}};
  left = aligned(several, several, {.eos = 256, .bos = 256, .pad = 256, .is_new_eos = true});
  BOOST_TEST((left.config.at("eos_token_id") == 256));
  BOOST_TEST((left.generation.at("eos_token_id") == several.at("eos_token_id")));
}

BOOST_AUTO_TEST_CASE(an_eos_of_the_tokenizer_is_added_where_it_is_missing) {
  const hub::TokenIds own{.eos = 257, .bos = 256, .pad = {}};
  Settings left = aligned({{"bos_token_id", 256}, {"eos_token_id", {256}}}, nullptr, own);
  const json both = {257, 256};
  BOOST_TEST((left.config.at("eos_token_id") == both));
  BOOST_TEST((left.generation.at("eos_token_id") == both));
  left = aligned({{"eos_token_id", nullptr}}, nullptr, own);
  BOOST_TEST((left.config == plain));
  const json list = {257};
  BOOST_TEST((left.generation.at("eos_token_id") == list));
  left = aligned(plain, {{"eos_token_id", {7, 257}}, {"bos_token_id", 256}, {"top_p", 0.8}}, own);
  BOOST_TEST((left.config == plain));
  const json kept = {7, 257};
  BOOST_TEST((left.generation.at("eos_token_id") == kept));
}

BOOST_AUTO_TEST_CASE(tokens_of_a_tower_are_in_its_config) {
  const json config = {{"eos_token_id", 1}, {"text_config", plain}};
  const Settings left = aligned(config, nullptr, {.eos = 258, .bos = {}, .pad = {}, .is_new_eos = true});
  BOOST_TEST((left.config.at("eos_token_id") == 1));
  BOOST_TEST((left.config.at("text_config").at("eos_token_id") == 258));
}

BOOST_AUTO_TEST_CASE(a_folder_of_an_adapter_gets_no_config) {
  const hub::TokenIds chosen{.eos = 258, .bos = {}, .pad = {}, .is_new_eos = true};
  BOOST_TEST(aligned(nullptr, nullptr, chosen).generation.is_null());
  const Settings left = aligned(nullptr, plain, chosen);
  BOOST_TEST(left.config.is_null());
  const json both = {258, 257};
  BOOST_TEST((left.generation.at("eos_token_id") == both));
  BOOST_CHECK_THROW(aligned(plain, json::array(), chosen), Error);
}

BOOST_AUTO_TEST_SUITE_END()
