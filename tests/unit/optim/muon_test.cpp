// SPDX-License-Identifier: Apache-2.0
// Muon against numbers of torch, its iteration against float64, and what it leaves to AdamW; on one rank.

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "optim/newton_schulz.hpp"
#include "sft/comm/traffic.hpp"
#include "sft/optim/optimizer.hpp"
#include "sft/parallel/matrix_exchange.hpp"
#include "sft/parallel/shard_reduction.hpp"
#include "support/stored_part.hpp"
#include "support/temporary_folder.hpp"
#include "unit/optim/shard_fixture.hpp"

namespace sft::optim {

BOOST_AUTO_TEST_SUITE(muon)

namespace {

/// As in make_muon.py.
double value_of(std::int64_t element, int round) {
  const auto i = static_cast<double>(element);
  return std::sin(0.7 * i + 0.013 * i * i + 2.3 * round);
}

using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b.front().size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < b.front().size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a.front().size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a.front().size(); ++j) t[j][i] = a[i][j];
  }
  return t;
}

/// Five steps of x <- a x + (b A + c A A) x with A = x x^T.
Matrix newton_schulz(Matrix x) {
  const double a = 3.4445, b = -4.7750, c = 2.0315;
  for (int step = 0; step < 5; ++step) {
    const Matrix gram = product(x, transposed(x)), square = product(gram, gram);
    Matrix factor = gram;
    for (std::size_t i = 0; i < gram.size(); ++i) {
      for (std::size_t j = 0; j < gram.size(); ++j) factor[i][j] = b * gram[i][j] + c * square[i][j];
    }
    const Matrix change = product(factor, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < x[i].size(); ++j) x[i][j] = a * x[i][j] + change[i][j];
    }
  }
  return x;
}

double from_bf16(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16U); }

struct Form {
  parallel::MasterWeights master = parallel::MasterWeights::in_memory;
  StateForm state = {};
};

/// The only rank, with the parameters of `units` and no others.
struct Fixture {
  Fixture(std::vector<parallel::Unit> units, const config::Optimizer& keys, const Form& form = {},
          const std::string& folder = "")
      : storage(sft::test::stored_part(std::move(units), place, DType::bf16, form.master)),
        optimizer(make_optimizer(keys, shard_map, form.state)),
        assignment(shard_map, place, [&](parallel::UnitIndex unit, const parallel::Parameter& p) {
          return optimizer->needs_whole(unit, p);
        }) {
    memory.lay_out([&](device::Arena& arena) { storage.lay_out(arena, arena, arena); });
    memory.lay_out([&](device::Arena& arena) {
      optimizer->lay_out(arena, arena);
      assignment.lay_out(arena);
      workspace = take(arena, DType::bf16,
                       {static_cast<std::int64_t>(ops::workspace_bytes(device::Kind::cpu, 8, {}) / sizeof(BFloat16))});
    });
    memory.backend->set_workspace(workspace);
    optimizer->open(*memory.device, *memory.stream, storage, folder);
    optimizer->use({exchange, reduction});
    optimizer->zero(*memory.backend);
    if (optimizer->master_in_file() == nullptr) {
      test::fill(storage.parameters(), 0.0F);
      fill(storage.parameters(), 0);
    } else {
      test::fill(storage.gradients(), 0.0F);  // for its memory
      fill(storage.gradients(), 0);
      optimizer->master_in_file()->write(0, storage.gradients());
    }
  }
  ~Fixture() { optimizer->drain(); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  /// The bytes of what is computed with, and of the state by name and layout.
  [[nodiscard]] std::map<std::string, std::string> bytes() {
    const Tensor& copy = storage.compute_copy();
    std::map<std::string, std::string> all{{"copy", {copy.as<char>(), copy.size_bytes()}}};
    for (const StateEntry& entry : optimizer->state()) {
      std::string& bytes = all[entry.name];
      if (entry.in_file == nullptr) {
        bytes.assign(entry.tensor.as<char>(), entry.tensor.size_bytes());
        continue;
      }
      bytes.resize(static_cast<std::size_t>(entry.in_file->num_elements()) * size_of(entry.in_file->dtype()));
      entry.in_file->read(0, Tensor(bytes.data(), entry.in_file->dtype(), {entry.in_file->num_elements()}));
    }
    return all;
  }

  /// Element i of every parameter becomes value_of(i, round).
  void fill(const Tensor& shard, int round) const {
    test::for_each_element(
        shard_map, [&](const parallel::Parameter& p, std::int64_t i, std::int64_t j, std::int64_t at) {
          shard.as<float>()[at] = static_cast<float>(value_of(i * (p.is_vector() ? 1 : p.columns) + j, round));
        });
  }
  void step(int number, double learning_rate) {
    fill(storage.gradients(), number);
    step_all(*optimizer, storage, *memory.backend, number, learning_rate, 1.0);
  }

  mesh::Place place;
  test::Memory memory;
  parallel::UnitStorage storage;
  const parallel::ShardMap& shard_map = storage.shard_map();
  std::unique_ptr<Optimizer> optimizer;
  parallel::MatrixAssignment assignment;
  Tensor workspace;
  mesh::Groups groups = mesh::Groups::planned(place, {});
  comm::TrafficCounter collectives;
  parallel::MatrixExchange exchange{assignment, storage, groups, *memory.backend, collectives};
  parallel::ShardReduction reduction{groups, *memory.backend, collectives};
};

/// A line of muon.txt.
struct Steps {
  std::int64_t rows = 0, columns = 0;
  config::Optimizer keys;
  int num_steps = 0;
  std::vector<double> parameters;

