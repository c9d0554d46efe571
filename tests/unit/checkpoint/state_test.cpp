// SPDX-License-Identifier: Apache-2.0
// Filling entries from a source and emptying them into a sink, without files: every number of the fakes is known.

#include "sft/checkpoint/state.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "sft/core/dtype.hpp"
#include "sft/device/factory.hpp"
#include "support/error_text.hpp"
#include "support/layout.hpp"
#include "support/parameter.hpp"

namespace {

using namespace sft;
using checkpoint::Entry;
using checkpoint::State;
using parallel::TpSplit;
using test::data_error_of;
using test::mentions;
using test::parameter;

// What is not told how to refresh is no state: a loader cannot forget it.
static_assert(!std::is_default_constructible_v<State>);
static_assert(!std::is_constructible_v<State, std::vector<Entry>>);

/// Every kind of split, in sizes that no shard boundary meets at a row's end.
std::vector<parallel::Unit> make_units(std::int64_t columns = 7) {
  std::vector<parallel::Unit> units(2);
  units[0].parameters = {parameter("table", 24, columns, TpSplit::rows)};
  units[1].parameters = {parameter("q", 16, 5, TpSplit::rows), parameter("k", 8, 5, TpSplit::kv_rows),
                         parameter("o", 9, 16, TpSplit::columns), parameter("norm", 5, 0, TpSplit::none)};
  return units;
}

/// Parameters that only a part of the model has.
std::vector<parallel::Unit> make_adapter_units() {
  std::vector<parallel::Unit> units(1);
  units[0].parameters = {parameter("q.lora_A", 3, 7, TpSplit::none)};
  return units;
}

std::vector<mesh::Place> places_of(const mesh::Layout& layout) {
  std::vector<mesh::Place> places;
  for (const WorldRank rank : layout.ranks()) places.emplace_back(layout, rank);
  return places;
}

const test::Layout layouts[] = {{1, 1, 1, 1}, {1, 3, 1, 1}, {2, 2, 1, 2}, {1, 2, 2, 4}, {1, 16, 1, 1}};

/// Element `index` of the logical tensor `name`; float32 holds it exactly.
float value_of(const std::string& name, std::int64_t index) {
  float sum = 0.0F;
  for (const char c : name) sum += static_cast<float>(c);
  return 4096.0F * sum + static_cast<float>(index % 4096) + 0.5F;
}

/// Calls visit(element of the logical tensor, element of `where`) for all of a rectangle.
template <class Visit>
void for_each_element(const io::Rectangle& where, std::int64_t num_columns, const Visit& visit) {
  for (std::int64_t row = 0; row < where.num_rows; ++row) {
    for (std::int64_t column = 0; column < where.num_columns; ++column) {
      visit((where.row_begin + row) * num_columns + where.column_begin + column, row * where.num_columns + column);
    }
  }
}

std::int64_t columns_of(const std::vector<std::int64_t>& shape) { return shape.size() == 2 ? shape[1] : 1; }

/// Whole tensors of value_of.
class FakeSource final : public io::TensorSource {
 public:
  void add(const std::string& entry, const std::vector<parallel::Unit>& units) {
    for (const parallel::Unit& unit : units) {
      for (const parallel::Parameter& p : unit.parameters) {
        shapes[entry + "/" + p.name] = p.is_vector() ? std::vector{p.rows} : std::vector{p.rows, p.columns};
      }
    }
  }

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::vector<io::TensorInfo> tensors() const override {
    std::vector<io::TensorInfo> result;
    for (const auto& [name, shape] : shapes) result.push_back({name, shape, DType::float32});
    return result;
  }
  void read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const override {
    largest_read = std::max(largest_read, where.num_elements());
    for_each_element(where, columns_of(shapes.at(name)), [&](std::int64_t logical, std::int64_t local) {
      const auto found = replaced.find(name);
      const bool is_replaced = found != replaced.end() && found->second.first == logical;
      const float value = is_replaced ? found->second.second : value_of(name, logical);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      if (dtype == DType::bf16) {
        static_cast<BFloat16*>(values)[local] = {static_cast<std::uint16_t>(bits >> 16U)};
      } else {
        static_cast<float*>(values)[local] = value;
      }
    });
  }

  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::map<std::string, std::pair<std::int64_t, float>> replaced;  ///< an element of a tensor, and what stands there
  mutable std::int64_t largest_read = 0;

