// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/device/factory.hpp"

namespace sft::device {

BOOST_AUTO_TEST_SUITE(cpu)

namespace {

/// Finishes at the test() number `num_tests`; writes its name to a log when it starts and when it ends.
class Recorded final : public Pending {
 public:
  Recorded(std::string name, int num_tests, std::vector<std::string>& log)
      : name_(std::move(name)), tests_left_(num_tests), log_(log) {}
  bool test() override {
    start();
    if (--tests_left_ > 0) return false;
    log_.push_back("end " + name_);
    return true;
  }

 private:
  void start() {
    if (started_) return;
    started_ = true;
    log_.push_back("start " + name_);
  }

  std::string name_;
  int tests_left_;
  bool started_ = false;
  std::vector<std::string>& log_;
};

struct Machine {
  std::unique_ptr<Device> device = make_device(Kind::cpu);
  std::unique_ptr<Stream> stream = device->make_stream();
  std::unique_ptr<Stream> other = device->make_stream();
  std::vector<std::string> log;

  void push(Stream& to, const std::string& name, int num_tests) {
    to.push(std::make_unique<Recorded>(name, num_tests, log));
  }
};

using Log = std::vector<std::string>;

}  // namespace

BOOST_FIXTURE_TEST_CASE(work_starts_when_all_before_it_is_finished, Machine) {
  push(*stream, "a", 3);
  push(*stream, "b", 1);
  BOOST_TEST(log == (Log{"start a"}), boost::test_tools::per_element());
  stream->poll();
  BOOST_TEST(log == (Log{"start a", "end a", "start b", "end b"}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(synchronize_finishes_everything, Machine) {
  push(*stream, "a", 100);
  push(*stream, "b", 100);
  stream->synchronize();
  BOOST_TEST(log == (Log{"start a", "end a", "start b", "end b"}), boost::test_tools::per_element());
  stream->synchronize();
  BOOST_TEST(log.size() == 4U);
}

BOOST_FIXTURE_TEST_CASE(an_event_waits_for_what_was_queued_before_it, Machine) {
  const auto event = device->make_event();
  event->synchronize();
  push(*stream, "a", 100);
  event->record(*stream);
  push(*stream, "b", 100);
  event->synchronize();
  BOOST_TEST(log == (Log{"start a", "end a"}), boost::test_tools::per_element());
  event->synchronize();
  BOOST_TEST(log.size() == 2U);
}

BOOST_FIXTURE_TEST_CASE(a_stream_waits_for_another_but_not_for_itself, Machine) {
  const auto event = device->make_event();
  push(*stream, "a", 100);
  event->record(*stream);
  stream->wait(*event);
  BOOST_TEST(log == (Log{"start a"}), boost::test_tools::per_element());
  other->wait(*event);
  BOOST_TEST(log == (Log{"start a", "end a"}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(waiting_for_one_stream_keeps_the_others_going, Machine) {
  push(*other, "a", 3);
  push(*stream, "b", 100);
  stream->synchronize();
  BOOST_TEST(log == (Log{"start a", "start b", "end a", "end b"}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_device_lets_all_its_streams_progress_without_waiting, Machine) {
  push(*stream, "a", 2);
  push(*other, "b", 100);
  device->progress();
  BOOST_TEST(log == (Log{"start a", "start b", "end a"}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(draining_finishes_everything_and_never_throws, Machine) {
  push(*stream, "a", 100);
  stream->drain();
  BOOST_TEST(log.back() == "end a");

  class Failing final : public Pending {
   public:
    bool test() override {
      if (is_started_) throw std::runtime_error("the other rank is gone");
      is_started_ = true;
      return false;
    }

   private:
    bool is_started_ = false;
  };
  stream->push(std::make_unique<Failing>());
  BOOST_CHECK_THROW(stream->synchronize(), std::runtime_error);
  static_assert(noexcept(stream->drain()));
  stream->drain();
}

BOOST_FIXTURE_TEST_CASE(copies_run_behind_pending_work, Machine) {
  const std::size_t size = 3'000'001;  // several pieces, none whole
  std::vector<unsigned char> source(size), destination(size, 0);
  for (std::size_t i = 0; i < size; ++i) source[i] = static_cast<unsigned char>(i * 31 + i / 255);
  push(*stream, "a", 100);
  device->copy(destination.data(), source.data(), size, *stream);
  BOOST_TEST(log.back() == "end a");
  BOOST_TEST((destination == source));

  push(*stream, "b", 100);
  device->fill_zero(destination.data(), size - 1, *stream);
  BOOST_TEST(log.back() == "end b");
  BOOST_TEST(destination[size - 1] == source[size - 1]);
  destination[size - 1] = 0;
  BOOST_TEST((destination == std::vector<unsigned char>(size, 0)));
}

BOOST_FIXTURE_TEST_CASE(memory_is_aligned, Machine) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, std::size_t{20} << 20}) {
    const Device::Block block = device->allocate(bytes);
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(block.get()) % 256 == 0U);
    static_cast<char*>(block.get())[bytes - 1] = 1;
  }
  BOOST_TEST(device->allocate(0).get() == nullptr);
}

BOOST_FIXTURE_TEST_CASE(memory_that_is_not_there_is_an_error, Machine) {
  BOOST_CHECK_EXCEPTION((void)device->allocate(std::size_t{1} << 60), Error,
                        [](const Error& error) { return std::string(error.what()).starts_with("cannot allocate "); });
}

BOOST_FIXTURE_TEST_CASE(describes_itself, Machine) {
  BOOST_TEST((device->kind() == Kind::cpu));
  BOOST_TEST(device->description().starts_with("CPU, "));
  BOOST_TEST(stream->native() == nullptr);
}

BOOST_AUTO_TEST_CASE(an_absent_device_says_what_to_do) {
  if (is_built(Kind::cuda)) return;
  BOOST_CHECK_EXCEPTION((void)make_device(Kind::cuda), Error, [](const Error& error) {
    return error.status() == ExitStatus::configuration &&
           std::string(error.what()).find("backend = cpu") != std::string::npos;
  });
}

}  // namespace sft::device

BOOST_AUTO_TEST_SUITE_END()
