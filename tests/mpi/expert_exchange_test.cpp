// SPDX-License-Identifier: Apache-2.0
// Rows of tokens arrive in the order of experts at the ranks that have these, and what becomes of them there comes back
// to their places.

#include "sft/parallel/expert_exchange.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "sft/core/cast.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "support/mesh.hpp"
#include "support/mpi_session.hpp"

namespace sft::parallel {

namespace {

using test::session;

constexpr int num_experts = 8;
constexpr std::int64_t columns = 3;

Tensor tensor_of(std::vector<std::int32_t>& values, std::vector<std::int64_t> shape) {
  return shape.size() == 1 ? Tensor(values.data(), DType::int32, {shape[0]})
                           : Tensor(values.data(), DType::int32, {shape[0], shape[1]});
}

float value_of(int rank, std::int64_t expert, std::int64_t row) {
  return static_cast<float>(10000 * rank + 100 * expert + row);
}

/// With memory for so many rows. `most`: rows of an expert. Collective over the mesh.
void exchange_on(const test::Mesh& mesh, std::int64_t memory_rows, unsigned most, std::int64_t alignment) {
  const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
  const std::unique_ptr<device::Stream> stream = device->make_stream();
  const std::unique_ptr<ops::Backend> backend = ops::make_checked_backend(ops::make_backend(*device, *stream));
  const auto collectives = comm::make_collectives(*device, mesh.groups.of_tensors());
  const std::unique_ptr<device::Stream> exchange_stream = device->make_stream();
  ExpertExchange exchange(mesh.groups.ep, *device, *backend, *collectives, *exchange_stream);
  const int ep_size = exchange.size(), rank = mesh.groups.ep.rank(), local_experts = num_experts / ep_size;

  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::vector<std::int32_t> counts;
  std::vector<float> home;
  for (int e = 0; e < num_experts; ++e) {
    counts.push_back(rank == 1 ? 0 : static_cast<std::int32_t>(random() % most));  // one rank has no token
    for (std::int64_t row = 0; row < counts.back(); ++row) home.insert(home.end(), columns, value_of(rank, e, row));
  }
  const std::int64_t num_rows = std::ssize(home) / columns;
  home.resize(home.size() + columns);  // so that it has memory
  const Tensor home_rows = Tensor(home.data(), DType::float32, {num_rows + 1, columns}).rows(0, num_rows);
  std::vector<std::int32_t> all_counts(static_cast<std::size_t>(ep_size * num_experts));
  const ExpertMemory memory{ExpertMemory::arriving(memory_rows, local_experts, ep_size, alignment), alignment};
  const ExpertRoute route =
      exchange.plan(tensor_of(counts, {num_experts}), tensor_of(all_counts, {ep_size, num_experts}), num_rows, memory);

  std::int64_t num_wrong = 0;
  for (const ExpertRoute::Round& round : route.rounds()) {
    std::vector<float> arrived(static_cast<std::size_t>((round.num_rows() + 1) * columns), -1.0F);
    const Tensor rows(arrived.data(), DType::float32, {round.num_rows() + 1, columns});
    exchange.start_dispatch(round, home_rows, rows);
    for (std::size_t p = 0; p < round.pieces.size(); ++p) {
      const ExpertRoute::Piece& piece = round.pieces[p];
      exchange.finish_dispatch(p);
      for (std::int64_t e = 0; e < piece.num_experts(); ++e) {
        const std::int64_t expert = rank * local_experts + piece.first_expert + e;
        for (std::int64_t row = piece.offsets[static_cast<std::size_t>(e)];
             row < piece.offsets[static_cast<std::size_t>(e) + 1]; ++row) {
          float* values = arrived.data() + (piece.first_row + row) * columns;
          if (values[0] == 0.0F && expert != 0) continue;  // a gap
          num_wrong += static_cast<int>(values[0]) % 10000 / 100 == expert ? 0 : 1;
          for (std::int64_t c = 0; c < columns; ++c) values[c] = -values[c] - 1.0F;
        }
      }
      exchange.start_give_back(piece, home_rows, rows);
    }
    exchange.finish_give_back();
    stream->synchronize();
  }
  BOOST_TEST(num_wrong == 0);
  std::int64_t row = 0;
  for (int e = 0; e < num_experts; ++e) {
    for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(e)]; ++i, ++row) {
      for (std::int64_t c = 0; c < columns; ++c) {
        num_wrong += home[static_cast<std::size_t>(row * columns + c)] == -value_of(rank, e, i) - 1.0F ? 0 : 1;
      }
    }
  }
  BOOST_TEST(num_wrong == 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(expert_exchange)

BOOST_AUTO_TEST_CASE(rows_go_to_their_experts_and_come_back) {
  const int world_size = session().world().size();
  const test::Mesh mesh(session().world(), {{Axis::ep, world_size}});
  exchange_on(mesh, 10000, 50, 1);
  exchange_on(mesh, 10000, 50, 16);
  exchange_on(mesh, 20, 50, 1);  // in several rounds
  exchange_on(mesh, 10, 1, 1);   // nobody has a row
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
