// SPDX-License-Identifier: Apache-2.0
// Checkpoints go from any mesh to any mesh, bit for bit. Run on 16 ranks.

#include "support/mpi_session.hpp"

// The main comes first.
#include <cmath>
#include <filesystem>
#include <numeric>

#include "sft/checkpoint/inspect.hpp"
#include "sft/device/factory.hpp"
#include "support/awkward_data.hpp"
#include "support/checkpoint_fixture.hpp"
#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace sft;
using test::CheckpointFixture;
using test::SharedFolder;

namespace {

constexpr int seed = 3;
const test::Layout layouts[] = {{1, 1, 1, 1}, {2, 1, 2, 2}, {1, 3, 1, 1}, {1, 1, 1, 4}, {1, 2, 1, 2},
                                {3, 1, 2, 1}, {1, 4, 2, 2}, {2, 2, 2, 2}, {1, 16, 1, 1}};

const checkpoint::Position position = {.step = 7,
                                       .epoch = 0.375,
                                       .rows_consumed = 56,
                                       .row_order = config::RowOrder::trl,
                                       .num_tokens = 1LL << 40,
                                       .num_rows = 149,
                                       .max_length = 64,
                                       .schedule = "rate 0.1"};

/// Runs on the ranks of `layout`, the others wait; an Error on any rank fails the test.
void on_mesh(const test::Layout& layout, const std::function<void(const test::Mesh&)>& work) {
  const std::optional<test::Mesh> mesh = test::make_small_mesh(test::session().world(), layout);
  if (mesh) BOOST_CHECK_NO_THROW(work(*mesh));
  test::barrier(test::session().world());
}

void save_on(const test::Layout& layout, const std::string& output_dir, const checkpoint::Position& at,
             std::int64_t save_total_limit = 0) {
  on_mesh(layout, [&](const test::Mesh& mesh) {
    CheckpointFixture fixture(mesh, test::make_units());
    fixture.fill(seed);
    fixture.save(output_dir, at, save_total_limit);
  });
}

void check_load_on(const test::Layout& layout, const std::string& folder,
                   config::RowOrder order = config::RowOrder::trl) {
  on_mesh(layout, [&](const test::Mesh& mesh) {
    CheckpointFixture fixture(mesh, test::make_units());
    const checkpoint::Position found = fixture.load(folder);
    BOOST_TEST(fixture.num_refreshes() == 1);
    BOOST_TEST(fixture.is_filled(seed), layout.describe() << ", rank " << mesh.groups.world.rank());
    BOOST_TEST(found.step == position.step);
    BOOST_TEST(found.epoch == position.epoch);
    BOOST_TEST(found.rows_consumed == position.rows_consumed);
    BOOST_TEST((found.row_order == order));
    BOOST_TEST(found.num_tokens == position.num_tokens);
    BOOST_TEST(found.num_rows == position.num_rows);
    BOOST_TEST(found.max_length == position.max_length);
    BOOST_TEST(found.schedule == (order == config::RowOrder::trl ? position.schedule : ""));
  });
}

constexpr std::int64_t split_max_length = 48;

/// What trains in float32 on rows of split_max_length; files go to `folder`.
config::Config small_config(const std::string& folder) {
  config::Config config;
  config.model = test::small_qwen2();
  config.model.num_hidden_layers = 3;
  config.train.per_device_train_batch_size = 1;
  config.train.precision = config::Precision::fp32;
  config.train.offload_folder = folder;
  return config;
}

/// A checkpoint of each of `splits` is read by each: the next step is the same, and where both are one split so is
/// every bit.
void check_splits(const test::Layout& layout, const std::vector<config::Config>& splits) {
  for (std::size_t writer = 0; writer < splits.size(); ++writer) {
    const SharedFolder output(test::session().world());
    on_mesh(layout, [&](const test::Mesh& small) {
      const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
      const std::vector<rows::Row> rows = test::make_awkward_rows(2, split_max_length, 1);
      const auto mesh_of = [&](const config::Config& of) {
        return test::Mesh(small.groups.world, layout, of.model, of.parallel);
      };
      const config::Config& first_config = splits[writer];
      const test::Mesh mesh = mesh_of(first_config);
      test::EngineFixture first(first_config, split_max_length, mesh, test::session());
      first.engine().initialize();
      (void)first.step(rows, 0, 1e-2);
      const checkpoint::State written = first.engine().state();
      checkpoint::save(output.path(), first_config, "byte", mesh.place, mesh.groups, written, position, *device,
                       first.engine().stream());
      const train::StepResult expected = first.step(rows, 1, 1e-2);
      const test::LogicalTensors after = first.gather_parameters();
      for (std::size_t reader = 0; reader < splits.size(); ++reader) {
        const config::Config& next_config = splits[reader];
        const test::Mesh next_mesh = mesh_of(next_config);
        test::EngineFixture next(next_config, split_max_length, next_mesh, test::session());
        next.engine().initialize();
        const checkpoint::State read = next.engine().state();
        (void)checkpoint::load(checkpoint::path_of(output.path(), position.step), small.groups.world, read, *device,
                               next.engine().stream());
        const train::StepResult found = next.step(rows, 1, 1e-2);
        BOOST_TEST_CONTEXT("written with split " << writer << ", read with split " << reader) {
          BOOST_TEST(std::abs(found.loss - expected.loss) <= 1e-6 * expected.loss);
          BOOST_TEST(std::abs(found.grad_norm - expected.grad_norm) <= 1e-5 * expected.grad_norm);
          if (reader == writer) BOOST_TEST(test::holds_exactly(read.first_entries(), after));
        }
      }
    });
  }
}

bool is_first() { return test::session().world().rank() == 0; }

}  // namespace

