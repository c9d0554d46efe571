// SPDX-License-Identifier: Apache-2.0
// What gathers bring as 8-bit floats is what rounding the gathered numbers gives, code by code and scale by scale.

#include "sft/parallel/fp8_gathers.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "sft/parallel/sharded_units.hpp"
#include "support/mesh.hpp"
#include "support/mpi_session.hpp"
#include "support/parameter.hpp"

namespace sft::parallel::fp8_gathers_test {

namespace {

using test::parameter;
using test::session;

constexpr int num_units = 3;
const std::vector<test::Layout> layouts{{1, 2, 1, 1}, {1, 1, 2, 1}, {1, 4, 1, 1},
                                        {1, 2, 1, 2}, {2, 2, 1, 1}, {1, 2, 2, 2}};

Parameter joined(Parameter p) {
  p.joins_previous = true;
  return p;
}

Parameter of_expert(Parameter p, int expert, bool joins) {
  p.num_experts = 3;
  p.expert = expert;
  p.joins_previous = joins;
  return p;
}

/// Codes that gathers send, or none: numbers.
using Sent = std::optional<ops::Fp8Tiles>;

/// Matrices of several parameters, of odd sizes, and so small that some ranks have nothing of them; one of several
/// blocks, which borders of shards cut; and experts, whose matrices begin anywhere.
IndexedVector<PartIndex, PartUnits> sample_parts(Sent in_fp8) {
  std::vector<Unit> dense(num_units), experts(num_units);
  for (int u = 0; u < num_units; ++u) {
    dense[u].parameters = {parameter("q", 32 + 16 * u, 26, TpSplit::rows),
                           joined(parameter("k", 8, 26, TpSplit::kv_rows)), parameter("o", 3, 2, TpSplit::columns),
                           parameter("up", 40, 24, TpSplit::none), parameter("wide", 270, 150, TpSplit::rows)};
    for (int e = 0; e < 3; ++e) {
      experts[u].parameters.push_back(of_expert(parameter("gate", 6, 7, TpSplit::rows), e, e > 0));
      experts[u].parameters.push_back(of_expert(parameter("up", 6, 7, TpSplit::rows), e, true));
    }
    for (int e = 0; e < 3; ++e)
      experts[u].parameters.push_back(of_expert(parameter("down", 7, 10, TpSplit::columns), e, e > 0));
  }
  experts[1].parameters.clear();
  return {{.units = std::move(dense), .in_fp8 = in_fp8},
          {.units = std::move(experts), .of_experts = true, .in_fp8 = in_fp8}};
}

/// What products read as one, and how many matrices that is.
struct Group {
  ParameterGroup of;
  int num_matrices;
};

std::vector<Group> groups_of(UnitIndex unit) {
  constexpr PartIndex dense{0}, experts{1};
  std::vector<Group> groups{
      {{unit, dense, 0, 2}, 1}, {{unit, dense, 2, 1}, 1}, {{unit, dense, 3, 1}, 1}, {{unit, dense, 4, 1}, 1}};
  if (unit != 1) groups.insert(groups.end(), {{{unit, experts, 0, 6}, 3}, {{unit, experts, 6, 3}, 3}});
  return groups;
}

/// Of an element of a logical tensor: numbers of all sizes.
float value_of(UnitIndex unit, const Parameter& p, std::int64_t row, std::int64_t column, int turn) {
  const auto mixed =
      static_cast<std::uint32_t>((row * 131 + column) * 2654435761U + unit * 97 + p.name[0] * 7 + p.expert);
  const int exponent = static_cast<int>(mixed >> 20U) % 24 - 16 + 3 * (turn % 2);
  return std::ldexp(static_cast<float>(mixed & 0xffffU) - 32768.0F, exponent - 15);
}

/// Units over a mesh, with all that they stand on.
class Stand {
 public:
  Stand(const test::Mesh& mesh, Sent in_fp8, DType compute)
      : policy_{.parameters = true, .gradients = true, .optimizer_state = true},
        parts_(storage_of(make_parts(sample_parts(in_fp8), mesh.place, policy_, compute))),
        slots_(num_units, policy_, false),
        buffers_(parts_, policy_, slots_),
        collectives_(comm::make_collectives(*device_, mesh.groups.of_tensors())) {
    device::Arena sizing;
    lay_out(sizing);
    arena_ = device::Arena(*device_, ledger_, device::Label::workspace, sizing.used_bytes());
    lay_out(arena_);
    collectives_->set_staging(staging_);
    units_ = std::make_unique<ShardedUnits>(parts_, buffers_, policy_, slots_, mesh.groups, *device_, *backend_,
                                            *collectives_, *comm_stream_, *gather_stream_);
  }

