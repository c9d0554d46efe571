// SPDX-License-Identifier: Apache-2.0
// State in a file, or in a memory from which it is copied to where the ops work, steps as state that lies there does,
// bit for bit, also where windows are smaller than units and fewer than three of many are in buffers; and what is bf16
// rounds alike on any mesh.

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <tuple>

#include "sft/optim/optimizer.hpp"
#include "support/error_text.hpp"
#include "support/stored_part.hpp"
#include "support/temporary_folder.hpp"
#include "unit/optim/shard_fixture.hpp"

namespace sft::optim {

BOOST_AUTO_TEST_SUITE(offload)

namespace {

using parallel::MasterWeights;

/// How a test keeps parameters and state.
struct Kind {
  const char* name;
  DType compute;
  MasterWeights master;
  StateForm form;
  config::OptimizerKind optim = config::OptimizerKind::adamw_torch;
};

constexpr std::int64_t small_window = 64;

double value_of(const parallel::Parameter& p, std::int64_t row, std::int64_t column, int round) {
  return std::sin(0.7 * static_cast<double>(row * 1000 + column) + static_cast<double>(p.name.size()) + 2.3 * round);
}

/// Parameters, gradients and state of one rank.
class Rank {
 public:
  Rank(const Kind& kind, const mesh::Place& place, const std::string& folder)
      : kind_(kind),
        storage_(sft::test::stored_part(test::sample_units(), place, kind.compute, kind.master)),
        optimizer_(make_optimizer(keys_, shard_map_, kind.form)) {
    memory_.lay_out([&](device::Arena& arena) { storage_.lay_out(arena, arena, arena); });
    memory_.lay_out([&](device::Arena& arena) { optimizer_->lay_out(arena, arena); });
    optimizer_->open(*memory_.device, *memory_.stream, storage_, folder);
    std::vector<float> parameters(static_cast<std::size_t>(shard_map_.rank_shard_elements()));
    test::for_each_element(shard_map_,
                           [&](const parallel::Parameter& p, std::int64_t row, std::int64_t column, std::int64_t at) {
                             parameters[static_cast<std::size_t>(at)] = static_cast<float>(value_of(p, row, column, 0));
                           });
    const Tensor values(parameters.data(), DType::float32, {shard_map_.rank_shard_elements()});
    ops::Backend& ops = *memory_.backend;
    if (optimizer_->master_in_file() != nullptr) {
      optimizer_->master_in_file()->write(0, values);
    } else {
      ops.run(ops::Copy{storage_.parameters(), values});
    }
    if (!storage_.compute_copy().empty()) ops.run(ops::Copy{storage_.compute_copy(), values});
    optimizer_->zero(ops);
  }

  void step(int step) {
    test::for_each_element(shard_map_,
                           [&](const parallel::Parameter& p, std::int64_t row, std::int64_t column, std::int64_t at) {
                             storage_.gradients().as<float>()[at] = static_cast<float>(value_of(p, row, column, step));
                           });
    if (step % 2 == 0) optimizer_->read_ahead(Optimizer::Order::ascending);  // it need not be called
    step_all(*optimizer_, storage_, *memory_.backend, step, 0.02 / step, 0.5);
  }

  /// Parameters, copy and moments, their bits as they are stored.
  [[nodiscard]] std::vector<std::string> bits() {
    std::vector<std::string> all = {bits_of(optimizer_->master_in_file(), storage_.parameters()),
                                    bits_of(nullptr, storage_.compute_copy())};
    for (const StateEntry& entry : optimizer_->state()) all.push_back(bits_of(entry.in_file, entry.tensor));
    return all;
  }

  /// The same bits by parameter, row and column, of parameters and state in bf16.
  using Elements = std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::vector<std::uint16_t>>;
  void add_to(Elements& elements) const {
    test::for_each_element(shard_map_,
                           [&](const parallel::Parameter& p, std::int64_t row, std::int64_t column, std::int64_t at) {
                             std::vector<std::uint16_t> found;
                             found.push_back(storage_.parameters().as<std::uint16_t>()[at]);
                             for (const StateEntry& entry : optimizer_->state()) {
                               found.push_back(entry.tensor.as<std::uint16_t>()[at]);
                             }
                             const auto [entry, is_new] = elements.try_emplace({p.name, row, column}, found);
                             if (!is_new) BOOST_TEST(entry->second == found, p.name);  // a replica
                           });
  }

