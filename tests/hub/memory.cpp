// SPDX-License-Identifier: Apache-2.0
// A rank of four reads a quarter of a model folder, and holds no more of it than its own shard.

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "hub/shared_folder.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/device/factory.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/files.hpp"
#include "sft/machine/node.hpp"
#include "sft/model/architecture.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"

namespace {

using namespace sft;
using test::session;

constexpr std::size_t mib = 1024 * 1024;

config::Model large_model() {
  config::Model model;
  model.hidden_size = 512;
  model.num_hidden_layers = 8;
  model.num_attention_heads = 8;
  model.num_key_value_heads = 2;
  model.head_dim = 64;
  model.intermediate_size = 1408;
  model.vocab_size = 6403;
  return model;
}

/// Bytes that this process has asked the system to read.
std::size_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string key;
  std::size_t value = 0;
  io >> key >> value;
  BOOST_TEST_REQUIRE(key == "rchar:");
  return value;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(memory_and_reading_are_those_of_the_shard) {
  const comm::Group& world = session().world();
  const config::Model model = large_model();
  const parallel::ShardMap whole(model::make_architecture(model).parts.front().units, mesh::Place());
  const hub::WeightsPlan plan(test::tensors_of(whole), hub::WeightType::bfloat16, std::uint64_t{1} << 40);
  const test::SharedFolder folder(world);
  world.agree([&] {
    if (world.rank() != 0) return;
    io::make_folders(folder.file("model"));
    hub::create_weight_files(plan, folder.file("model"));
  });
  const std::size_t file_bytes = plan.files().front().size_bytes;
  BOOST_TEST(file_bytes > 48 * mib);

  for (const mesh::Layout& layout : {test::Layout{1, 4, 1, 1}, test::Layout{1, 1, 1, 4}, test::Layout{1, 1, 2, 2}}) {
    BOOST_TEST_CONTEXT(layout.describe()) {
      config::Config config;
      config.model = model;
      config.train.per_device_train_batch_size = 1;
      config.train.precision = config::Precision::fp32;
      test::EngineFixture fixture(config, 8, test::Mesh(world, layout, model), session());
      fixture.engine().initialize();  // all of its memory is there
      const auto device = device::make_device(
          device::Kind::cpu, {.num_local_ranks = session().node().size(), .gpu = session().node().rank()});

      const std::size_t peak_before = machine::peak_resident_bytes(), read_before = bytes_read();
      const auto source = hub::open_weights(folder.file("model"), model.tie_word_embeddings);
      checkpoint::load_entries(*source, fixture.engine().weights(), *device, fixture.engine().stream());
      const std::size_t growth = machine::peak_resident_bytes() - peak_before;
      BOOST_TEST(growth < 6 * mib);
      BOOST_TEST(bytes_read() - read_before < file_bytes / 4 + 2 * mib);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