  [[nodiscard]] double rate_factor() const {
    const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
    return keys.adjust_lr_fn == config::LrAdjustment::original ? std::sqrt(std::max(1.0, r / c))
                                                               : 0.2 * std::sqrt(std::max(r, c));
  }
};

std::vector<Steps> steps_of_torch() {
  std::ifstream file(SFT_SOURCE_DIR "/tests/unit/optim/muon.txt");
  std::vector<Steps> all;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    Steps steps;
    std::string adjustment, bar;
    words >> steps.rows >> steps.columns >> steps.keys.muon_momentum >> steps.keys.nesterov >> adjustment >>
        steps.keys.learning_rate >> steps.keys.weight_decay >> steps.num_steps >> bar;
    steps.keys.optim = config::OptimizerKind::muon;
    steps.keys.adjust_lr_fn =
        adjustment == "original" ? config::LrAdjustment::original : config::LrAdjustment::match_rms_adamw;
    for (double number = 0.0; words >> number;) steps.parameters.push_back(number);
    all.push_back(steps);
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(newton_schulz_follows_float64) {
  struct Shape {
    std::int64_t rows, columns;
  };
  for (const Shape shape : {Shape{16, 11}, {8, 40}, {12, 12}, {1, 7}, {5, 1}}) {
    const std::int64_t rows = shape.rows, columns = shape.columns;
    test::Memory memory;
    NewtonSchulz iteration;
    iteration.reserve(rows, columns);
    Tensor product, workspace;
    memory.lay_out([&](device::Arena& arena) {
      iteration.lay_out(arena);
      product = take(arena, DType::float32, {rows, columns});
      workspace = take(arena, DType::bf16,
                       {static_cast<std::int64_t>(ops::workspace_bytes(device::Kind::cpu, 8, {}) / sizeof(BFloat16))});
    });
    memory.backend->set_workspace(workspace);
    const Tensor x = iteration.input(rows, columns);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      product.as<float>()[i] = static_cast<float>(value_of(i, 1) / std::sqrt(static_cast<double>(rows * columns)));
    }
    memory.backend->run(ops::Copy{x, product});
    const auto read = [&] {
      Matrix numbers(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(columns)));
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        numbers[static_cast<std::size_t>(i / columns)][static_cast<std::size_t>(i % columns)] =
            from_bf16(x.as<BFloat16>()[i]);
      }
      return numbers;
    };
    const Matrix expected = newton_schulz(read());
    iteration.run(*memory.backend, x, product);
    const Matrix found = read();
    double squared_error = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (std::size_t j = 0; j < found[i].size(); ++j) {
        squared_error += std::pow(found[i][j] - expected[i][j], 2);
        squares += std::pow(expected[i][j], 2);
      }
    }
    const double error = std::sqrt(squared_error / squares);
    BOOST_TEST_MESSAGE(rows << " x " << columns << ": " << error);
    // A vector has one singular value, whose error nothing averages.
    BOOST_TEST(error < (std::min(rows, columns) == 1 ? 0.06 : 0.025), rows << " x " << columns);
  }
}