  [[nodiscard]] std::uint64_t file_bytes() const { return optimizer_->file_bytes(); }

 private:
  static std::string bits_of(transfer::OffloadedShard* in_file, const Tensor& in_memory) {
    if (in_file == nullptr) return {static_cast<const char*>(in_memory.data), in_memory.size_bytes()};
    std::string bytes(static_cast<std::size_t>(in_file->num_elements()) * size_of(in_file->dtype()), '\0');
    // In odd parts, as checkpoints ask for them.
    for (std::int64_t begin = 0; begin < in_file->num_elements(); begin += 150) {
      const std::int64_t count = std::min<std::int64_t>(150, in_file->num_elements() - begin);
      void* to = bytes.data() + static_cast<std::size_t>(begin) * size_of(in_file->dtype());
      in_file->read(begin, Tensor(to, in_file->dtype(), {count}));
    }
    return bytes;
  }

  static config::Optimizer make_keys(config::OptimizerKind optim) {
    config::Optimizer keys;
    keys.optim = optim;
    keys.weight_decay = 0.3;
    return keys;
  }

  const Kind kind_;
  const config::Optimizer keys_ = make_keys(kind_.optim);
  test::Memory memory_;
  parallel::UnitStorage storage_;
  const parallel::ShardMap& shard_map_ = storage_.shard_map();
  std::unique_ptr<Optimizer> optimizer_;
};

/// The same with what lies in files at `moments` and `master`.
Kind with_places(Kind kind, StateLocation moments, StateLocation master) {
  if (kind.form.moments_location == StateLocation::file) kind.form.moments_location = moments;
  if (kind.form.master_location == StateLocation::file) kind.form.master_location = master;
  if (kind.master == MasterWeights::in_file && master != StateLocation::file) kind.master = MasterWeights::in_memory;
  return kind;
}

const std::vector<Kind> kinds_in_files{
    {"moments, float32", DType::float32, MasterWeights::in_memory, {.moments_location = StateLocation::file}},
    {"moments, bf16", DType::bf16, MasterWeights::in_memory, {.moments_location = StateLocation::file}},
    {"master weights", DType::bf16, MasterWeights::in_file, {.master_location = StateLocation::file}},
    {"moments and master weights",
     DType::bf16,
     MasterWeights::in_file,
     {.moments_location = StateLocation::file, .master_location = StateLocation::file}},
    {"bf16 moments and master weights",
     DType::bf16,
     MasterWeights::in_file,
     {.moments = DType::bf16, .moments_location = StateLocation::file, .master_location = StateLocation::file}},
    {"bf16 moments of bf16 weights",
     DType::bf16,
     MasterWeights::none,
     {.moments = DType::bf16, .moments_location = StateLocation::file, .rounds_parameters = true}},
};

}  // namespace

BOOST_AUTO_TEST_CASE(state_that_lies_elsewhere_steps_as_state_in_place) {
  const sft::test::TemporaryFolder folder;
  const std::tuple<StateLocation, StateLocation> places[] = {{StateLocation::file, StateLocation::file},
                                                             {StateLocation::host, StateLocation::host},
                                                             {StateLocation::host, StateLocation::file},
                                                             {StateLocation::file, StateLocation::host}};
  std::vector<Kind> kinds = kinds_in_files;
  for (const config::OptimizerKind optim : {config::OptimizerKind::lion, config::OptimizerKind::sgd}) {
    for (Kind kind : {kinds_in_files[3], kinds_in_files[5]}) {
      kind.optim = optim;
      kinds.push_back(kind);
    }
  }
  for (const Kind& kind : kinds) {
    for (const auto& [moments, master] : places) {
      for (const std::int64_t window_elements : {small_window, 2 * small_window, std::int64_t{1} << 20}) {
        Kind elsewhere = with_places(kind, moments, master);
        elsewhere.form.window_elements = window_elements;
        const bool has_state = kind.optim != config::OptimizerKind::sgd;
        const bool has_file = (has_state && elsewhere.form.moments_location == StateLocation::file) ||
                              elsewhere.form.master_location == StateLocation::file;
        for (const WorldRank rank : {WorldRank(0), WorldRank(3)}) {
          const mesh::Place place({{Axis::dp_shard, 3}, {Axis::tp, 2}}, rank);
          Rank offloaded(elsewhere, place, folder.path());
          Rank without(with_places(kind, StateLocation::device, StateLocation::device), place, "");
          BOOST_TEST((offloaded.file_bytes() > 0U) == has_file);
          BOOST_TEST(without.file_bytes() == 0U);
          for (int step = 1; step <= 5; ++step) {
            offloaded.step(step);
            without.step(step);
            if (step % 2 == 0) continue;
            BOOST_TEST((offloaded.bits() == without.bits()),
                       kind.name << ", windows of " << window_elements << ", rank " << rank << ", step " << step);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_element_rounds_alike_on_any_mesh) {
  Kind kind{"bf16", DType::bf16, MasterWeights::none, {.moments = DType::bf16, .rounds_parameters = true}};
  const auto train_on = [&](const mesh::Layout& layout) {
    Rank::Elements elements;
    for (const WorldRank r : layout.ranks()) {
      Rank rank(kind, {layout, r}, "");
      for (int step = 1; step <= 4; ++step) rank.step(step);
      rank.add_to(elements);
    }
    return elements;
  };
  for (const config::OptimizerKind optim :
       {config::OptimizerKind::adamw_torch, config::OptimizerKind::lion, config::OptimizerKind::sgd}) {
    kind.optim = optim;
    const Rank::Elements alone = train_on({});
    BOOST_TEST(alone.size() > 800U);
    for (const mesh::Layout& layout : {mesh::Layout{{Axis::dp_shard, 5}}, mesh::Layout{{Axis::tp, 4}},
                                       mesh::Layout{{Axis::dp_shard, 3}, {Axis::sp, 2}, {Axis::tp, 2}}}) {
      BOOST_TEST((train_on(layout) == alone), layout.describe());
    }
  }
}

BOOST_AUTO_TEST_CASE(bf16_moments_follow_those_of_float32) {
  const mesh::Place place;
  const auto final_parameters = [&](DType moments) {
    Rank rank({"", DType::float32, MasterWeights::in_memory, {.moments = moments}}, place, "");
    for (int step = 1; step <= 40; ++step) rank.step(step);
    const std::string bytes = rank.bits().front();
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  const std::vector<float> exact = final_parameters(DType::float32), rounded = final_parameters(DType::bf16);
  double distance = 0.0, sum = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    distance += std::pow(exact[i] - rounded[i], 2);
    sum += std::pow(exact[i], 2);
  }
  BOOST_TEST(distance > 0.0);
  BOOST_TEST(std::sqrt(distance / sum) < 1e-3);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_used_is_an_error_before_the_first_step) {
  const Kind& kind = kinds_in_files.front();
  BOOST_TEST(sft::test::mentions(sft::test::data_error_of([&] { Rank(kind, mesh::Place(), "/proc/no-such-folder"); }),
                                 {"/proc/no-such-folder"}));
}

BOOST_AUTO_TEST_CASE(what_lies_in_memory_is_a_few_windows) {
  const parallel::ShardMap shard_map(test::sample_units(), mesh::Place());
  const config::Optimizer optimizer;
  const auto adamw =
      make_optimizer(optimizer, shard_map, {.moments_location = StateLocation::file, .window_elements = small_window});
  device::Arena arena, pinned;
  adamw->lay_out(arena, pinned);
  BOOST_TEST(arena.used_bytes() == 0U);
  constexpr std::size_t block = 4096;
  BOOST_TEST(pinned.used_bytes() == 3 * 2 * block + block - device::Arena::alignment_bytes);
  BOOST_TEST(adamw->state().at(0).tensor.empty());
  const auto num_windows = static_cast<std::uint64_t>(shard_map.rank_shard_elements() / small_window);
  BOOST_TEST(adamw->file_bytes() == num_windows * 2 * block);

  const auto in_host =
      make_optimizer(optimizer, shard_map, {.moments_location = StateLocation::host, .window_elements = small_window});
  device::Arena windows, host;
  in_host->lay_out(windows, host);
  BOOST_TEST(windows.used_bytes() == pinned.used_bytes());
  BOOST_TEST(host.used_bytes() == 2 * static_cast<std::size_t>(shard_map.rank_shard_elements()) * sizeof(float));
  BOOST_TEST(in_host->file_bytes() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::optim
