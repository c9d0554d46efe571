// SPDX-License-Identifier: Apache-2.0
// Uploads on a device that does its work late, as a GPU does: only when somebody waits for it.

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <deque>
#include <functional>
#include <stdexcept>
#include <vector>

#include "sft/device/ledger.hpp"
#include "sft/rank/upload.hpp"

namespace sft::rank {

BOOST_AUTO_TEST_SUITE(upload)

namespace {

class LateStream final : public device::Stream {
 public:
  void synchronize() override { finish(num_queued_); }
  void wait(device::Event&) override {}
  void poll() override {}
  void queue(std::function<void()> work) {
    works_.push_back(std::move(work));
    ++num_queued_;
  }
  void finish(std::size_t count) {
    for (; num_finished_ < count; ++num_finished_) {
      works_.front()();
      works_.pop_front();
    }
  }
  [[nodiscard]] std::size_t num_queued() const { return num_queued_; }
  [[nodiscard]] std::size_t num_finished() const { return num_finished_; }

 private:
  std::deque<std::function<void()>> works_;
  std::size_t num_queued_ = 0, num_finished_ = 0;
};

class LateEvent final : public device::Event {
 public:
  void record(device::Stream& stream) override {
    stream_ = static_cast<LateStream*>(&stream);
    position_ = stream_->num_queued();
  }
  void synchronize() override {
    if (stream_ != nullptr) stream_->finish(position_);
  }

 private:
  LateStream* stream_ = nullptr;
  std::size_t position_ = 0;
};

class LateDevice final : public device::Device {
 public:
  [[nodiscard]] device::Kind kind() const override { return device::Kind::cuda; }
  [[nodiscard]] std::string description() const override { return "late"; }
  [[nodiscard]] Block allocate(std::size_t bytes, device::Space) override {
    return {::operator new(bytes), [](void* block) { ::operator delete(block); }};
  }
  [[nodiscard]] std::unique_ptr<device::Stream> make_stream(device::Priority) override {
    return std::make_unique<LateStream>();
  }
  [[nodiscard]] std::unique_ptr<device::Event> make_event() override { return std::make_unique<LateEvent>(); }
  void copy(void* destination, const void* source, std::size_t bytes, device::Stream& stream) override {
    static_cast<LateStream&>(stream).queue([=] { std::memcpy(destination, source, bytes); });
  }
  void fill_zero(void*, std::size_t, device::Stream&) override {}
};

constexpr std::int64_t num_tokens = 5;
constexpr std::size_t copies_per_put = 4;

rows::MicroBatch make_batch(std::int32_t first, std::int64_t length = num_tokens) {
  rows::MicroBatch batch;
  for (std::int32_t t = 0; t < length; ++t) {
    batch.tokens.push_back(first + t);
    batch.positions.push_back(first + 10 + t);
    batch.targets.push_back(first + 20 + t);
    batch.loss_weights.push_back(static_cast<float>(first + 30 + t));
  }
  return batch;
}

struct Machine {
  const bool has_dropout;
  LateDevice device;
  device::Ledger ledger;
  LateStream stream;
  device::Arena device_memory, pinned_memory;
  UploadBuffers buffers;

