// SPDX-License-Identifier: Apache-2.0
// Which modules the names in [lora] mean.
#include <boost/test/unit_test.hpp>
#include <string>

#include "sft/config/lora.hpp"

using namespace sft::config;

BOOST_AUTO_TEST_SUITE(lora)

BOOST_AUTO_TEST_CASE(modules_that_are_left_out_of_4_bits_are_named_as_in_transformers) {
  const std::string module = "model.layers.1.mlp.up_proj";
  for (const char* name :
       {"model.layers", "model.layers.1", "model.layers.1.", "model.layers.1.mlp", "up_proj", "mlp.up_proj", "_proj",
        "model.layers.*mlp", "model.layers.(1|2)", "model.layers.1.mlp.up_proj"}) {
    BOOST_TEST(skips(name, module), name);
  }
  for (const char* name : {"", "model.layers.1.mlp.up", "model.layers.2", "mlp", "layers.1", "up_proj.weight",
                           "model.layers.11", "layers.*mlp"}) {
    BOOST_TEST(!skips(name, module), name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
