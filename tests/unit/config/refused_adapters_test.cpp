// SPDX-License-Identifier: Apache-2.0
// Adapters that cannot be.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "unit/config/refused.hpp"

using namespace sft;
using namespace sft::config;

namespace {

const Refused adapters_that_cannot_be[] = {
    {"`lora.rank_pattern = {\"q_proj\":2.5}` is out of range (it must be an object of whole numbers from 1 to "
     "4096)",
     [](Config& c) {
       c.lora.use_peft = true, c.lora.rank_pattern = {{"q_proj", 2.5}};
     }},
    {"`lora.layers_to_transform = 0 9` is out of range (it must be numbers of blocks, below num_hidden_layers "
     "= 2)",
     [](Config& c) {
       c.lora.use_peft = true, c.lora.layers_to_transform = {0, 9};
     }},
    {"`lora.loraplus_lr_ratio = 0`", [](Config& c) { c.lora.use_peft = true, c.lora.loraplus_lr_ratio = 0; }},
    {"`lora.load_in_4bit` needs `lora.use_peft`", [](Config& c) { c.lora.load_in_4bit = true; }},
    {"`lora.load_in_4bit` needs `model.model_name_or_path`",
     [](Config& c) { c.lora.use_peft = c.lora.load_in_4bit = true; }},
    {"`lora.load_in_4bit` does not fit hidden_size = 80",
     [](Config& c) {
       c.lora.use_peft = c.lora.load_in_4bit = true, c.model.model_name_or_path = "m", c.model.hidden_size = 80;
     }},
    {"`lora.llm_int8_skip_modules` has nothing to do",
     [](Config& c) { c.lora.use_peft = true, c.lora.llm_int8_skip_modules = {"q_proj"}; }},
    {"`train.fp8 = blockwise` does not go with lora.load_in_4bit",
     [](Config& c) {
       c.lora.use_peft = c.lora.load_in_4bit = true, c.model.model_name_or_path = "m";
       c.model.hidden_size = c.model.intermediate_size = 128;
       c.train.fp8 = Fp8::blockwise;
     }},
    {"`train.fp8 = tensorwise` does not go with lora.use_dora",
     [](Config& c) { c.lora.use_peft = c.lora.use_dora = true, c.train.fp8 = Fp8::tensorwise; }},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(refused_adapters)

BOOST_DATA_TEST_CASE(what_cannot_run_is_refused, boost::unit_test::data::make(adapters_that_cannot_be), refused) {
  check_refused(refused);
}

BOOST_AUTO_TEST_SUITE_END()