// Rounding to bf16 leaves errors of one or two hundredths in a direction, here and in torch. Directions of several
// steps may cancel, so they are compared with the length of one as well as with the way that the matrix has gone.
BOOST_AUTO_TEST_CASE(steps_are_those_of_torch) {
  const std::vector<Steps> all = steps_of_torch();
  BOOST_TEST(all.size() == 5U);
  for (const Steps& steps : all) {
    std::vector<parallel::Unit> units(3);
    parallel::Parameter matrix;
    matrix.name = "matrix";
    matrix.rows = steps.rows;
    matrix.columns = steps.columns;
    units[1].parameters = {matrix};
    Fixture f(units, steps.keys);
    for (int step = 1; step <= steps.num_steps; ++step) f.step(step, steps.keys.learning_rate);
    const auto n = static_cast<std::size_t>(steps.rows * steps.columns);
    BOOST_TEST_REQUIRE(steps.parameters.size() == n);
    const double unit_of_change = steps.keys.learning_rate * steps.rate_factor() * steps.num_steps;
    double worst = 0.0, squares = 0.0, change = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = steps.parameters[i];
      const double error = (f.storage.parameters().as<float>()[i] - expected) / unit_of_change;
      worst = std::max(worst, std::abs(error));
      squares += error * error;
      change += std::pow((expected - value_of(static_cast<std::int64_t>(i), 0)) / unit_of_change, 2);
      BOOST_TEST(std::abs(from_bf16(f.storage.compute_copy().as<BFloat16>()[i]) -
                          f.storage.parameters().as<float>()[i]) <= 0.005);
    }
    BOOST_TEST_MESSAGE(steps.rows << " x " << steps.columns << ": worst " << worst << ", relative "
                                  << std::sqrt(squares / change));
    BOOST_TEST(worst < 0.02);
    BOOST_TEST(std::sqrt(squares / change) < 0.1);
  }
}

BOOST_AUTO_TEST_CASE(adamw_steps_what_is_no_matrix_of_a_block) {
  config::Optimizer keys;
  keys.weight_decay = 0.3;
  Fixture adamw(test::sample_units(), keys);
  keys.optim = config::OptimizerKind::muon;
  Fixture muon(test::sample_units(), keys);
  for (int step = 1; step <= 3; ++step) {
    adamw.step(step, 0.01);
    muon.step(step, 0.01);
  }
  std::int64_t num_equal = 0, num_others = 0;
  test::for_each_element(
      muon.shard_map, [&](const parallel::Parameter& p, std::int64_t, std::int64_t, std::int64_t at) {
        const bool is_equal = muon.storage.parameters().as<float>()[at] == adamw.storage.parameters().as<float>()[at];
        const bool is_muons = !p.is_vector() && p.name != "table";
        num_others += is_muons ? 0 : 1;
        num_equal += is_equal ? 1 : 0;
        if (!is_muons) BOOST_TEST(is_equal, p.name << ' ' << at);
      });
  BOOST_TEST(num_others > 400);
  BOOST_TEST(num_equal < num_others + 10);  // the matrices went another way
}

