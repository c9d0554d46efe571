// SPDX-License-Identifier: Apache-2.0
// Adafactor against numbers of transformers on one rank, and where its state lies on any mesh.

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "optim/factored_plan.hpp"
#include "sft/comm/traffic.hpp"
#include "sft/optim/optimizer.hpp"
#include "sft/parallel/matrix_exchange.hpp"
#include "sft/parallel/shard_reduction.hpp"
#include "support/stored_part.hpp"
#include "support/temporary_folder.hpp"
#include "unit/optim/shard_fixture.hpp"

namespace sft::optim {

BOOST_AUTO_TEST_SUITE(adafactor)

namespace {

/// As in make_adafactor.py.
double value_of(std::int64_t element, int round) {
  const auto i = static_cast<double>(element);
  return std::sin(0.7 * i + 0.013 * i * i + 2.3 * round);
}

double gradient_of(const parallel::Parameter& p, std::int64_t row, std::int64_t element, int round) {
  if (!p.is_vector() && p.rows > 1 && row == p.rows - 1) return 0.0;
  return value_of(element, round) * std::pow(10.0, -static_cast<double>(element / 100 % 4));
}

config::Optimizer default_keys() {
  config::Optimizer keys;
  keys.optim = config::OptimizerKind::adafactor;
  keys.weight_decay = 0.2;
  return keys;
}

struct Form {
  DType compute = DType::bf16;
  parallel::MasterWeights master = parallel::MasterWeights::in_memory;
  StateForm state = {};
};

/// The only rank, with the parameters of `units` and no others.
struct Fixture {
  Fixture(std::vector<parallel::Unit> units, const config::Optimizer& keys, const Form& form = {},
          const std::string& folder = "")
      : storage(sft::test::stored_part(std::move(units), place, form.compute, form.master)),
        optimizer(make_optimizer(keys, shard_map, form.state)) {
    memory.lay_out([&](device::Arena& arena) { storage.lay_out(arena, arena, arena); });
    memory.lay_out([&](device::Arena& arena) { optimizer->lay_out(arena, arena); });
    optimizer->open(*memory.device, *memory.stream, storage, folder);
    optimizer->use({matrices, reduction});
    optimizer->zero(*memory.backend);
    std::vector<float> start(static_cast<std::size_t>(shard_map.rank_shard_elements()));
    test::for_each_element(shard_map, [&](const parallel::Parameter& p, std::int64_t i, std::int64_t j,
                                          std::int64_t at) {
      start[static_cast<std::size_t>(at)] = static_cast<float>(value_of(i * (p.is_vector() ? 1 : p.columns) + j, 0));
    });
    const Tensor values(start.data(), DType::float32, {std::ssize(start)});
    if (optimizer->master_in_file() != nullptr) {
      optimizer->master_in_file()->write(0, values);
    } else {
      memory.backend->run(ops::Copy{storage.parameters(), values});
    }
  }
  ~Fixture() { optimizer->drain(); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  void step(int number, double learning_rate, double scale) {
    test::for_each_element(
        shard_map, [&](const parallel::Parameter& p, std::int64_t i, std::int64_t j, std::int64_t at) {
          const std::int64_t element = i * (p.is_vector() ? 1 : p.columns) + j;
          storage.gradients().as<float>()[at] = static_cast<float>(gradient_of(p, i, element, number));
        });
    step_all(*optimizer, storage, *memory.backend, number, learning_rate, scale);
  }
  /// The bytes of the parameters that are computed with, and of the state.
  [[nodiscard]] std::vector<std::string> bytes() {
    std::vector<Tensor> tensors{storage.compute_copy().empty() ? storage.parameters() : storage.compute_copy()};
    for (const StateEntry& entry : optimizer->state()) tensors.push_back(entry.tensor);
    std::vector<std::string> all;
    for (const Tensor& tensor : tensors) all.emplace_back(tensor.as<char>(), tensor.size_bytes());
    return all;
  }

  mesh::Place place;
  test::Memory memory;
  parallel::UnitStorage storage;
  const parallel::ShardMap& shard_map = storage.shard_map();
  std::unique_ptr<Optimizer> optimizer;
  parallel::MatrixAssignment assignment{shard_map, place,
                                        [](parallel::UnitIndex, const parallel::Parameter&) { return false; }};
  mesh::Groups groups = mesh::Groups::planned(place, {});
  comm::TrafficCounter collectives;
  parallel::MatrixExchange matrices{assignment, storage, groups, *memory.backend, collectives};
  parallel::ShardReduction reduction{groups, *memory.backend, collectives};
};

/// A line of adafactor.txt.
struct Steps {
  std::int64_t rows = 0, columns = 0;
  config::Optimizer keys = default_keys();
  double scale = 1.0;
  int num_steps = 0;
  std::size_t stride = 1;
  std::vector<double> parameters, moments;
};

std::vector<Steps> steps_of_transformers() {
  std::ifstream file(SFT_SOURCE_DIR "/tests/unit/optim/adafactor.txt");
  std::vector<Steps> all;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    Steps& steps = all.emplace_back();
    std::string bar;
    words >> steps.rows >> steps.columns >> steps.keys.learning_rate >> steps.keys.weight_decay >> steps.scale >>
        steps.num_steps >> steps.stride >> bar;
    for (std::string word; words >> word && word != "|";) steps.parameters.push_back(std::stod(word));
    for (double number = 0.0; words >> number;) steps.moments.push_back(number);
  }
  return all;
}

std::vector<parallel::Unit> units_of_one(std::int64_t rows, std::int64_t columns) {
  std::vector<parallel::Unit> units(3);
  units[1].parameters = {sft::test::parameter("tensor", rows, columns, parallel::TpSplit::none)};
  return units;
}

const std::vector<mesh::Layout> layouts{{},
                                        {{Axis::dp_shard, 3}},
                                        {{Axis::tp, 2}},
                                        {{Axis::dp_shard, 5}, {Axis::tp, 2}},
                                        {{Axis::dp_replicate, 2}, {Axis::dp_shard, 2}, {Axis::sp, 2}, {Axis::tp, 4}}};

}  // namespace

BOOST_AUTO_TEST_CASE(steps_are_those_of_transformers) {
  const std::vector<Steps> all = steps_of_transformers();
  BOOST_TEST_REQUIRE(all.size() == 5U);
  for (const Steps& steps : all) {
    Fixture f(units_of_one(steps.rows, steps.columns), steps.keys);
    for (int step = 1; step <= steps.num_steps; ++step) f.step(step, steps.keys.learning_rate, steps.scale);
    const std::string what = std::to_string(steps.rows) + " x " + std::to_string(steps.columns);
    const auto size = static_cast<std::size_t>(steps.rows * std::max<std::int64_t>(steps.columns, 1));
    BOOST_TEST_REQUIRE(steps.parameters.size() == (size + steps.stride - 1) / steps.stride, what);
    double worst = 0.0, worst_moment = 0.0;
    for (std::size_t i = 0; i < steps.parameters.size(); ++i) {
      const double found = f.storage.parameters().as<float>()[i * steps.stride];
      worst = std::max(worst, std::abs(found - steps.parameters[i]) / steps.keys.learning_rate);
      BOOST_TEST_REQUIRE(std::isfinite(found), what);
    }
    std::vector<float> moments;
    for (const StateEntry& entry : f.optimizer->state()) {
      const std::size_t stride = steps.columns > 0 ? 1 : steps.stride;
      for (std::size_t i = 0; i < static_cast<std::size_t>(entry.tensor.num_elements()); i += stride) {
        moments.push_back(entry.tensor.as<float>()[i]);
      }
    }
    BOOST_TEST_REQUIRE(moments.size() == steps.moments.size(), what);
    for (std::size_t i = 0; i < moments.size(); ++i) {
      worst_moment = std::max(worst_moment, std::abs(moments[i] / steps.moments[i] - 1));
    }
    BOOST_TEST_MESSAGE(what << ": of a step " << worst << ", moments " << worst_moment);
    BOOST_TEST(worst < 1e-4, what);  // rounding of parameters near 1 is 6e-8, ten times, of a rate of 1e-2
    BOOST_TEST(worst_moment < 2e-6, what);
  }
}

BOOST_AUTO_TEST_CASE(windows_of_a_file_change_no_bit) {
  const sft::test::TemporaryFolder folder;
  for (const bool is_rounded : {false, true}) {
    const auto run = [&](const Form& form) {
      Fixture f(test::sample_units(), default_keys(), form, folder.path());
      for (int step = 1; step <= 4; ++step) f.step(step, 0.01, 0.5);
      return f.bytes();
    };
    Form form;
    if (is_rounded) {
      form.master = parallel::MasterWeights::none;
      form.state.rounds_parameters = true;
    }
    const std::vector<std::string> expected = run(form);
    BOOST_TEST_REQUIRE(expected.size() == 4U);
    if (is_rounded) {
      BOOST_TEST((run(form) == expected));
      form.state.rounding_seed = 43;
      BOOST_TEST((run(form) != expected));
      continue;
    }
    form.master = parallel::MasterWeights::in_file;
    form.state.master_location = StateLocation::file;
    for (const std::int64_t window : {64, 128, 1 << 20}) {
      form.state.window_elements = window;
      BOOST_TEST((run(form) == expected), window);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_of_zeros_changes_nothing) {
  config::Optimizer keys = default_keys();
  keys.weight_decay = 0.0;
  Fixture f(test::sample_units(), keys);
  test::fill(f.storage.gradients(), 0.0F);
  std::vector<float> start(f.storage.parameters().as<float>(),
                           f.storage.parameters().as<float>() + f.shard_map.rank_shard_elements());
  step_all(*f.optimizer, f.storage, *f.memory.backend, 1, 0.1, 1.0);
  for (std::size_t i = 0; i < start.size(); ++i) BOOST_TEST(f.storage.parameters().as<float>()[i] == start[i]);
}

BOOST_AUTO_TEST_CASE(parts_are_the_rank_shard) {
  for (const mesh::Layout& layout : layouts) {
    for (const std::int64_t window : {std::int64_t{64}, std::int64_t{1} << 60}) {
      std::map<std::string, std::int64_t> num_counted;  // elements of a tensor, over the ranks that sums are taken over
      std::map<std::string, std::int64_t> num_elements;
      for (const WorldRank rank : layout.ranks()) {
        const mesh::Place place(layout, rank);
        const parallel::ShardMap shard_map(test::sample_units(), place);
        const FactoredPlan plan(shard_map);
        const bool is_first_replica = place.rank(Axis::dp_replicate) == 0;
        std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> moments_of;  // by element of the rank shard
        for (const FactoredWindow& piece : plan_windows(shard_map, plan, window)) {
          for (const FactoredPart& part : piece.parts) {
            BOOST_TEST(part.begin >= piece.shard.begin);
            BOOST_TEST(part.begin + part.num_elements() <= piece.shard.begin + piece.shard.count);
            for (std::int64_t i = 0; i < part.num_elements(); ++i) {
              const std::int64_t row = i / part.num_columns, column = i % part.num_columns;
              moments_of[part.begin + i] = {part.row_begin + row, part.column_begin + column};
            }
            const FactoredTensor& tensor = plan.tensors[part.tensor];
            num_elements[tensor.parameter->name] = tensor.parameter->elements();
            if (is_first_replica && tensor.is_counted) num_counted[tensor.parameter->name] += part.num_elements();
          }
        }
        std::map<const parallel::Parameter*, const FactoredTensor*> tensors;
        for (const FactoredTensor& tensor : plan.tensors) tensors[tensor.parameter] = &tensor;
        std::size_t num_found = 0;
        test::for_each_element(shard_map,
                               [&](const parallel::Parameter& p, std::int64_t i, std::int64_t j, std::int64_t at) {
                                 BOOST_TEST_REQUIRE(moments_of.contains(at));
                                 ++num_found;
                                 if (p.is_vector()) return;
                                 const FactoredTensor& tensor = *tensors.at(&p);
                                 BOOST_TEST(moments_of[at].first == tensor.row_begin + i);
                                 BOOST_TEST(moments_of[at].second == tensor.column_begin + j);
                               });
        BOOST_TEST(num_found == moments_of.size());
      }
      for (const auto& [name, count] : num_elements) {
        BOOST_TEST(num_counted[name] == count, layout.describe() << ' ' << name);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(owners_write_every_moment_once) {
  for (const mesh::Layout& layout : layouts) {
    for (const MomentsLayout::Kind kind :
         {MomentsLayout::Kind::rows, MomentsLayout::Kind::columns, MomentsLayout::Kind::vectors}) {
      const MomentsLayout moments(kind);
      std::map<std::string, std::vector<int>> times_written;
      for (const WorldRank rank : layout.ranks()) {
        const parallel::ShardMap shard_map(test::sample_units(), mesh::Place(layout, rank));
        for (const parallel::StoredTensor& tensor : moments.tensors(shard_map)) {
          BOOST_TEST_REQUIRE(tensor.shape.size() == 1U);
          times_written[tensor.parameter->name].resize(static_cast<std::size_t>(tensor.shape[0]));
        }
        std::int64_t end = 0;
        for (const parallel::StoredPart& part : moments.parts(shard_map)) {
          BOOST_TEST(part.where.shard_offset >= end);  // ascending
          end = part.where.shard_offset + part.where.num_rows;
          BOOST_TEST(part.where.num_columns == 1);
          if (!part.is_owner) continue;
          for (std::int64_t i = 0; i < part.where.num_rows; ++i) {
            ++times_written.at(part.parameter->name).at(static_cast<std::size_t>(part.where.row_begin + i));
          }
        }
        BOOST_TEST(end <= moments.num_elements(shard_map));
      }
      BOOST_TEST(times_written.size() == 4U);
      for (const auto& [name, times] : times_written) {
        for (const int number : times) BOOST_TEST(number == 1, layout.describe() << ' ' << name);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::optim
