// SPDX-License-Identifier: Apache-2.0
// Micro-batches reach a GPU that is behind the host: none is overwritten on its way.
#include "sft/rank/upload.hpp"

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/stream_queue.hpp"
#include "sft/device/factory.hpp"
#include "sft/device/ledger.hpp"

namespace sft::rank {

namespace {

constexpr std::int64_t max_tokens = 40;

/// All of it says which number it has.
rows::MicroBatch batch_of(int number, std::int64_t num_tokens) {
  rows::MicroBatch batch;
  const auto size = static_cast<std::size_t>(num_tokens);
  batch.tokens.assign(size, 4 * number);
  batch.positions.assign(size, 4 * number + 1);
  batch.targets.assign(size, 4 * number + 2);
  batch.loss_weights.assign(size, static_cast<float>(4 * number + 3));
  return batch;
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_batch_is_overwritten_on_its_way) {
  constexpr int num_batches = 6;
  constexpr std::size_t record_bytes = 4 * max_tokens * sizeof(float);
  for (unsigned long long seed = 0; seed < 10; ++seed) {
    emulation::set_seed(seed);
    const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cuda);
    const std::unique_ptr<device::Stream> stream = device->make_stream();
    device::Arena sizing_device, sizing_pinned;
    (void)take_upload_buffers(sizing_device, sizing_pinned, max_tokens);
    device::Ledger ledger;
    device::Arena on_device(*device, ledger, device::Label::workspace, sizing_device.used_bytes()),
        pinned(*device, ledger, device::Label::workspace, sizing_pinned.used_bytes(), device::Space::pinned);
    Upload upload(*device, *stream, take_upload_buffers(on_device, pinned, max_tokens));
    // What the device has seen of each batch, kept there, so that nothing waits.
    const device::Device::Block seen = device->allocate(num_batches * record_bytes),
                                copy = device->allocate(num_batches * record_bytes, device::Space::pinned);
    const auto num_tokens_of = [](int number) { return max_tokens - 7 * (number % 3); };
    for (int number = 0; number < num_batches; ++number) {
      const model::Inputs inputs = upload.put(batch_of(number, num_tokens_of(number)));
      auto* to = static_cast<std::byte*>(seen.get()) + static_cast<std::size_t>(number) * record_bytes;
      for (const Tensor& part : {inputs.tokens, inputs.positions, inputs.targets, inputs.loss_weights}) {
        device->copy(to, part.data, part.size_bytes(), *stream);
        to += max_tokens * sizeof(float);
      }
    }
    device->copy(copy.get(), seen.get(), num_batches * record_bytes, *stream);
    stream->synchronize();
    const auto* from = static_cast<const std::byte*>(copy.get());
    for (int number = 0; number < num_batches; ++number) {
      for (int part = 0; part < 4; ++part, from += max_tokens * sizeof(float)) {
        std::int64_t num_wrong = 0;
        for (std::int64_t i = 0; i < num_tokens_of(number); ++i) {
          std::int32_t whole = 0;
          float real = 0;
          std::memcpy(&whole, from + static_cast<std::size_t>(i) * sizeof whole, sizeof whole);
          std::memcpy(&real, from + static_cast<std::size_t>(i) * sizeof real, sizeof real);
          const int expected = 4 * number + part;
          num_wrong += part == 3 ? real != static_cast<float>(expected) : whole != expected;
        }
        BOOST_TEST(num_wrong == 0, "batch " << number << ", part " << part << ", seed " << seed);
      }
    }
  }
}

}  // namespace sft::rank