BOOST_AUTO_TEST_CASE(windows_of_a_file_change_no_bit) {
  const sft::test::TemporaryFolder folder;
  config::Optimizer keys;
  keys.optim = config::OptimizerKind::muon;
  keys.weight_decay = 0.3;
  for (const DType moments : {DType::float32, DType::bf16}) {
    const auto run = [&](const Form& form) {
      Fixture f(test::sample_units(), keys, form, folder.path());
      for (int step = 1; step <= 4; ++step) f.step(step, 0.01);
      return f.bytes();
    };
    const auto expected = run({.state = {.moments = moments}});
    BOOST_TEST(expected.size() == 4U);
    for (const std::int64_t window : {64, 128, 1 << 20}) {
      for (const bool moves_moments : {false, true}) {
        Form form{.state = {.moments = moments, .window_elements = window}};
        if (moves_moments) form.state.moments_location = StateLocation::file;
        form.master = parallel::MasterWeights::in_file;
        form.state.master_location = StateLocation::file;
        BOOST_TEST((run(form) == expected), window << ' ' << moves_moments);
      }
    }
  }
}

// A momentum for each element of a matrix, two moments for each other element, and nothing else but alignment.
BOOST_AUTO_TEST_CASE(no_state_without_use) {
  config::Optimizer keys;
  keys.optim = config::OptimizerKind::muon;
  for (const mesh::Layout& layout : {mesh::Layout{}, mesh::Layout{{Axis::dp_shard, 3}, {Axis::tp, 2}}}) {
    std::map<std::string, std::vector<int>> times_owned;
    for (const WorldRank rank : layout.ranks()) {
      const parallel::ShardMap shard_map(test::sample_units(), mesh::Place(layout, rank));
      const auto optimizer = make_optimizer(keys, shard_map);
      for (const StateEntry& entry : optimizer->state()) {
        std::int64_t end = 0, held = 0;
        for (const parallel::StoredTensor& tensor : entry.layout->tensors(shard_map)) {
          const bool is_matrix = !tensor.parameter->is_vector() && tensor.parameter->name != "table";
          BOOST_TEST(is_matrix == (entry.name == "momentum_buffer"), entry.name << ' ' << tensor.parameter->name);
          times_owned[entry.name + '/' + tensor.parameter->name].resize(
              static_cast<std::size_t>(tensor.parameter->elements()));
        }
        for (const parallel::StoredPart& part : entry.layout->parts(shard_map)) {
          const parallel::LogicalRectangle& where = part.where;
          BOOST_TEST(where.shard_offset >= end);
          end = where.shard_offset + where.num_rows * where.num_columns;
          held += where.num_rows * where.num_columns;
          if (!part.is_owner) continue;
          const std::int64_t width = part.parameter->is_vector() ? 1 : part.parameter->columns;
          for (std::int64_t i = 0; i < where.num_rows * where.num_columns; ++i) {
            const std::int64_t row = where.row_begin + i / where.num_columns,
                               column = where.column_begin + i % where.num_columns;
            ++times_owned.at(entry.name + '/' + part.parameter->name)
                  .at(static_cast<std::size_t>(row * width + column));
          }
        }
        BOOST_TEST(entry.layout->num_elements(shard_map) >= end);
        BOOST_TEST(entry.layout->num_elements(shard_map) <= held + 4 * parallel::alignment_elements);
      }
    }
    BOOST_TEST(times_owned.size() == 3U + 2 * 5U);
    for (const auto& [name, times] : times_owned) {
      for (const int number : times) BOOST_TEST(number == 1, name);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_of_zeros_changes_nothing) {
  config::Optimizer keys;
  keys.optim = config::OptimizerKind::muon;
  Fixture f(test::sample_units(), keys);
  test::fill(f.storage.gradients(), 0.0F);
  step_all(*f.optimizer, f.storage, *f.memory.backend, 1, 0.1, 1.0);
  test::for_each_element(f.shard_map,
                         [&](const parallel::Parameter& p, std::int64_t i, std::int64_t j, std::int64_t at) {
                           const auto before = static_cast<float>(value_of(i * (p.is_vector() ? 1 : p.columns) + j, 0));
                           BOOST_TEST_REQUIRE(f.storage.parameters().as<float>()[at] == before);
                         });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::optim