  /// In the second turn larger ones. `spoilt`: with a NaN in the last matrix of the last unit.
  void set_parameters(int turn, bool spoilt) {
    for (UnitStorage& stored : parts_) {
      for (const Piece& piece : stored.shard_map().pieces()) {
        UnitIndex unit;
        for (const UnitIndex later : stored.shard_map().unit_indices()) {
          if (stored.shard_map().unit(later).shard_offset <= piece.shard_offset) unit = later;
        }
        for (const LogicalRectangle& r : ShardMap::rectangles(piece)) {
          for (std::int64_t i = 0; i < r.num_rows * r.num_columns; ++i) {
            const std::int64_t row = r.row_begin + i / r.num_columns, column = r.column_begin + i % r.num_columns;
            const bool is_bad = spoilt && unit == num_units - 1 && piece.parameter->name == "down" &&
                                piece.parameter->expert == 2 && row == 6 && column == 9;
            stored.parameters().as<float>()[r.shard_offset + i] =
                is_bad ? std::numeric_limits<float>::quiet_NaN() : value_of(unit, *piece.parameter, row, column, turn);
          }
        }
      }
    }
    units_->refresh_compute_copy();
    units_->parameters_written();
  }

  ShardedUnits& units() { return *units_; }
  ops::Backend& ops() { return *backend_; }
  comm::Collectives& collectives() { return *collectives_; }

  /// The scales of a matrix, a row of bits for each row of tiles, and its codes row by row: of numbers that were
  /// gathered, and rounded as a whole.
  struct Rounded {
    std::vector<std::uint32_t> scale_bits;
    std::vector<std::uint8_t> codes;
  };
  Rounded round(const Tensor& numbers, ops::Fp8Tiles tiles, const comm::Group& tp) {
    const std::int64_t lines = numbers.shape[0], terms = numbers.shape[1], line_codes = ops::fp8_line_codes(terms);
    const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles, lines, terms);
    std::vector<std::uint8_t> memory(static_cast<std::size_t>(ops::num_fp8_codes(lines, terms)));
    // What counts for nothing is what gathers have there.
    std::vector<float> scales(static_cast<std::size_t>(scale_rows * scale_columns), ops::fp8_least_scale);
    const ops::RoundToFp8 round{
        .out = {Tensor(memory.data(), DType::uint8, {lines, line_codes}).columns(0, terms),
                Tensor(scales.data(), DType::float32, {scale_rows, scale_columns}), ops::Fp8Format::e4m3, tiles},
        .in = numbers};
    if (tiles == ops::Fp8Tiles::whole) {
      backend_->run(ops::FindFp8Scale{round.out, round.in, round.transpose});
      if (tp.size() > 1) {
        collectives_->all_reduce(tp, round.out.scales, comm::ReduceOp::max, *stream_);
        stream_->synchronize();
      }
    }
    backend_->run(round);
    Rounded result{};
    result.scale_bits.resize(scales.size());
    std::memcpy(result.scale_bits.data(), scales.data(), scales.size() * sizeof(float));
    for (std::int64_t l = 0; l < lines; ++l) {
      result.codes.insert(result.codes.end(), memory.begin() + l * line_codes, memory.begin() + l * line_codes + terms);
    }
    return result;
  }

 private:
  void lay_out(device::Arena& arena) {
    for (UnitStorage& stored : parts_) stored.lay_out(arena, arena, arena);
    const UnitBuffers::Arenas arenas{arena, arena, arena, arena, arena};
    buffers_.lay_out(arenas, arenas);
    staging_ = comm::take_staging(device::Kind::cpu, arena, ShardedUnits::staging(parts_, policy_));
  }