  explicit Machine(bool drops = false) : has_dropout(drops) {
    buffers = take_upload_buffers(device_memory, pinned_memory, num_tokens, has_dropout);
    device_memory = device::Arena(device, ledger, device::Label::workspace, device_memory.used_bytes());
    pinned_memory =
        device::Arena(device, ledger, device::Label::workspace, pinned_memory.used_bytes(), device::Space::pinned);
    buffers = take_upload_buffers(device_memory, pinned_memory, num_tokens, has_dropout);
  }
};

bool holds(const model::Inputs& inputs, std::int32_t first, std::int64_t length = num_tokens) {
  const rows::MicroBatch batch = make_batch(first, length);
  const auto equal = [](const Tensor& tensor, const auto& values) {
    return tensor.num_elements() == std::ssize(values) &&
           std::memcmp(tensor.data, values.data(), tensor.size_bytes()) == 0;
  };
  return equal(inputs.tokens, batch.tokens) && equal(inputs.positions, batch.positions) &&
         equal(inputs.targets, batch.targets) && equal(inputs.loss_weights, batch.loss_weights);
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(the_host_waits_for_the_upload_before_the_last_and_no_other, Machine) {
  Upload upload(device, stream, buffers);
  (void)upload.put(make_batch(100));
  (void)upload.put(make_batch(200));
  BOOST_TEST(stream.num_finished() == 0U);
  (void)upload.put(make_batch(300));
  BOOST_TEST(stream.num_finished() == copies_per_put);
  (void)upload.put(make_batch(400));
  BOOST_TEST(stream.num_finished() == 2 * copies_per_put);
}

BOOST_FIXTURE_TEST_CASE(queued_work_finds_the_batch_that_was_put_before_it, Machine) {
  Upload upload(device, stream, buffers);
  std::vector<bool> found;
  for (const std::int32_t first : {100, 200, 300, 400, 500}) {
    rows::MicroBatch batch = make_batch(first);
    const model::Inputs inputs = upload.put(batch);
    batch = make_batch(-1);  // the caller's memory is free again
    stream.queue([&found, inputs, first] { found.push_back(holds(inputs, first)); });
  }
  stream.synchronize();
  BOOST_TEST(found == std::vector<bool>(5, true));
}

BOOST_AUTO_TEST_CASE(seeds_come_with_their_batch) {
  Machine machine(/*drops=*/true);
  Upload upload(machine.device, machine.stream, machine.buffers);
  std::vector<std::uint64_t> found;
  for (const std::uint64_t seed : {11U, 12U, 13U, 14U}) {
    const Tensor word = upload.put(make_batch(100), seed).dropout_seed;
    BOOST_TEST_REQUIRE(word.num_elements() == 8);
    machine.stream.queue([&found, word] { found.push_back(*static_cast<const std::uint64_t*>(word.data)); });
  }
  machine.stream.synchronize();
  BOOST_TEST(found == (std::vector<std::uint64_t>{11, 12, 13, 14}));
  BOOST_TEST(upload.put(make_batch(100)).dropout_seed.empty());  // as an evaluation does, which drops nothing
}

BOOST_FIXTURE_TEST_CASE(nothing_is_dropped_where_there_is_no_place_for_seeds, Machine) {
  Upload upload(device, stream, buffers);
  BOOST_TEST(upload.put(make_batch(100), 11).dropout_seed.empty());
}

BOOST_FIXTURE_TEST_CASE(memory_is_planned_in_both_spaces, Machine) {
  BOOST_TEST(ledger.bytes(device::Label::workspace, device::Space::device) == 4 * device::Arena::alignment_bytes);
  BOOST_TEST(ledger.bytes(device::Label::workspace, device::Space::pinned) == 8 * device::Arena::alignment_bytes);
}

BOOST_FIXTURE_TEST_CASE(inputs_have_the_tokens_of_their_batch, Machine) {
  Upload upload(device, stream, buffers);
  for (const std::int64_t length : {3, 5, 1}) {
    const model::Inputs inputs = upload.put(make_batch(70, length));
    stream.synchronize();
    BOOST_TEST(holds(inputs, 70, length));
  }
}

BOOST_FIXTURE_TEST_CASE(too_many_tokens_and_tokens_without_labels_are_refused, Machine) {
  Upload upload(device, stream, buffers);
  BOOST_CHECK_THROW((void)upload.put(make_batch(0, num_tokens + 1)), std::logic_error);
  rows::MicroBatch batch = make_batch(0);
  batch.targets.pop_back();
  BOOST_CHECK_THROW((void)upload.put(batch), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::rank
