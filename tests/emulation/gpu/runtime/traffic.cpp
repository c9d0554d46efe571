// SPDX-License-Identifier: Apache-2.0
#include "runtime/traffic.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "runtime/block.hpp"
#include "runtime/memory.hpp"
#include "runtime/running.hpp"

namespace sft::emulation {

bool is_counting_traffic = false;

namespace {

constexpr std::uint32_t warp_size = 32;
constexpr std::uint64_t sector_bytes = 32, word_bytes = 4, num_banks = 32;
constexpr std::size_t largest_access_bytes = 16;

struct LaneAccess {
  std::uint64_t address;
  std::uint32_t bytes, lane;
};

/// Which accesses may be one instruction: the place in the program; of more than 16 bytes at once, which 16; the kind.
using Place = std::tuple<const void*, std::size_t, Access>;

/// What happened at a place since the warp last met. instructions[i]: what each lane did when it came by for the i-th
/// time.
struct Visits {
  std::array<std::uint32_t, warp_size> num_of_lane{};
  std::vector<std::vector<LaneAccess>> instructions;
  bool is_shared = false;
};

/// Which bytes of a page of device memory were touched; a bit each.
struct Page {
  static constexpr std::uint64_t bytes = 4096;
  std::array<std::uint64_t, bytes / 64> read{}, written{};
};

struct Counter {
  std::vector<LaunchTraffic> launches;
  std::array<std::map<Place, Visits>, Running::max_warps> warps;
  std::unordered_map<std::uint64_t, Page> pages;  ///< by number
};

Counter& counter() {
  static Counter the_counter;
  return the_counter;
}

void note_bytes(std::uint64_t address, std::uint64_t bytes, Access access) {
  while (bytes > 0) {
    const std::uint64_t bit = address % 64, count = std::min<std::uint64_t>(bytes, 64 - bit);
    const std::uint64_t bits = (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << bit;
    Page& page = counter().pages[address / Page::bytes];
    const std::uint64_t word = address % Page::bytes / 64;
    if (access != Access::write) page.read[word] |= bits & ~page.written[word];
    if (access != Access::read) page.written[word] |= bits;
    address += count;
    bytes -= count;
  }
}

/// The different pieces of `piece_bytes` that these accesses touch, which are in the order of their addresses.
std::vector<std::uint64_t> pieces_of(const std::vector<LaneAccess>& accesses, std::uint64_t piece_bytes) {
  std::vector<std::uint64_t> pieces;
  for (const LaneAccess& access : accesses) {
    const std::uint64_t last = (access.address + access.bytes - 1) / piece_bytes;
    for (std::uint64_t piece = access.address / piece_bytes; piece <= last; ++piece) {
      if (pieces.empty() || piece > pieces.back()) pieces.push_back(piece);
    }
  }
  return pieces;
}

/// How many different bytes they touch.
std::uint64_t different_bytes(const std::vector<LaneAccess>& accesses) {
  std::uint64_t sum = 0, end = 0;
  for (const LaneAccess& access : accesses) {
    const std::uint64_t begin = std::max(access.address, end);
    end = std::max(end, access.address + access.bytes);
    sum += end > begin ? end - begin : 0;
  }
  return sum;
}

void count_global(LaunchTraffic& traffic, const std::vector<LaneAccess>& accesses) {
  traffic.sectors += pieces_of(accesses, sector_bytes).size();
  traffic.least_sectors += (different_bytes(accesses) + sector_bytes - 1) / sector_bytes;
}

void count_shared(LaunchTraffic& traffic, const std::vector<LaneAccess>& accesses) {
  const std::uint32_t bytes = accesses.front().bytes;
  const std::uint32_t lanes_at_once = bytes == 16 ? warp_size / 4 : bytes == 8 ? warp_size / 2 : warp_size;
  for (std::uint32_t first = 0; first < warp_size; first += lanes_at_once) {
    std::vector<LaneAccess> part;
    std::copy_if(accesses.begin(), accesses.end(), std::back_inserter(part),
                 [&](const LaneAccess& access) { return access.lane >= first && access.lane < first + lanes_at_once; });
    if (part.empty()) continue;
    const std::vector<std::uint64_t> words = pieces_of(part, word_bytes);
    std::array<std::uint64_t, num_banks> in_bank{};
    for (const std::uint64_t word : words) ++in_bank[word % num_banks];
    traffic.shared_passes += *std::max_element(in_bank.begin(), in_bank.end());
    traffic.least_shared_passes += (words.size() + num_banks - 1) / num_banks;
  }
}

/// The bytes of the launch that ran last.
void end_launch() {
  Counter& self = counter();
  for (const auto& [number, page] : self.pages) {
    for (std::size_t i = 0; i < page.read.size(); ++i) {
      self.launches.back().read_bytes += static_cast<std::uint64_t>(std::popcount(page.read[i]));
      self.launches.back().written_bytes += static_cast<std::uint64_t>(std::popcount(page.written[i]));
    }
  }
  self.pages.clear();
}

}  // namespace

void start_counting_traffic() {
  counter() = Counter{};
  is_counting_traffic = true;
}

std::vector<LaunchTraffic> take_traffic() {
  is_counting_traffic = false;
  end_launch();
  return std::exchange(counter().launches, {});
}

void begin_traffic_of(const char* kernel) {
  end_launch();
  counter().launches.push_back({});
  counter().launches.back().kernel = kernel;
}

void count_matrix_load() {
  if (is_counting_traffic) ++counter().launches.back().matrix_loads;
}

void count_matrix_product() {
  if (is_counting_traffic) ++counter().launches.back().matrix_products;
}

void count_access(const void* begin, std::size_t bytes, Access access, const void* place) {
  const auto* const first = static_cast<const char*>(begin);
  const bool is_shared = first >= running.shared_begin && first < running.shared_end;
  if (!is_shared && !is_gpu_address(begin)) return;  // arguments, constants
  const auto address = reinterpret_cast<std::uint64_t>(begin);
  if (!is_shared) note_bytes(address, bytes, access);
  const std::uint32_t lane = running.thread % warp_size;
  for (std::size_t offset = 0; offset < bytes; offset += largest_access_bytes) {
    Visits& visits = counter().warps[running.thread / warp_size][{place, offset, access}];
    const std::uint32_t visit = visits.num_of_lane[lane]++;
    if (visits.instructions.size() <= visit) visits.instructions.resize(visit + 1);
    visits.instructions[visit].push_back(
        {address + offset, static_cast<std::uint32_t>(std::min(bytes - offset, largest_access_bytes)), lane});
    visits.is_shared = is_shared;
  }
}

void end_instructions_of(std::uint32_t warp) {
  LaunchTraffic& traffic = counter().launches.back();
  for (auto& [place, visits] : counter().warps[warp]) {
    for (std::vector<LaneAccess>& accesses : visits.instructions) {
      std::sort(accesses.begin(), accesses.end(),
                [](const LaneAccess& a, const LaneAccess& b) { return a.address < b.address; });
      if (visits.is_shared) {
        count_shared(traffic, accesses);
      } else {
        count_global(traffic, accesses);
      }
    }
  }
  counter().warps[warp].clear();
}

}  // namespace sft::emulation
