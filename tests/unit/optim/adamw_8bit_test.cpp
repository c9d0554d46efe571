// SPDX-License-Identifier: Apache-2.0
// AdamW with moments in 8 bits: against numbers of torch, and the same bits whatever the mesh cuts and wherever state
// lies.

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sft/core/block_codes.hpp"
#include "sft/optim/optimizer.hpp"
#include "sft/parallel/matrix_exchange.hpp"
#include "sft/parallel/shard_reduction.hpp"
#include "support/stored_part.hpp"
#include "support/temporary_folder.hpp"
#include "unit/optim/shard_fixture.hpp"

namespace sft::optim {

BOOST_AUTO_TEST_SUITE(adamw_8bit)

namespace {

using parallel::MasterWeights;
using parallel::TpSplit;

/// As in make_adamw_8bit.py.
double value_of(std::int64_t element, int round) {
  const auto i = static_cast<double>(element);
  return std::sin(0.7 * i + 0.013 * i * i + 2.3 * round);
}
double gradient_of(std::int64_t element, int step) {
  return value_of(element, step) * std::pow(10.0, -static_cast<double>(element / 100 % 4));
}

parallel::Parameter parameter_of(const std::string& name, std::int64_t rows, std::int64_t columns, TpSplit split,
                                 bool joins_previous = false) {
  parallel::Parameter parameter = sft::test::parameter(name, rows, columns, split);
  parameter.joins_previous = joins_previous;
  return parameter;
}

/// Each kind of split, of rows that are whole blocks and others, with blocks that begin anywhere in a unit.
std::vector<parallel::Unit> units_with_blocks() {
  std::vector<parallel::Unit> units(3);
  units[0].parameters = {parameter_of("table", 80, 64, TpSplit::rows)};
  units[1].parameters = {parameter_of("norm", 130, 0, TpSplit::none),
                         parameter_of("q", 48, 130, TpSplit::rows),
                         parameter_of("k", 40, 130, TpSplit::kv_rows, /*joins_previous=*/true),
                         parameter_of("o", 34, 512, TpSplit::columns),
                         parameter_of("up", 32, 256, TpSplit::rows),
                         parameter_of("down", 36, 120, TpSplit::columns),
                         parameter_of("wide", 18, 2048, TpSplit::columns)};
  units[2].parameters = {parameter_of("long", 4500, 0, TpSplit::none),
                         parameter_of("head", 83, 60, TpSplit::vocab_rows)};
  return units;
}

/// Remembers what would be reduced.
class Recorder final : public comm::Collectives {
 public:
  void run(const comm::Group&, const comm::Call& call, device::Stream&) override {
    const auto& reduction = std::get<comm::AllReduce>(call);
    BOOST_TEST_REQUIRE((reduction.op == comm::ReduceOp::max));
    reduced = reduction.inout;
  }
  device::Device::Block allocate_shared(const comm::Group&, comm::MemoryUse, std::size_t) override { return {}; }
  device::Device::Block allocate_own(const comm::Group&, std::size_t) override { return {}; }
  void set_staging(const comm::StagingMemory&) override {}

