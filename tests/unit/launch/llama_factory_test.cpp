// SPDX-License-Identifier: Apache-2.0
// Files of LLaMA-Factory.

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "launch_fixture.hpp"
#include "support/config_error.hpp"

using namespace sft;
using namespace sft::config;
using test::check_says;
using test::config_of;
using test::read_text;
using test::refusal;
using test::request_of;

BOOST_AUTO_TEST_SUITE(llama_factory)

namespace {

/// A folder of data with the file that explains it.
std::string folder_of_data(const test::TemporaryFolder& folder) {
  std::ofstream(folder.file("dataset_info.json")) << R"({
    "plain": {"file_name": "plain.json", "columns": {"prompt": "q", "query": "x", "response": "a"}},
    "chats": {"hf_hub_url": "org/chats", "formatting": "sharegpt", "columns": {"messages": "talk"}, "num_samples": 7,
              "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}},
    "pairs": {"file_name": "pairs.json", "ranking": true}})";
  return "dataset_dir: " + folder.path() + "\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(recipe_of_lora) {
  const test::TemporaryFolder folder;
  const launch::ForeignFile file = read_text(
      "model_name_or_path: m\nstage: sft\ndo_train: true\nfinetuning_type: lora\nlora_rank: 16\nlora_target: all\n"
      "dataset: plain\ntemplate: qwen\ncutoff_len: 1024\nmax_samples: 50\noverwrite_cache: true\nplot_loss: true\n"
      "per_device_train_batch_size: 2\nval_size: 0.1\nbf16: true\nquantization_bit: 4\npissa_init: true\n" +
      folder_of_data(folder));
  const launch::Request request = request_of(file);
  const Config config = config_of(file);
  BOOST_TEST(request.train.front().name == folder.file("plain.json"));
  BOOST_TEST(request.preparation.at("rename") == "q=instruction,x=input,a=output");
  BOOST_TEST(request.preparation.at("max_length") == "1024");
  BOOST_TEST(request.preparation.at("assistant_only_loss") == "true");
  BOOST_TEST(request.preparation.at("eval_split") == "0.1");
  BOOST_TEST(request.max_samples.value_or(0) == 50);
  BOOST_TEST(config.lora.lora_r == 16);
  BOOST_TEST(config.lora.lora_alpha == 32.0);
  BOOST_TEST(config.lora.lora_dropout == 0.0);
  BOOST_TEST(config.lora.lora_target_modules.front() == "all-linear");
  BOOST_TEST(config.lora.load_in_4bit);
  BOOST_TEST(config.lora.use_bnb_nested_quant);
  BOOST_TEST((config.train.activation_checkpointing == ActivationCheckpointing::full));
  BOOST_TEST(config.optimizer.learning_rate == 5e-5);
  BOOST_TEST_REQUIRE(file.notes.size() == 1U);
  check_says(file.notes.front(), "template qwen");
}

BOOST_AUTO_TEST_CASE(names_in_the_hub) {
  const test::TemporaryFolder folder;
  const launch::Request request =
      request_of(read_text("model_name_or_path: m\nfinetuning_type: full\ndataset: chats\n" + folder_of_data(folder)));
  BOOST_TEST(request.train.front().name == "org/chats");
  BOOST_TEST(request.train.front().slice == ":7");
  BOOST_TEST(request.preparation.at("rename") == "talk=messages");
}

BOOST_AUTO_TEST_CASE(refusals_of_data_alone) {
  const test::TemporaryFolder folder;
  const launch::ForeignFile file =
      read_text("model_name_or_path: m\nstage: sft\ndataset: pairs, nowhere\n" + folder_of_data(folder));
  BOOST_TEST(file.refused.empty());
  BOOST_TEST_REQUIRE(file.refused_data.size() == 2U);
  check_says(file.refused_data[0], "`ranking` of the data set pairs");
  check_says(file.refused_data[1], "the data set `nowhere`");
}

BOOST_AUTO_TEST_CASE(rows_in_a_folder_of_their_own) {
  const test::TemporaryFolder folder;
  const std::string text = "model_name_or_path: m\nstage: sft\ntokenized_path: " + folder.path() + "\n";
  BOOST_TEST(request_of(read_text(text)).prepared_dir == folder.path());
  std::ofstream(folder.file("dataset_dict.json")) << "{}";  // what save_to_disk leaves
  BOOST_TEST_REQUIRE(read_text(text).refused.size() == 1U);
  check_says(read_text(text).refused.front(), "it holds tokens of llamafactory-cli");
}

BOOST_AUTO_TEST_CASE(all_refusals_at_once) {
  const std::string said = refusal([] {
    static_cast<void>(
        config_of(read_text("model_name_or_path: m\nstage: dpo\nfinetuning_type: freeze\n"
                            "freeze_trainable_layers: 2\nuse_galore: true\ngalore_rank: 128\n"
                            "quantization_bit: 8\nunheard_of: 3\n")));
  });
  check_says(said, "7 settings cannot be used");
  for (const char* part : {"stage: dpo", "finetuning_type: freeze", "freeze_trainable_layers: 2", "use_galore: true",
                           "galore_rank: 128", "quantization_bit: 8", "unheard_of"}) {
    check_says(said, part);
  }
}

BOOST_AUTO_TEST_CASE(newer_engine) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("list.yaml")) << "a:\n  path: a.json\n  source: local\n  converter: alpaca\n  size: 5\n";
  const launch::ForeignFile file = read_text(
      "model: m\nmodel_class: llm\ntemplate: qwen3\npeft_config:\n  name: lora\n  r: 4\n  lora_alpha: 8\n"
      "  target_modules: all\nquant_config:\n  name: bnb\n  quantization_bit: 4\ndist_config:\n  name: fsdp2\n"
      "  dcp_path: null\n  cp_mode: ulysses\n  cp_size: 2\ncutoff_len: 256\nmax_steps: 10\ntrain_dataset: " +
      folder.file("list.yaml") + "\n");
  const launch::Request request = request_of(file);
  const Config config = config_of(file);
  BOOST_TEST(request.train.front().name == "a.json");
  BOOST_TEST(request.train.front().slice == ":5");
  BOOST_TEST(request.preparation.at("max_length") == "256");
  BOOST_TEST(config.lora.lora_r == 4);
  BOOST_TEST(config.lora.load_in_4bit);
  BOOST_TEST(config.parallel.zero_stage == 3);
  BOOST_TEST(config.parallel.sp_size == 2);
  BOOST_TEST((config.parallel.sp_method == SpMethod::ulysses));
  BOOST_TEST(config.optimizer.weight_decay == 0.01);
  BOOST_TEST(config.optimizer.learning_rate == 1e-4);
}

BOOST_AUTO_TEST_CASE(blocks_of_the_newer_engine) {
  const std::string said = refusal([] {
    static_cast<void>(
        config_of(read_text("model: m\ncutoff_len: 256\nbatching_strategy: dynamic_batching\n"
                            "peft_config:\n  name: freeze\n  freeze_trainable_layers: 2\n")));
  });
  check_says(said, "3 settings cannot be used");
  for (const char* part : {"dynamic_batching", "peft_config.name: freeze", "peft_config.freeze_trainable_layers: 2"}) {
    check_says(said, part);
  }
}

BOOST_AUTO_TEST_SUITE_END()
