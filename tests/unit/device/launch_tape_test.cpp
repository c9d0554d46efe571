// SPDX-License-Identifier: Apache-2.0
// Which launches are put off, recorded and repeated: over a recorder that only notes what it is asked for.
#include <array>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <stdexcept>
#include <string>

#include "sft/device/launch_tape.hpp"

namespace {

using namespace sft::device;

/// A tape whose launches each add a letter to `done`, and whose recordings add what they recorded in brackets.
struct Tape {
  explicit Tape(LaunchTape::Limits limits = {}, bool can_record = true)
      : tape(std::make_unique<NotingRecorder>(*this, can_record), limits) {
    tape.start();
  }

  class NotingRecorder final : public Recorder {
   public:
    NotingRecorder(Tape& of, bool can_record) : of_(of), can_record_(can_record) {}
    std::unique_ptr<Recording> record(std::size_t num_launches, const Launch& launches) override {
      ++of_.num_asked;
      if (!can_record_) return nullptr;
      struct Noted final : Recording {
        Noted(Tape& of_in, std::string text_in) : of(of_in), text(std::move(text_in)) { ++of.num_alive; }
        ~Noted() override { --of.num_alive; }
        void launch() override { of.done += '[' + text + ']'; }
        Tape& of;
        std::string text;
      };
      const std::string before = of_.done;
      launches();
      auto noted = std::make_unique<Noted>(of_, of_.done.substr(before.size()));
      BOOST_TEST(noted->text.size() == num_launches);
      of_.done = before;
      return noted;
    }

   private:
    Tape& of_;
    bool can_record_;
  };

  /// One chain: a launch for each letter, whose key it is.
  void chain(const std::string& letters) {
    for (const char letter : letters) {
      const std::array<std::uint64_t, 1> key{static_cast<std::uint64_t>(letter)};
      tape.defer(key, [this, letter] { done += letter; });
    }
    tape.settle();
  }

  std::string done;
  int num_asked = 0, num_alive = 0;
  LaunchTape tape;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(launch_tape)

BOOST_AUTO_TEST_CASE(a_chain_that_comes_again_is_recorded_and_repeated) {
  Tape t;
  for (int i = 0; i < 3; ++i) t.chain("abc");
  BOOST_TEST(t.done == "abc[abc][abc]");
  BOOST_TEST(t.tape.counts().plain == 3);
  BOOST_TEST(t.tape.counts().repeated == 6);
  BOOST_TEST(t.tape.counts().chains == 2);
  BOOST_TEST(t.tape.counts().recordings == 1);
}

BOOST_AUTO_TEST_CASE(nothing_is_made_before_the_tape_is_settled) {
  Tape t;
  const std::array<std::uint64_t, 1> key{7};
  t.tape.defer(key, [&t] { t.done += 'x'; });
  BOOST_TEST(t.done == "");
  t.tape.settle();
  BOOST_TEST(t.done == "x");
  t.tape.settle();
  BOOST_TEST(t.done == "x");
}

// One argument that differs, another order, one launch less or more: another chain.
BOOST_AUTO_TEST_CASE(what_is_not_the_same_is_launched_one_by_one) {
  Tape t;
  for (int i = 0; i < 2; ++i) t.chain("abc");
  t.done.clear();
  for (const char* other : {"abd", "acb", "ab", "abcd", "bc"}) t.chain(other);
  BOOST_TEST(t.done == "abdacbababcdbc");
  t.chain("abc");
  BOOST_TEST(t.done == "abdacbababcdbc[abc]");
}

BOOST_AUTO_TEST_CASE(one_launch_is_no_chain) {
  Tape t;
  for (int i = 0; i < 4; ++i) t.chain("a");
  BOOST_TEST(t.done == "aaaa");
  BOOST_TEST(t.num_asked == 0);
}

BOOST_AUTO_TEST_CASE(a_chain_may_be_recorded_at_once) {
  Tape t({.recorded_at = 1});
  t.chain("ab");
  BOOST_TEST(t.done == "[ab]");
}

BOOST_AUTO_TEST_CASE(those_that_came_last_are_kept) {
  Tape t({.recorded_at = 1, .kept = 2});
  for (const char* chain : {"ab", "cd", "ab", "ef"}) t.chain(chain);  // "cd" goes
  BOOST_TEST(t.num_alive == 2);
  BOOST_TEST(t.num_asked == 3);
  t.chain("ab");
  BOOST_TEST(t.num_asked == 3);
  t.chain("cd");
  BOOST_TEST(t.num_asked == 4);
  BOOST_TEST(t.done == "[ab][cd][ab][ef][ab][cd]");
}

BOOST_AUTO_TEST_CASE(who_cannot_record_is_asked_once) {
  Tape t({}, /*can_record=*/false);
  for (int i = 0; i < 4; ++i) t.chain("ab");
  for (int i = 0; i < 4; ++i) t.chain("cd");
  BOOST_TEST(t.done == "ababababcdcdcdcd");
  BOOST_TEST(t.num_asked == 1);
}

BOOST_AUTO_TEST_CASE(a_tape_that_is_off_puts_nothing_off) {
  Tape t;
  t.tape.stop();
  const std::array<std::uint64_t, 1> key{7};
  t.tape.defer(key, [&t] { t.done += 'x'; });
  BOOST_TEST(t.done == "x");
}

BOOST_AUTO_TEST_CASE(work_that_fails_leaves_nothing_behind) {
  Tape t;
  t.tape.stop();
  const std::array<std::uint64_t, 1> key{7};
  const auto fails = [&] {
    defer_launches(&t.tape, [&] {
      t.tape.defer(key, [&t] { t.done += 'x'; });
      throw std::runtime_error("work");
    });
  };
  BOOST_CHECK_THROW(fails(), std::runtime_error);
  BOOST_TEST(!t.tape.is_on());
  t.tape.settle();
  BOOST_TEST(t.done == "");
  defer_launches(&t.tape, [&] { t.tape.defer(key, [&t] { t.done += 'y'; }); });
  BOOST_TEST(t.done == "y");
}

// The launch before it is made, those behind it are not.
BOOST_AUTO_TEST_CASE(what_a_launch_throws_comes_from_what_settles) {
  Tape t;
  const std::array<std::uint64_t, 1> key{7};
  t.tape.defer(key, [&t] { t.done += 'x'; });
  t.tape.defer(key, [] { throw std::runtime_error("launch"); });
  t.tape.defer(key, [&t] { t.done += 'z'; });
  BOOST_CHECK_THROW(t.tape.settle(), std::runtime_error);
  t.tape.settle();
  BOOST_TEST(t.done == "x");
  t.chain("ab");
  BOOST_TEST(t.done == "xab");
}

BOOST_AUTO_TEST_SUITE_END()