  Tensor reduced;
};

struct Kind {
  DType compute = DType::bf16;
  MasterWeights master = MasterWeights::in_memory;
  StateForm form = {};
};

config::Optimizer default_keys() {
  config::Optimizer keys;
  keys.optim = config::OptimizerKind::adamw_8bit;
  keys.learning_rate = 1e-2;
  keys.weight_decay = 0.3;
  return keys;
}

/// Parameters, gradients and state of one rank.
class Rank {
 public:
  Rank(std::vector<parallel::Unit> units, const mesh::Place& place, const Kind& kind, const std::string& folder,
       const config::Optimizer& keys)
      : keys_(keys),
        storage_(sft::test::stored_part(std::move(units), place, kind.compute, kind.master)),
        optimizer_(make_optimizer(keys_, shard_map_, kind.form)),
        groups_(mesh::Groups::planned(place, {})),
        reduction_(groups_, *memory_.backend, recorder_) {
    memory_.lay_out([&](device::Arena& arena) { storage_.lay_out(arena, arena, arena); });
    memory_.lay_out([&](device::Arena& arena) { optimizer_->lay_out(arena, arena); });
    optimizer_->open(*memory_.device, *memory_.stream, storage_, folder);
    optimizer_->use({matrices_, reduction_});
    std::vector<float> values(static_cast<std::size_t>(shard_map_.rank_shard_elements()));
    for_each_number([&](std::int64_t number, std::int64_t at) {
      values[static_cast<std::size_t>(at)] = static_cast<float>(value_of(number, 0));
    });
    const Tensor parameters(values.data(), DType::float32, {std::ssize(values)});
    if (optimizer_->master_in_file() != nullptr) {
      optimizer_->master_in_file()->write(0, parameters);
    } else {
      memory_.backend->run(ops::Copy{storage_.parameters(), parameters});
    }
    if (!storage_.compute_copy().empty()) memory_.backend->run(ops::Copy{storage_.compute_copy(), parameters});
    optimizer_->zero(*memory_.backend);
  }
  ~Rank() { optimizer_->drain(); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void begin(int step) {
    for_each_number([&](std::int64_t number, std::int64_t at) {
      storage_.gradients().as<float>()[at] = static_cast<float>(gradient_of(number, step));
    });
    optimizer_->begin_step(step, keys_.learning_rate, 0.5, Optimizer::Order::ascending);
    optimizer_->share(storage_, *memory_.backend);
  }
  void finish() {
    for (const parallel::UnitIndex unit : shard_map_.unit_indices()) {
      optimizer_->step_unit(unit, storage_, *memory_.backend);
    }
    optimizer_->end_step(storage_, *memory_.backend);
  }
  void step_alone(int step, double gradient_scale) {
    for_each_number([&](std::int64_t number, std::int64_t at) {
      storage_.gradients().as<float>()[at] = static_cast<float>(gradient_of(number, step));
    });
    step_all(*optimizer_, storage_, *memory_.backend, step, keys_.learning_rate, gradient_scale);
  }

  /// What this rank would send to a maximum over ranks; empty: nothing.
  [[nodiscard]] Tensor shared() const { return recorder_.reduced; }
  [[nodiscard]] const parallel::UnitStorage& storage() const { return storage_; }

  /// Adds what it owns of parameters and state to whole tensors, as bytes.
  using Whole = std::map<std::string, std::vector<std::string>>;
  void save_to(Whole& whole) {
    save_to(whole, {"model", storage_.parameters(), optimizer_->master_in_file()});
    if (!storage_.compute_copy().empty()) save_to(whole, {"copy", storage_.compute_copy()});
    for (const StateEntry& entry : optimizer_->state()) save_to(whole, entry);
  }
  /// Fills its parameters and state from such tensors.
  void load_from(const Whole& whole) {
    load_from(whole, {"model", storage_.parameters(), optimizer_->master_in_file()});
    for (const StateEntry& entry : optimizer_->state()) load_from(whole, entry);
  }

 private:
  static DType dtype_of(const StateEntry& entry) {
    return entry.in_file != nullptr ? entry.in_file->dtype() : entry.tensor.dtype;
  }
  /// Calls visit(tensor's name, its width, part).
  template <class Visit>
  void for_each_part(const StateEntry& entry, const Visit& visit) const {
    std::map<std::string, std::int64_t> widths;
    for (const parallel::StoredTensor& tensor : entry.layout->tensors(shard_map_)) {
      widths[tensor.parameter->name] = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    }
    std::int64_t end = 0;
    for (const parallel::StoredPart& part : entry.layout->parts(shard_map_)) {
      BOOST_TEST_REQUIRE(part.where.shard_offset >= end);  // in order, and apart
      end = part.where.shard_offset + part.where.num_rows * part.where.num_columns;
      visit(entry.name + "/" + part.parameter->name, widths.at(part.parameter->name), part);
    }
    BOOST_TEST_REQUIRE(entry.layout->num_elements(shard_map_) >= end);
  }
  void save_to(Whole& whole, const StateEntry& entry) const {
    const std::size_t size = size_of(dtype_of(entry));
    for (const parallel::StoredTensor& tensor : entry.layout->tensors(shard_map_)) {
      std::int64_t elements = 1;
      for (const std::int64_t dim : tensor.shape) elements *= dim;
      whole[entry.name + "/" + tensor.parameter->name].resize(static_cast<std::size_t>(elements));
    }
    for_each_part(entry, [&](const std::string& name, std::int64_t width, const parallel::StoredPart& part) {
      if (!part.is_owner) return;
      const std::int64_t count = part.where.num_rows * part.where.num_columns;
      std::string bytes(static_cast<std::size_t>(count) * size, '\0');
      if (entry.in_file != nullptr) {
        entry.in_file->read(part.where.shard_offset, Tensor(bytes.data(), dtype_of(entry), {count}));
      } else {
        std::memcpy(bytes.data(), entry.tensor.rows(part.where.shard_offset, count).data, bytes.size());
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = part.where.row_begin + i / part.where.num_columns;
        const std::int64_t column = part.where.column_begin + i % part.where.num_columns;
        std::string& element = whole.at(name).at(static_cast<std::size_t>(row * width + column));
        BOOST_TEST_REQUIRE(element.empty(), name << " is owned once");
        element = bytes.substr(static_cast<std::size_t>(i) * size, size);
      }
    });
  }
  void load_from(const Whole& whole, const StateEntry& entry) const {
    for_each_part(entry, [&](const std::string& name, std::int64_t width, const parallel::StoredPart& part) {
      const std::int64_t count = part.where.num_rows * part.where.num_columns;
      std::string bytes;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = part.where.row_begin + i / part.where.num_columns;
        const std::int64_t column = part.where.column_begin + i % part.where.num_columns;
        bytes += whole.at(name).at(static_cast<std::size_t>(row * width + column));
      }
      if (entry.in_file != nullptr) {
        entry.in_file->write(part.where.shard_offset, Tensor(bytes.data(), dtype_of(entry), {count}));
      } else {
        std::memcpy(entry.tensor.rows(part.where.shard_offset, count).data, bytes.data(), bytes.size());
      }
    });
  }
  template <class Visit>
  void for_each_number(const Visit& visit) const {
    test::for_each_element(shard_map_, [&](const parallel::Parameter& p, std::int64_t i, std::int64_t j,
                                           std::int64_t at) { visit(i * (p.is_vector() ? 1 : p.columns) + j, at); });
  }

