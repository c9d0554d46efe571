// SPDX-License-Identifier: Apache-2.0
// Every mesh loads the same weights from a model folder, and writes the same folder again.

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "hub/shared_folder.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/device/factory.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hash.hpp"
#include "sft/model/architecture.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"

namespace {

using namespace sft;
using test::session;

/// Every part that a model may have, and a vocabulary that no number of ranks divides.
config::Model awkward_model(bool is_tied) {
  config::Model model = test::small_qwen2();
  model.vocab_size = 97;
  model.tie_word_embeddings = is_tied;
  model.attention_output_bias = model.mlp_bias = model.qk_norm = true;
  return model;
}

std::vector<test::Layout> layouts_of(int num_ranks) {
  std::vector<test::Layout> layouts;
  for (int replicate = 1; replicate <= num_ranks; ++replicate) {
    for (int shard = 1; replicate * shard <= num_ranks; ++shard) {
      for (int sp = 1; replicate * shard * sp <= num_ranks; ++sp) {
        const int tp = num_ranks / (replicate * shard * sp);
        if (replicate * shard * sp * tp != num_ranks || (tp != 1 && tp != 2 && tp != 6)) continue;
        layouts.push_back({replicate, shard, sp, tp});
      }
    }
  }
  return layouts;
}

/// Numbers that bfloat16 holds: steps of 1/128 up to 1, by name and place.
test::LogicalTensors make_tensors(const std::vector<io::TensorInfo>& tensors) {
  test::LogicalTensors result;
  std::uint32_t state = 12345;
  for (const io::TensorInfo& tensor : tensors) {
    std::vector<float>& values = result[tensor.name.substr(tensor.name.find('/') + 1)];
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      state = state * 1664525U + 1013904223U;
      values.push_back((static_cast<float>(state >> 24U) - 128.0F) / 128.0F);
    }
  }
  return result;
}

void write_folder(const std::string& folder, const std::vector<io::TensorInfo>& tensors,
                  const test::LogicalTensors& values) {
  const hub::WeightsPlan plan(tensors, hub::WeightType::bfloat16, 20000);
  io::make_folders(folder);
  hub::create_weight_files(plan, folder);
  io::write_file_atomically(folder + "/model.safetensors.index.json", plan.index_json());
  hub::WeightsSink sink(plan, folder);
  for (const io::TensorInfo& tensor : tensors) {
    const io::Rectangle whole{.num_rows = tensor.shape[0],
                              .num_columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1};
    sink.write(tensor.name, whole, DType::float32, values.at(tensor.name.substr(tensor.name.find('/') + 1)).data());
  }
  sink.finish();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(meshes)

BOOST_DATA_TEST_CASE(a_folder_is_read_and_written_by_any_mesh, boost::unit_test::data::make({false, true}), is_tied) {
  const comm::Group& world = session().world();
  const config::Model model = awkward_model(is_tied);
  const parallel::ShardMap whole(model::make_architecture(model).parts.front().units, mesh::Place());
  const std::vector<io::TensorInfo> tensors = test::tensors_of(whole);
  const test::LogicalTensors values = make_tensors(tensors);
  io::ElementSum sum;
  for (const auto& [name, numbers] : values) sum.add(name, 0, numbers);
  const std::string fingerprint = sum.text();
  const test::SharedFolder folder(world);
  world.agree([&] {
    if (world.rank() == 0) write_folder(folder.file("start"), tensors, values);
  });
  for (const mesh::Layout& layout : layouts_of(world.size())) {
    BOOST_TEST_CONTEXT(layout.describe()) {
      config::Config config;
      config.model = model;
      config.train.per_device_train_batch_size = 1;
      test::EngineFixture fixture(config, 48, test::Mesh(world, layout, model), session());
      train::Engine& engine = fixture.engine();
      const auto device = device::make_device(
          device::Kind::cpu, {.num_local_ranks = session().node().size(), .gpu = session().node().rank()});

      const auto source = hub::open_weights(folder.file("start"), is_tied);
      checkpoint::check_entries(*source, engine.weights().entries());
      checkpoint::LoadedWeights seen(/*takes_fingerprint=*/true);
      checkpoint::load_entries(*source, engine.weights(), *device, engine.stream(), seen);
      BOOST_TEST(seen.fingerprint(world) == fingerprint);
      seen.check_zeros("start", engine.weights(), world);
      BOOST_TEST(test::holds_exactly(engine.state().first_entries(), values));

      const hub::WeightsPlan plan(tensors, hub::WeightType::bfloat16, 20000);
      world.agree([&] {
        if (world.rank() != 0) return;
        std::filesystem::remove_all(folder.file("end"));
        io::make_folders(folder.file("end"));
        hub::create_weight_files(plan, folder.file("end"));
      });
      hub::WeightsSink sink(plan, folder.file("end"));
      checkpoint::save_entries(engine.weights(), sink, *device, engine.stream());
      sink.finish();
      world.agree([] {});
      for (const hub::WeightsPlan::File& file : plan.files()) {
        BOOST_TEST((io::read_file(folder.file("end/" + file.name)) == io::read_file(folder.file("start/" + file.name))),
                   file.name);
      }
      world.agree([] {});
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