 private:
  std::string path_ = "fake.file";
};

/// Keeps whole tensors and counts how often each element came.
class FakeSink final : public io::TensorSink {
 public:
  explicit FakeSink(const FakeSource& like) : like_(like) {
    for (const io::TensorInfo& tensor : like.tensors()) {
      counts[tensor.name].resize(static_cast<std::size_t>(tensor.num_elements()));
    }
  }

  void write(const std::string& name, const io::Rectangle& where, DType dtype, const void* values) override {
    BOOST_TEST_REQUIRE((dtype == DType::float32));
    for_each_element(where, columns_of(like_.shapes.at(name)), [&](std::int64_t logical, std::int64_t local) {
      ++counts.at(name)[static_cast<std::size_t>(logical)];
      is_right &= static_cast<const float*>(values)[local] == value_of(name, logical);
    });
  }

  std::map<std::string, std::vector<int>> counts;
  bool is_right = true;

 private:
  const FakeSource& like_;
};

/// One entry's memory, NaN at first.
struct Memory {
  Memory(std::vector<parallel::Unit> units, const mesh::Place& place)
      : shard_map(std::move(units), place),
        values(static_cast<std::size_t>(shard_map.rank_shard_elements()), std::numeric_limits<float>::quiet_NaN()) {}

  [[nodiscard]] Entry entry(const std::string& name) {
    return {name, &shard_map, Tensor(values.data(), DType::float32, {std::ssize(values)})};
  }
  /// Whether all pieces are those of the entry `name`, and all between them is zero.
  [[nodiscard]] bool holds(const std::string& name) const {
    std::vector<float> expected(values.size(), 0.0F);
    for (const parallel::Piece& piece : shard_map.pieces()) {
      const std::int64_t num_columns = piece.parameter->is_vector() ? 1 : piece.parameter->columns;
      for (const parallel::LogicalRectangle& r : parallel::ShardMap::rectangles(piece)) {
        const io::Rectangle where = {r.row_begin, r.num_rows, r.column_begin, r.num_columns};
        for_each_element(where, num_columns, [&](std::int64_t logical, std::int64_t local) {
          expected[static_cast<std::size_t>(r.shard_offset + local)] =
              value_of(name + "/" + piece.parameter->name, logical);
        });
      }
    }
    return expected == values;
  }