  const config::Optimizer keys_;
  test::Memory memory_;
  parallel::UnitStorage storage_;
  const parallel::ShardMap& shard_map_ = storage_.shard_map();
  std::unique_ptr<Optimizer> optimizer_;
  mesh::Groups groups_;
  Recorder recorder_;
  parallel::ShardReduction reduction_;
  mesh::Place lone_place_;
  parallel::MatrixAssignment assignment_{shard_map_, lone_place_,
                                         [](int, const parallel::Parameter&) { return false; }};
  parallel::MatrixExchange matrices_{assignment_, storage_, groups_, *memory_.backend, recorder_};
};

/// The ranks of a mesh that together hold every parameter, in step.
class Mesh {
 public:
  Mesh(const mesh::Layout& layout, const Kind& kind = {}, const std::string& folder = "") {
    for (const WorldRank rank : layout.ranks()) {
      ranks_.push_back(
          std::make_unique<Rank>(units_with_blocks(), mesh::Place(layout, rank), kind, folder, default_keys()));
    }
  }
  void step(int number) {
    std::vector<float> largest;
    for (const auto& rank : ranks_) {
      rank->begin(number);
      const Tensor shared = rank->shared();
      largest.resize(static_cast<std::size_t>(shared.num_elements()));
      for (std::size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], shared.as<float>()[i]);
    }
    for (const auto& rank : ranks_) {
      BOOST_TEST_REQUIRE(rank->shared().num_elements() == std::ssize(largest));
      if (!largest.empty()) std::memcpy(rank->shared().data, largest.data(), largest.size() * sizeof(float));
      rank->finish();
    }
  }
  [[nodiscard]] Rank::Whole whole() const {
    Rank::Whole whole;
    for (const auto& rank : ranks_) rank->save_to(whole);
    for (const auto& [name, elements] : whole) {
      for (const std::string& element : elements) BOOST_TEST_REQUIRE(!element.empty(), name << " is owned");
    }
    return whole;
  }
  void load(const Rank::Whole& whole) const {
    for (const auto& rank : ranks_) rank->load_from(whole);
  }
  [[nodiscard]] std::size_t num_shared() const { return static_cast<std::size_t>(ranks_[0]->shared().num_elements()); }

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
};

void check_equal(const Rank::Whole& found, const Rank::Whole& expected) {
  BOOST_TEST_REQUIRE(found.size() == expected.size());
  for (const auto& [name, elements] : expected) BOOST_TEST((found.at(name) == elements), name);
}

/// Meshes that cut blocks in rows, in columns, in shards and in none.
const std::vector<mesh::Layout> layouts{{{Axis::dp_shard, 3}},
                                        {{Axis::tp, 2}},
                                        {{Axis::tp, 4}},
                                        {{Axis::dp_shard, 5}, {Axis::tp, 2}},
                                        {{Axis::dp_shard, 2}, {Axis::sp, 2}, {Axis::tp, 4}}};

/// The lines of adamw_8bit.txt.
std::vector<std::string> lines_of_torch() {
  std::ifstream file(SFT_SOURCE_DIR "/tests/unit/optim/adamw_8bit.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) lines.push_back(line);
  }
  return lines;
}

/// The numbers up to the next "|".
std::vector<double> numbers_of(std::istringstream& words) {
  std::vector<double> numbers;
  for (std::string word; words >> word && word != "|";) numbers.push_back(std::stod(word));
  return numbers;
}

}  // namespace