BOOST_AUTO_TEST_CASE(meshes_read_what_they_and_others_wrote) {
  constexpr std::size_t num_layouts = std::size(layouts);
  for (std::size_t i = 0; i < num_layouts; ++i) {
    const test::Layout& writer = layouts[i];
    const SharedFolder output(test::session().world());
    save_on(writer, output.path(), position);
    const std::string folder = checkpoint::path_of(output.path(), position.step);
    BOOST_TEST_CONTEXT("written on " << writer.describe()) {
      for (const std::size_t distance : {0, 1, 4}) check_load_on(layouts[(i + distance) % num_layouts], folder);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_other_units_is_read) {
  const SharedFolder output(test::session().world());
  save_on({2, 2, 2, 2}, output.path(), position);
  const std::string folder = checkpoint::path_of(output.path(), position.step);
  std::vector<parallel::Unit> units(1);  // all in one, the last parameter first: no piece lies where it was written
  for (const parallel::Unit& unit : test::make_units()) {
    units[0].parameters.insert(units[0].parameters.begin(), unit.parameters.rbegin(), unit.parameters.rend());
  }
  for (const test::Layout& layout : {test::Layout{1, 1, 1, 1}, test::Layout{1, 3, 1, 1}, test::Layout{2, 2, 2, 2}}) {
    on_mesh(layout, [&](const test::Mesh& mesh) {
      CheckpointFixture fixture(mesh, units);
      (void)fixture.load(folder);
      BOOST_TEST(fixture.is_filled(seed), layout.describe() << ", rank " << mesh.groups.world.rank());
    });
  }
}

/// Written on 1 x 2 x 1 x 2 by sft 0.1.0, whose shard files hold whole rank shards with the padding behind each unit.
BOOST_AUTO_TEST_CASE(a_checkpoint_of_the_first_release_is_read) {
  const std::string folder = SFT_SOURCE_DIR "/tests/trainer/fixtures/checkpoint-000007";
  for (const test::Layout& layout : layouts) check_load_on(layout, folder, config::RowOrder::endless);
  on_mesh({1, 1, 1, 1}, [&](const test::Mesh& mesh) {
    const test::LogicalTensors expected = CheckpointFixture(mesh, test::make_units()).expected(seed);
    const std::unique_ptr<io::TensorSource> source = checkpoint::open_source(folder);
    const std::vector<io::TensorInfo> tensors = source->tensors();
    BOOST_TEST(tensors.size() == expected.size());
    for (const io::TensorInfo& tensor : tensors) {
      BOOST_TEST((test::read_whole(*source, tensor) == expected.at(tensor.name)), tensor.name);
    }
    BOOST_TEST(checkpoint::read_header(folder).sft_version == "0.1.0");
    checkpoint::verify(folder);
  });
}

BOOST_AUTO_TEST_CASE(entries_of_any_name_and_cut_are_kept) {
  const SharedFolder output(test::session().world());
  const std::string folder = checkpoint::path_of(output.path(), position.step);
  on_mesh({1, 2, 1, 2}, [&](const test::Mesh& mesh) {
    const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
    const std::unique_ptr<device::Stream> stream = device->make_stream();
    const std::vector<parallel::Unit> units = test::make_units(4, 5);
    const parallel::ShardMap all(units, mesh.place);
    const parallel::ShardMap first({units[0]}, mesh.place);  // one parameter: cut in another way
    std::vector<float> base(static_cast<std::size_t>(all.rank_shard_elements()), 2.0F);
    for (const parallel::ShardRange& gap : all.padding()) std::fill_n(base.begin() + gap.begin, gap.count, 0.0F);
    std::vector<float> scale(static_cast<std::size_t>(first.rank_shard_elements()));
    test::LogicalTensors scales = {{units[0].parameters[0].name, std::vector<float>(20)}};
    std::iota(scales.begin()->second.begin(), scales.begin()->second.end(), 1.0F);
    const checkpoint::Entry base_entry = {"base", &all, Tensor(base.data(), DType::float32, {std::ssize(base)})};
    const checkpoint::Entry scale_entry = {"scale", &first, Tensor(scale.data(), DType::float32, {std::ssize(scale)})};
    test::scatter(first, scales, scale_entry.tensor);
    const checkpoint::State state({base_entry, scale_entry}, [] {});
    checkpoint::save(output.path(), config::Config(), "byte", mesh.place, mesh.groups, state, position, *device,
                     *stream);

    const std::unique_ptr<io::TensorSource> source = checkpoint::open_source(folder);
    const std::vector<io::TensorInfo> tensors = source->tensors();
    BOOST_TEST(std::ranges::count(tensors, "base", [](const auto& t) { return io::entry_of(t.name); }) == 8);
    BOOST_TEST(tensors.size() == 9U);
    BOOST_TEST((test::read_whole(*source, tensors.back()) == scales.begin()->second));

    const std::vector<std::vector<float>> saved = {base, scale};
    std::ranges::fill(base, -1.0F);
    std::ranges::fill(scale, -1.0F);
    (void)checkpoint::load(folder, mesh.groups.world, state, *device, *stream);
    BOOST_TEST((saved == std::vector<std::vector<float>>{base, scale}));

    // A run that keeps fewer entries, or others, is another run.
    const auto load_error = [&](const checkpoint::State& other) {
      return test::data_error_of([&] { (void)checkpoint::load(folder, mesh.groups.world, other, *device, *stream); });
    };
    BOOST_TEST(test::mentions(load_error(checkpoint::State({base_entry}, [] {})), {"checkpoint.h5", "it holds scale"}));
    checkpoint::Entry renamed = scale_entry;
    renamed.name = "momentum";
    BOOST_TEST(test::mentions(load_error(checkpoint::State({base_entry, renamed}, [] {})),
                              {"checkpoint.h5", "it has no momentum/model.embed_tokens.weight"}));
  });
}

/// Saves steps of an optimizer on one mesh, loads and saves them on others: the same tensors, on which it calls
/// check(tensors). Collective.
template <class Check>
void check_other_meshes_and_back(config::OptimizerKind optim, const Check& check) {
  config::Config config = small_config("");
  config.model.intermediate_size = 192;  // matrices of 30 blocks
  config.optimizer.optim = optim;
  const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
  const SharedFolder outputs(test::session().world());
  const auto save = [&](test::EngineFixture& fixture, const test::Mesh& mesh, const std::string& output) {
    checkpoint::save(output, config, "byte", mesh.place, mesh.groups, fixture.engine().state(), position, *device,
                     fixture.engine().stream());
  };
  const std::string first = outputs.path() + "/first", first_folder = checkpoint::path_of(first, position.step);
  const test::Layout writer = {1, 3, 1, 2};
  on_mesh(writer, [&](const test::Mesh& small) {
    const test::Mesh mesh(small.groups.world, writer, config.model);
    test::EngineFixture fixture(config, split_max_length, mesh, test::session());
    fixture.engine().initialize();
    for (std::int64_t step = 0; step < 3; ++step) {
      (void)fixture.step(test::make_awkward_rows(3, split_max_length, 1), step, 1e-2);
    }
    save(fixture, mesh, first);
  });
  for (const test::Layout& reader : {test::Layout{1, 1, 1, 1}, test::Layout{1, 5, 1, 1}, test::Layout{2, 2, 1, 2}}) {
    const std::string second = outputs.path() + "/" + std::to_string(reader.size());
    on_mesh(reader, [&](const test::Mesh& small) {
      const test::Mesh mesh(small.groups.world, reader, config.model);
      test::EngineFixture fixture(config, split_max_length, mesh, test::session());
      fixture.engine().initialize();
      (void)checkpoint::load(first_folder, mesh.groups.world, fixture.engine().state(), *device,
                             fixture.engine().stream());
      save(fixture, mesh, second);
    });
    if (!is_first()) continue;
    const auto expected = checkpoint::open_source(first_folder),
               found = checkpoint::open_source(checkpoint::path_of(second, position.step));
    const std::vector<io::TensorInfo> tensors = expected->tensors();
    BOOST_TEST(found->tensors().size() == tensors.size());
    check(tensors);
    for (const io::TensorInfo& tensor : tensors) {
      BOOST_TEST((test::read_whole(*found, tensor) == test::read_whole(*expected, tensor)),
                 tensor.name << " by " << reader.describe());
    }
    checkpoint::verify(checkpoint::path_of(second, position.step));
  }
}

BOOST_AUTO_TEST_CASE(moments_in_8_bits_go_to_other_meshes_and_back) {
  check_other_meshes_and_back(config::OptimizerKind::adamw_8bit, [](const std::vector<io::TensorInfo>& tensors) {
    const auto num_codes = std::ranges::count(tensors, DType::uint8, &io::TensorInfo::dtype);
    BOOST_TEST(num_codes == 2 * 3 * 3);  // both moments of three matrices in three blocks
  });
}

BOOST_AUTO_TEST_CASE(momentum_of_matrices_goes_to_other_meshes_and_back) {
  check_other_meshes_and_back(config::OptimizerKind::muon, [](const std::vector<io::TensorInfo>& tensors) {
    const auto num_of = [&](const std::string& entry) {
      return std::ranges::count_if(tensors,
                                   [&](const io::TensorInfo& tensor) { return tensor.name.starts_with(entry); });
    };
    BOOST_TEST(num_of("momentum_buffer/") == 3 * 7);  // of three blocks
    BOOST_TEST(num_of("exp_avg/") == num_of("model/") - 3 * 7);
    BOOST_TEST(num_of("exp_avg_sq/") == num_of("exp_avg/"));
  });
}

BOOST_AUTO_TEST_CASE(means_of_rows_and_columns_go_to_other_meshes_and_back) {
  check_other_meshes_and_back(config::OptimizerKind::adafactor, [](const std::vector<io::TensorInfo>& tensors) {
    const auto num_of = [&](const std::string& entry) {
      return std::ranges::count_if(tensors,
                                   [&](const io::TensorInfo& tensor) { return tensor.name.starts_with(entry); });
    };
    BOOST_TEST(num_of("exp_avg_sq_row/") > 3 * 7);  // of three blocks and the embedding
    BOOST_TEST(num_of("exp_avg_sq_col/") == num_of("exp_avg_sq_row/"));
    BOOST_TEST(num_of("exp_avg_sq/") + num_of("exp_avg_sq_row/") == num_of("model/"));
  });
}

BOOST_AUTO_TEST_CASE(codes_are_no_numbers) {
  const SharedFolder output(test::session().world());
  on_mesh({1, 2, 1, 1}, [&](const test::Mesh& mesh) {
    const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
    const std::unique_ptr<device::Stream> stream = device->make_stream();
    const parallel::ShardMap shard_map(test::make_units(4, 5), mesh.place);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(shard_map.rank_shard_elements()), 200);
    std::vector<float> numbers(codes.size(), 200.0F);
    const checkpoint::Entry as_codes{"state", &shard_map, Tensor(codes.data(), DType::uint8, {std::ssize(codes)})};
    const checkpoint::Entry as_numbers{"state", &shard_map,
                                       Tensor(numbers.data(), DType::float32, {std::ssize(numbers)})};
    const auto error_of = [&](const checkpoint::Entry& written, const checkpoint::Entry& read) {
      checkpoint::save(output.path(), config::Config(), "byte", mesh.place, mesh.groups,
                       checkpoint::State({written}, [] {}), position, *device, *stream);
      return test::data_error_of([&] {
        (void)checkpoint::load(checkpoint::path_of(output.path(), position.step), mesh.groups.world,
                               checkpoint::State({read}, [] {}), *device, *stream);
      });
    };
    BOOST_TEST(test::mentions(error_of(as_codes, as_numbers), {"checkpoint.h5", "holds codes where numbers"}));
    BOOST_TEST(test::mentions(error_of(as_numbers, as_codes), {"checkpoint.h5", "holds numbers where codes"}));
    BOOST_TEST(error_of(as_codes, as_codes).empty());
    std::int64_t num_held = 0;
    for (const parallel::Piece& piece : shard_map.pieces()) num_held += piece.count;
    BOOST_TEST(std::ranges::count(codes, 200) == num_held);  // and zeros between them
  });
}

BOOST_AUTO_TEST_CASE(loading_refreshes_the_low_precision_copy) {
  constexpr std::int64_t max_length = 48;
  const SharedFolder output(test::session().world());
  config::Config config;
  config.model = test::small_qwen2();
  config.train.per_device_train_batch_size = 1;
  config.train.precision = config::Precision::bf16;
  const test::Layout layout = {1, 2, 1, 1};
  on_mesh(layout, [&](const test::Mesh& small) {
    const test::Mesh mesh(small.groups.world, layout, config.model);
    const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
    const std::vector<rows::Row> rows = test::make_awkward_rows(2, max_length, 1);

    test::EngineFixture first(config, max_length, mesh, test::session());
    first.engine().initialize();
    (void)first.step(rows, 0, 1e-2);
    checkpoint::save(output.path(), config, "byte", mesh.place, mesh.groups, first.engine().state(), position, *device,
                     first.engine().stream());
    const train::StepResult expected = first.step(rows, 1, 1e-2);

    test::EngineFixture second(config, max_length, mesh, test::session());
    second.engine().initialize();
    (void)checkpoint::load(checkpoint::path_of(output.path(), position.step), mesh.groups.world,
                           second.engine().state(), *device, second.engine().stream());
    const train::StepResult found = second.step(rows, 1, 1e-2);
    BOOST_TEST(found.loss == expected.loss);
    BOOST_TEST(found.grad_norm == expected.grad_norm);
  });
}

BOOST_AUTO_TEST_CASE(every_split_goes_on_from_every_other) {
  const test::TemporaryFolder folder;
  const config::Config config = small_config(folder.path());
  // Every stage, with a method, recomputation and a place for the moments of its own.
  std::vector<config::Config> splits(4, config);
  for (int stage = 0; stage <= 3; ++stage) splits[static_cast<std::size_t>(stage)].parallel.zero_stage = stage;
  splits[1].parallel.sp_method = config::SpMethod::all_gather;
  splits[1].train.offload_optimizer = config::Offload::nvme;
  splits[2].parallel.sp_method = config::SpMethod::ulysses;
  splits[2].train.activation_checkpointing = config::ActivationCheckpointing::full;
  splits[3].parallel.blocks_per_unit = 0;
  splits[3].train.activation_checkpointing = config::ActivationCheckpointing::selective;
  splits[3].train.offload_optimizer = config::Offload::nvme;
  check_splits({1, 2, 2, 1}, splits);
}

BOOST_AUTO_TEST_CASE(whole_tokens_go_on_from_cut_ones_and_back) {
  const test::TemporaryFolder folder;
  std::vector<config::Config> splits(2, small_config(folder.path()));
  splits[1].parallel.tp_sequence_parallel = true;
  check_splits({1, 2, 1, 2}, splits);
}

BOOST_AUTO_TEST_CASE(tools_see_whole_tensors_and_the_run) {
  const SharedFolder output(test::session().world());
  save_on({2, 2, 2, 2}, output.path(), position);
  const std::string folder = checkpoint::path_of(output.path(), position.step);
  on_mesh({1, 1, 1, 1}, [&](const test::Mesh& mesh) {
    const CheckpointFixture fixture(mesh, test::make_units());
    const test::LogicalTensors expected = fixture.expected(seed);
    const std::unique_ptr<io::TensorSource> source = checkpoint::open_source(folder);
    const std::vector<io::TensorInfo> tensors = source->tensors();
    BOOST_TEST(tensors.size() == expected.size());
    for (const io::TensorInfo& tensor : tensors) {
      BOOST_TEST((test::read_whole(*source, tensor) == expected.at(tensor.name)), tensor.name);
    }
    const checkpoint::Header header = checkpoint::read_header(folder);
    BOOST_TEST(header.tokenizer == "byte");
    BOOST_TEST(header.mesh == test::Layout(2, 2, 2, 2).describe());
    BOOST_TEST(header.position.num_tokens == position.num_tokens);
    BOOST_TEST(header.config_ini.find("[model]") != std::string::npos);
    BOOST_TEST(checkpoint::list_shard_files(folder).size() == 8U);
    checkpoint::verify(folder);
  });
}

BOOST_AUTO_TEST_CASE(statistics_and_differences_are_those_of_the_numbers) {
  const SharedFolder output(test::session().world());
  const std::string folder = checkpoint::path_of(output.path(), 1);
  const std::string other = checkpoint::path_of(output.path(), 2);
  on_mesh({1, 3, 1, 1}, [&](const test::Mesh& mesh) {
    CheckpointFixture fixture(mesh, test::make_units());
    fixture.fill(seed);
    fixture.save(output.path(), {.step = 1});
    fixture.fill(seed + 1);  // every number is 1000 larger
    fixture.save(output.path(), {.step = 2});
  });
  if (!is_first()) return;
  const std::unique_ptr<io::TensorSource> source = checkpoint::open_source(folder);
  const std::unique_ptr<io::TensorSource> later = checkpoint::open_source(other);
  for (const io::TensorInfo& tensor : source->tensors()) {
    const std::vector<float> values = test::read_whole(*source, tensor);
    double sum_of_squares = 0.0;
    for (const double value : values) sum_of_squares += value * value;
    const checkpoint::Statistics found = checkpoint::measure(*source, tensor);
    BOOST_TEST(found.norm == std::sqrt(sum_of_squares));
    BOOST_TEST(found.min == values.front());
    BOOST_TEST(found.max == values.back());
    BOOST_TEST(found.num_nan == 0);
    BOOST_TEST(checkpoint::compare(*source, tensor, *source, tensor).max_abs == 0.0);
    const checkpoint::Difference difference = checkpoint::compare(*source, tensor, *later, tensor);
    BOOST_TEST(difference.max_abs == 1000.0);
    const auto num_elements = static_cast<double>(values.size());
    BOOST_TEST(difference.relative() == 1000.0 * std::sqrt(num_elements / sum_of_squares),
               boost::test_tools::tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_CASE(a_moved_folder_stays_whole) {
  const SharedFolder output(test::session().world());
  save_on({1, 2, 1, 2}, output.path(), position);
  const std::string moved = output.path() + "/elsewhere";
  if (is_first()) fs::rename(checkpoint::path_of(output.path(), position.step), moved);
  test::barrier(test::session().world());
  check_load_on({1, 3, 1, 1}, moved);
}

BOOST_AUTO_TEST_CASE(rows_longer_than_the_staging_buffer_pass) {
  constexpr std::int64_t width = 1'100'000;  // of float32, more than the 4 MiB that go through at a time
  const SharedFolder output(test::session().world());
  on_mesh({1, 2, 1, 1}, [&](const test::Mesh& mesh) {
    CheckpointFixture fixture(mesh, test::make_units(2, width));
    fixture.fill(seed);
    fixture.save(output.path(), position);
    fixture.fill(seed + 1);
    BOOST_TEST(!fixture.is_filled(seed));
    (void)fixture.load(checkpoint::path_of(output.path(), position.step));
    BOOST_TEST(fixture.is_filled(seed));
  });
}

BOOST_AUTO_TEST_CASE(the_newest_are_kept_and_the_same_step_may_be_saved_again) {
  const SharedFolder output(test::session().world());
  for (const std::int64_t step : {1, 2, 30, 30, 4}) {
    checkpoint::Position at = position;
    at.step = step;
    at.lineage.run_id = "a run";  // only a run's own checkpoints make room for new ones
    save_on({1, 2, 1, 1}, output.path(), at, 2);
  }
  const std::vector<std::string> expected = {checkpoint::path_of(output.path(), 4),
                                             checkpoint::path_of(output.path(), 30)};
  BOOST_TEST(checkpoint::list(output.path()) == expected);
  BOOST_TEST(std::distance(fs::directory_iterator(output.path()), fs::directory_iterator()) == 2);
}
