// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/model_config.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "hub_fixture.hpp"
#include "sft/core/error.hpp"

using namespace sft;

namespace {

using Ids = std::vector<std::int32_t>;

/// Of a folder with these files; empty: without the file.
Ids read(const std::string& generation_config, const std::string& config) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  if (!generation_config.empty()) test::write_bytes(path + "/generation_config.json", generation_config);
  if (!config.empty()) test::write_bytes(path + "/config.json", config);
  return hub::read_eos_token_ids(path);
}

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_that_end_a_text) {
  BOOST_TEST((read(R"({"eos_token_id": 7})", R"({"eos_token_id": 2})") == Ids({7})));
  BOOST_TEST((read(R"({"eos_token_id": [7, 9]})", "") == Ids({7, 9})));
  BOOST_TEST((read(R"({"bos_token_id": 7})", R"({"eos_token_id": 2})") == Ids({2})));
  BOOST_TEST((read(R"({"eos_token_id": null})", R"({"eos_token_id": [2]})") == Ids({2})));
  BOOST_TEST((read("", R"({"eos_token_id": 2})") == Ids({2})));
  BOOST_TEST(read("", "{}").empty());
  BOOST_TEST(read("", "").empty());
}

BOOST_AUTO_TEST_CASE(what_is_no_token_is_refused) {
  for (const char* text :
       {R"({"eos_token_id": -1})", R"({"eos_token_id": "</s>"})", R"({"eos_token_id": [1, 2.5]})",
        R"({"eos_token_id": 4294967296})", R"({"eos_token_id": 18446744073709551615})", "[1]", "{"}) {
    BOOST_CHECK_THROW(static_cast<void>(read(text, "")), Error);
  }
}
