// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a test of the collectives needs: a device, a stream, and tensors with known contents.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/core/dtype.hpp"
#include "sft/device/factory.hpp"
#include "support/mpi_session.hpp"

namespace sft::test {

/// Collectives of the CPU with little staging memory, so that large reductions run in several rounds.
struct CollectivesFixture {
  CollectivesFixture() {
    const comm::StagingPlan plan{std::size_t{100} << 10, std::size_t{100} << 10};
    device::Arena sizing;
    static_cast<void>(comm::take_staging(device->kind(), sizing, plan));
    staging = device::Arena(*device, ledger, device::Label::communication, sizing.used_bytes());
    collectives->set_staging(comm::take_staging(device->kind(), staging, plan));
  }

  const comm::Group& world = session().world();
  int rank = world.rank();
  int size = world.size();
  std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu, {.num_local_ranks = size});
  device::Ledger ledger;
  device::Arena staging;
  std::unique_ptr<comm::Collectives> collectives = comm::make_collectives(*device, {world});
  std::unique_ptr<device::Stream> stream = device->make_stream();
};

/// As bf16 has it.
inline float rounded(float x) { return float32_of_bf16(bf16_of_float32(x)); }

/// A number in (-1, 1) that depends on the rank and the index, with all bits of its mantissa in use.
inline float noise(int rank, std::int64_t index) {
  auto hash =
      static_cast<std::uint64_t>(index) * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(rank) * 0xBF58476D1CE4E5B9U;
  hash = (hash ^ (hash >> 31)) * 0x94D049BB133111EBU;
  return static_cast<float>(static_cast<std::int64_t>(hash >> 40) - (std::int64_t{1} << 23)) / 8388608.0F;
}

template <class T>
std::vector<T> noise_vector(int rank, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = static_cast<T>(noise(rank, i));
  return values;
}

template <class T>
Tensor tensor_of(std::vector<T>& values, DType dtype) {
  return {values.data(), dtype, {static_cast<std::int64_t>(values.size())}};
}
inline Tensor tensor_of(std::vector<float>& values) { return tensor_of(values, DType::float32); }
inline Tensor tensor_of(std::vector<double>& values) { return tensor_of(values, DType::float64); }

/// Whether all ranks of `group` hold the same bits.
template <class T>
bool same_on_all_ranks(const comm::Group& group, const std::vector<T>& values) {
  const std::string own(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  for (const std::string& other : group.all_gather(own)) {
    if (other != own) return false;
  }
  return true;
}

}  // namespace sft::test
