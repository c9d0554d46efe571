// SPDX-License-Identifier: Apache-2.0
#include "sft/device/arena.hpp"

#include <sys/mman.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "sft/device/factory.hpp"
#include "sft/machine/node.hpp"

namespace sft::device {

namespace {

struct Machine {
  std::unique_ptr<Device> device = make_device(Kind::cpu);
  Ledger ledger;
};

/// A component that lays itself out over any arena.
std::array<std::byte*, 3> lay_out(Arena& arena) {
  std::array<std::byte*, 3> pieces{};
  pieces[0] = static_cast<std::byte*>(arena.take(1));
  pieces[1] = static_cast<std::byte*>(arena.take(1000));
  pieces[2] = static_cast<std::byte*>(arena.take(256));
  return pieces;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(arena)

BOOST_FIXTURE_TEST_CASE(a_real_arena_of_the_sized_capacity_holds_the_same_layout, Machine) {
  Arena sizing;
  const auto planned = lay_out(sizing);
  BOOST_TEST(sizing.is_sizing());
  BOOST_TEST(sizing.used_bytes() == 256U + 1024U + 256U);
  BOOST_TEST(planned[0] != nullptr);

  Arena real(*device, ledger, Label::activations, sizing.used_bytes());
  const auto pieces = lay_out(real);
  BOOST_TEST(!real.is_sizing());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    BOOST_TEST(pieces[i] - pieces[0] == planned[i] - planned[0]);
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(pieces[i]) % Arena::alignment_bytes == 0U);
  }
  BOOST_CHECK_THROW(real.take(1), std::logic_error);
}

BOOST_FIXTURE_TEST_CASE(rewinding_gives_memory_back_and_keeps_the_peak, Machine) {
  Arena arena;
  arena.take(300);
  const std::size_t mark = arena.used_bytes();
  arena.take(5000);
  arena.rewind(mark);
  BOOST_TEST(arena.used_bytes() == 512U);
  BOOST_TEST(arena.peak_bytes() == 512U + 5120U);
}

BOOST_FIXTURE_TEST_CASE(the_ledger_knows_an_arena_while_it_lives, Machine) {
  {
    Arena first(*device, ledger, Label::gradients, 4096);
    Arena moved = std::move(first);
    Arena other(*device, ledger, Label::workspace, 512);
    BOOST_TEST(ledger.bytes(Label::gradients) == 4096U);
    BOOST_TEST(ledger.total_bytes() == 4608U);
    other = std::move(moved);
    BOOST_TEST(ledger.bytes(Label::workspace) == 0U);
    BOOST_TEST(ledger.bytes(Label::gradients) == 4096U);
  }
  BOOST_TEST(ledger.total_bytes() == 0U);
}

BOOST_FIXTURE_TEST_CASE(untouched_memory_is_not_resident, Machine) {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  const std::size_t before = machine::resident_bytes();
  const Arena arena(*device, ledger, Label::workspace, bytes);
  BOOST_TEST(machine::resident_bytes() < before + bytes / 8);
  BOOST_TEST(machine::peak_resident_bytes() >= before / 2);
}

BOOST_AUTO_TEST_CASE(shared_memory_of_other_processes_does_not_count) {
  constexpr std::size_t own_bytes = std::size_t{64} << 20, others_bytes = std::size_t{160} << 20;
  const auto touch_shared = [](std::size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    BOOST_REQUIRE(memory != MAP_FAILED);
    std::memset(memory, 1, bytes);
    return Device::Block{memory, [bytes](void* block) { munmap(block, bytes); }};
  };
  const std::size_t before = machine::resident_bytes();
  const machine::SharedBytes account(own_bytes);
  const Device::Block own = touch_shared(own_bytes);
  BOOST_TEST(machine::peak_resident_bytes() >= before + own_bytes);
  const Device::Block others = touch_shared(others_bytes);
  BOOST_TEST(machine::resident_bytes() >= before + own_bytes + others_bytes);
  BOOST_TEST(machine::peak_resident_bytes() >= before + own_bytes);
  BOOST_TEST(machine::peak_resident_bytes() < before + own_bytes + others_bytes / 4);
}

BOOST_FIXTURE_TEST_CASE(an_arena_is_entered_in_its_own_space, Machine) {
  const Arena pinned(*device, ledger, Label::workspace, 512, Space::pinned);
  const Arena on_device(*device, ledger, Label::workspace, 4096);
  BOOST_TEST(ledger.bytes(Label::workspace, Space::pinned) == 512U);
  BOOST_TEST(ledger.bytes(Label::workspace, Space::device) == 4096U);
  BOOST_TEST(ledger.bytes(Label::workspace, Space::host) == 0U);
  BOOST_TEST(ledger.bytes(Label::workspace) == 4608U);
}

}  // namespace sft::device

BOOST_AUTO_TEST_SUITE_END()