  parallel::ShardMap shard_map;
  std::vector<float> values;
};

struct Machine {
  std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
  std::unique_ptr<device::Stream> stream = device->make_stream();
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(state, Machine)

BOOST_AUTO_TEST_CASE(every_rank_gets_its_pieces_and_then_refreshes) {
  FakeSource source;
  source.add("model", make_units());
  source.add("adapter", make_adapter_units());
  for (const mesh::Layout& layout : layouts) {
    for (const mesh::Place& place : places_of(layout)) {
      Memory model(make_units(), place);
      Memory adapter(make_adapter_units(), place);  // cut in another way
      int num_refreshes = 0;
      bool was_filled = false;
      const State state({model.entry("model"), adapter.entry("adapter")}, [&] {
        ++num_refreshes;
        was_filled = model.holds("model") && adapter.holds("adapter");
      });
      checkpoint::load_entries(source, state, *device, *stream);
      BOOST_TEST_CONTEXT(layout.describe() << ", rank " << place.rank()) {
        BOOST_TEST(num_refreshes == 1);
        BOOST_TEST(was_filled);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(all_ranks_together_write_every_element_once) {
  FakeSource source;
  source.add("model", make_units());
  source.add("exp_avg", make_units());
  for (const mesh::Layout& layout : layouts) {
    FakeSink sink(source);
    for (const mesh::Place& place : places_of(layout)) {
      Memory model(make_units(), place);
      Memory exp_avg(make_units(), place);
      const State state({model.entry("model"), exp_avg.entry("exp_avg")}, [] {});
      checkpoint::load_entries(source, state, *device, *stream);
      checkpoint::save_entries(state, sink, *device, *stream);
    }
    BOOST_TEST(sink.is_right, layout.describe());
    for (const auto& [name, counts] : sink.counts) {
      BOOST_TEST(std::ranges::all_of(counts, [](int count) { return count == 1; }), layout.describe() << " " << name);
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_longer_than_the_staging_memory_pass_in_parts, *boost::unit_test::label("long")) {
  constexpr std::int64_t num_columns = 300'001;
  FakeSource source;
  source.add("model", make_units(num_columns));
  FakeSink sink(source);
  Memory model(make_units(num_columns), mesh::Place());
  const State state({model.entry("model")}, [] {});
  checkpoint::load_entries(source, state, *device, *stream);
  BOOST_TEST(model.holds("model"));
  BOOST_TEST(source.largest_read < num_columns);
  checkpoint::save_entries(state, sink, *device, *stream);
  BOOST_TEST(sink.is_right);
}

BOOST_AUTO_TEST_CASE(an_entry_of_another_dtype_is_read_as_such) {
  FakeSource source;
  source.add("model", make_units());
  const parallel::ShardMap shard_map(make_units(), mesh::Place());
  std::vector<BFloat16> values(static_cast<std::size_t>(shard_map.rank_shard_elements()), BFloat16{0xffffU});
  const State state({{"model", &shard_map, Tensor(values.data(), DType::bf16, {std::ssize(values)})}}, [] {});
  checkpoint::load_entries(source, state, *device, *stream);
  BOOST_TEST(values.front().bits == bf16_of_float32(value_of("model/table", 0)));  // rounded to the nearest
  BOOST_TEST(values.back().bits == 0U);                                            // padding
}

BOOST_AUTO_TEST_CASE(weights_that_are_no_finite_numbers_are_refused_by_name) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const std::string entry : {"model", "adapter", "exp_avg"}) {
      FakeSource source;
      source.add(entry, make_units());
      source.replaced[entry + "/o"] = {37, bad};
      Memory memory(make_units(), mesh::Place());
      const State state({memory.entry(entry)}, [] {});
      const std::string error = data_error_of([&] { checkpoint::load_entries(source, state, *device, *stream); });
      if (entry == "exp_avg") {  // a moment may overflow in a run that goes on all the same
        BOOST_TEST(error.empty(), error);
      } else {
        BOOST_TEST(mentions(error, {"o of fake.file holds ", std::isnan(bad) ? "NaN" : "Inf", "(2, 5)"}), error);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_named) {
  const auto error_of = [](const FakeSource& source) {
    Memory model(make_units(), mesh::Place());
    return data_error_of([&] { checkpoint::check_entries(source, {model.entry("model")}); });
  };
  FakeSource source;
  source.add("model", make_units());
  source.add("adapter", make_adapter_units());  // not asked for
  BOOST_TEST(error_of(source).empty());

  FakeSource missing = source;
  missing.shapes.erase("model/norm");
  BOOST_TEST(mentions(error_of(missing), {"fake.file", "it has no model/norm"}));

  FakeSource extra = source;
  extra.shapes["model/lm_head.weight"] = {1, 1};
  BOOST_TEST(mentions(error_of(extra), {"fake.file", "the model has no lm_head.weight"}));

  FakeSource wrong = source;
  wrong.shapes["model/q"] = {16, 6};
  BOOST_TEST(mentions(error_of(wrong), {"fake.file", "model/q has shape (16, 6), the model's has (16, 5)"}));
  wrong.shapes["model/q"] = {80};
  BOOST_TEST(mentions(error_of(wrong), {"model/q has shape (80), the model's has (16, 5)"}));
}

BOOST_AUTO_TEST_CASE(a_state_is_whole) {
  Memory model(make_units(), mesh::Place());
  const Entry entry = model.entry("model");
  Entry cut = entry;
  cut.tensor = cut.tensor.rows(0, 64);
  BOOST_CHECK_THROW(State({}, [] {}), std::logic_error);
  BOOST_CHECK_THROW(State({entry}, nullptr), std::logic_error);
  BOOST_CHECK_THROW(State({entry, entry}, [] {}), std::logic_error);
  BOOST_CHECK_THROW(State({cut}, [] {}), std::logic_error);
  const State state({entry}, [] {});
  BOOST_TEST(state.tensor("model").data == entry.tensor.data);
  BOOST_CHECK_THROW((void)state.tensor("exp_avg"), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()