  const std::unique_ptr<device::Device> device_ = device::make_device(device::Kind::cpu);
  const std::unique_ptr<device::Stream> stream_ = device_->make_stream(), comm_stream_ = device_->make_stream(),
                                        gather_stream_ = device_->make_stream();
  const std::unique_ptr<ops::Backend> backend_ = ops::make_checked_backend(ops::make_backend(*device_, *stream_));
  ShardingPolicy policy_;
  StoredParts parts_;
  SlotAssignment slots_;
  UnitBuffers buffers_;
  std::unique_ptr<comm::Collectives> collectives_;
  device::Ledger ledger_;
  device::Arena arena_;
  comm::StagingMemory staging_;
  std::unique_ptr<ShardedUnits> units_;
};

void compare(Stand& fp8, Stand& plain, const ParameterGroup& group, int num_matrices, ops::Fp8Tiles tiles,
             const comm::Group& tp) {
  const Tensor codes = fp8.units().parameter(group), scales = fp8.units().fp8_scales(group),
               numbers = plain.units().parameter(group);
  BOOST_TEST(plain.units().fp8_scales(group).empty());
  BOOST_REQUIRE((codes.dtype == DType::uint8));
  BOOST_REQUIRE(codes.num_elements() == numbers.num_elements());
  BOOST_REQUIRE(scales.shape[0] == num_matrices);
  const std::int64_t rows = numbers.shape[0] / num_matrices;
  for (std::int64_t m = 0; m < num_matrices; ++m) {
    const Stand::Rounded expected = plain.round(numbers.rows(m * rows, rows), tiles, tp);
    std::vector<std::uint32_t> scale_bits(static_cast<std::size_t>(scales.shape[1]));
    std::memcpy(scale_bits.data(), scales.rows(m, 1).data, scale_bits.size() * sizeof(float));
    BOOST_TEST(scale_bits == expected.scale_bits, boost::test_tools::per_element());
    const auto* const found = codes.rows(m * rows, rows).as<std::uint8_t>();
    std::int64_t num_wrong = 0;
    for (std::size_t i = 0; i < expected.codes.size(); ++i) num_wrong += found[i] != expected.codes[i] ? 1 : 0;
    BOOST_TEST(num_wrong == 0);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fp8_gathers)

BOOST_DATA_TEST_CASE(codes_and_scales_are_those_of_whole_matrices, boost::unit_test::data::make({"whole", "blocks"}),
                     scaled) {
  const ops::Fp8Tiles tiles = std::string(scaled) == "whole" ? ops::Fp8Tiles::whole : ops::Fp8Tiles::blocks;
  for (const test::Layout& layout : layouts) {
    if (layout.size() != session().world().size()) continue;
    const test::Mesh mesh(session().world(), layout);
    for (const DType compute : {DType::bf16, DType::float32}) {
      Stand fp8(mesh, tiles, compute), plain(mesh, {}, compute);
      for (int turn = 0; turn < 3; ++turn) {
        for (Stand* stand : {&fp8, &plain}) stand->set_parameters(turn, turn == 2);
        // A second pass finds no scales, but sends the same.
        for (int pass = 0; pass < 2; ++pass) {
          for (Stand* stand : {&fp8, &plain}) stand->units().begin_pass({0, 1, 2}, ShardedUnits::Pass::forward);
          for (const UnitIndex unit : IndexRange<UnitIndex>(num_units)) {
            for (Stand* stand : {&fp8, &plain}) stand->units().enter(unit);
            for (const auto& [group, num_matrices] : groups_of(unit)) {
              BOOST_TEST_CONTEXT(layout.describe()
                                 << ", turn " << turn << ", pass " << pass << ", unit " << static_cast<int>(unit)
                                 << ", part " << static_cast<int>(group.part) << ", parameter " << group.first) {
                compare(fp8, plain, group, num_matrices, tiles, mesh.groups.tp);
              }
            }
          }
          for (Stand* stand : {&fp8, &plain}) stand->units().end_pass();
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel::fp8_gathers_test