BOOST_AUTO_TEST_CASE(codes_are_those_of_bitsandbytes) {
  const std::vector<std::string> lines = lines_of_torch();
  for (const bool is_signed : {true, false}) {
    const BlockCode code = make_block_code(is_signed);
    std::istringstream words(lines.at(is_signed ? 0 : 1));
    const std::vector<double> expected = numbers_of(words);
    BOOST_TEST_REQUIRE(expected.size() == 256U);
    for (int i = 0; i < 256; ++i) {
      BOOST_TEST(code.values[i] == static_cast<float>(expected.at(static_cast<std::size_t>(i))), i);
      BOOST_TEST(nearest_code(code.borders, code.values[i]) == i);
    }
    BOOST_TEST(nearest_code(code.borders, -9.0F) == 0);
    BOOST_TEST(nearest_code(code.borders, 9.0F) == 255);
  }
  BOOST_TEST(make_block_code(true).values[signed_zero_code] == 0.0F);
}

// A number that lies half way between two codes, to rounding, may get the other one; a few steps later so may what
// follows from it.
BOOST_AUTO_TEST_CASE(steps_are_those_of_torch) {
  const std::vector<std::string> lines = lines_of_torch();
  BOOST_TEST(lines.size() == 5U);
  for (std::size_t l = 2; l < lines.size(); ++l) {
    std::istringstream words(lines[l]);
    const std::vector<double> head = numbers_of(words);
    config::Optimizer keys = default_keys();
    keys.adam_beta1 = head[2];
    keys.adam_beta2 = head[3];
    keys.learning_rate = head[4];
    keys.weight_decay = head[5];
    const auto rows = static_cast<std::int64_t>(head[0]), columns = static_cast<std::int64_t>(head[1]);
    std::vector<parallel::Unit> units(3);
    units[1].parameters = {parameter_of("x", rows, columns, TpSplit::none)};
    Rank rank(units, mesh::Place(), {}, "", keys);
    for (int step = 1; step <= static_cast<int>(head[7]); ++step) rank.step_alone(step, head[6]);
    Rank::Whole whole;
    rank.save_to(whole);
    const auto float_of = [](const std::string& bytes) {
      float x = 0;
      std::memcpy(&x, bytes.data(), sizeof x);
      return x;
    };
    const auto stride = static_cast<std::size_t>(head[8]);
    const std::vector<double> parameters = numbers_of(words);
    double worst = 0.0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      worst = std::max(worst, std::abs(float_of(whole.at("model/x").at(i * stride)) - parameters[i]));
    }
    BOOST_TEST(parameters.size() > 370U);
    BOOST_TEST(worst < 1e-3 * keys.learning_rate * head[7]);
    std::size_t num_other = 0, num_codes = 0;
    for (const char* name : {"exp_avg_codes/x", "exp_avg_sq_codes/x"}) {
      const std::vector<double> codes = numbers_of(words);
      BOOST_TEST_REQUIRE(codes.size() == parameters.size());
      num_codes += codes.size();
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const int found = static_cast<unsigned char>(whole.at(name).at(i * stride)[0]);
        BOOST_TEST(std::abs(found - codes[i]) <= 1);
        num_other += found == static_cast<int>(codes[i]) ? 0 : 1;
      }
    }
    BOOST_TEST(num_other * 200 <= num_codes);
    double worst_scale = 0.0;
    for (const char* name : {"exp_avg_absmax/x", "exp_avg_sq_absmax/x"}) {
      const std::vector<double> scales = numbers_of(words);
      BOOST_TEST_REQUIRE(scales.size() == whole.at(name).size());
      for (std::size_t i = 0; i < scales.size(); ++i) {
        worst_scale = std::max(worst_scale, std::abs(float_of(whole.at(name)[i]) - scales[i]) / scales[i]);
      }
    }
    BOOST_TEST(worst_scale < 1e-4);
    BOOST_TEST_MESSAGE(rows << " x " << columns << ": parameters " << worst << ", other codes " << num_other << " of "
                            << num_codes << ", scales " << worst_scale);
  }
}

BOOST_AUTO_TEST_CASE(small_parameters_and_the_embedding_have_float32_moments) {
  Mesh mesh({});
  mesh.step(1);
  const Rank::Whole whole = mesh.whole();
  for (const char* name : {"table", "norm"}) {
    BOOST_TEST(whole.at(std::string("exp_avg/") + name).front().size() == sizeof(float));
    BOOST_TEST(!whole.contains(std::string("exp_avg_codes/") + name));
  }
  for (const char* name : {"q", "k", "o", "up", "down", "wide", "long", "head"}) {
    BOOST_TEST(whole.at(std::string("exp_avg_sq_codes/") + name).front().size() == 1U);
    BOOST_TEST(!whole.contains(std::string("exp_avg_sq/") + name));
  }
  BOOST_TEST(whole.at("exp_avg_absmax/q").size() == 25U);  // 24 blocks and a half
}

BOOST_AUTO_TEST_CASE(any_mesh_has_the_bits_of_one_rank) {
  for (const bool is_pure_bf16 : {false, true}) {
    const Kind kind = is_pure_bf16 ? Kind{DType::bf16, MasterWeights::none, {.rounds_parameters = true}} : Kind{};
    Mesh alone({}, kind);
    for (int step = 1; step <= 4; ++step) alone.step(step);
    BOOST_TEST(alone.num_shared() == 0U);
    const Rank::Whole expected = alone.whole();
    for (const mesh::Layout& layout : layouts) {
      Mesh mesh(layout, kind);
      for (int step = 1; step <= 4; ++step) mesh.step(step);
      BOOST_TEST(mesh.num_shared() > 0U);
      BOOST_TEST_CONTEXT(layout.describe()) check_equal(mesh.whole(), expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(another_mesh_goes_on_to_the_bit) {
  Mesh alone({});
  for (int step = 1; step <= 2; ++step) alone.step(step);
  Rank::Whole saved = alone.whole();
  for (int step = 3; step <= 4; ++step) alone.step(step);
  for (const mesh::Layout& layout : layouts) {
    Mesh mesh(layout);
    mesh.load(saved);
    BOOST_TEST_CONTEXT(layout.describe()) {
      Rank::Whole again = mesh.whole();
      for (auto& [name, elements] : saved) {
        if (!name.starts_with("copy/")) BOOST_TEST((again.at(name) == elements), name);
      }
      for (int step = 3; step <= 4; ++step) mesh.step(step);
      check_equal(mesh.whole(), alone.whole());
    }
  }
}

BOOST_AUTO_TEST_CASE(state_that_lies_elsewhere_has_the_same_bits) {
  const sft::test::TemporaryFolder folder;
  struct Places {
    MasterWeights master;
    StateLocation moments_location, master_location;
  };
  for (const mesh::Layout& layout : {mesh::Layout{}, mesh::Layout{{Axis::dp_shard, 3}, {Axis::tp, 2}}}) {
    Mesh in_place(layout);
    for (int step = 1; step <= 2; ++step) in_place.step(step);
    for (const Places& places : {Places{MasterWeights::in_memory, StateLocation::file, StateLocation::device},
                                 {MasterWeights::in_file, StateLocation::file, StateLocation::file},
                                 {MasterWeights::in_memory, StateLocation::host, StateLocation::host},
                                 {MasterWeights::in_file, StateLocation::host, StateLocation::file}}) {
      for (const std::int64_t window_elements : {std::int64_t{320}, std::int64_t{1} << 20}) {
        Kind kind{.compute = DType::bf16, .master = places.master};
        kind.form.moments_location = places.moments_location;
        kind.form.master_location = places.master_location;
        kind.form.window_elements = window_elements;
        Mesh elsewhere(layout, kind, folder.path());
        for (int step = 1; step <= 2; ++step) elsewhere.step(step);
        BOOST_TEST_CONTEXT(layout.describe() << ", windows of " << window_elements) {
          check_equal(elsewhere.whole(), in_place.whole());
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_of_zeros_leaves_moments_of_zero) {
  std::vector<parallel::Unit> units(3);
  units[1].parameters = {parameter_of("x", 64, 70, TpSplit::none)};
  config::Optimizer keys = default_keys();
  keys.weight_decay = 0.0;
  Rank rank(units, mesh::Place(), {}, "", keys);
  Rank::Whole before, after;
  rank.save_to(before);
  test::fill(rank.storage().gradients(), 0.0F);
  rank.begin(1);
  test::fill(rank.storage().gradients(), 0.0F);
  rank.finish();
  rank.save_to(after);
  BOOST_TEST((after.at("model/x") == before.at("model/x")));
  for (const char* name : {"exp_avg_absmax/x", "exp_avg_sq_absmax/x"}) {
    BOOST_TEST((after.at(name) == std::vector<std::string>(18, std::string(sizeof(float), '\0'))));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::optim
