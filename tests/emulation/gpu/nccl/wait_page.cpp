// SPDX-License-Identifier: Apache-2.0
#include "wait_page.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

namespace sft::emulation {

namespace {

constexpr std::chrono::milliseconds min_age(200);
constexpr std::size_t max_waited_for = 64, max_text = 200, max_circle_text = 4096;

/// Zero at first. The version is odd while `what` and `waited_for` are written, and another each time that they differ;
/// the beat counts how often they were found to hold. A process that finds a circle writes so to all pages of it:
/// claimed_version keeps two from writing at once, and the text counts while doomed_version is the page's version.
struct Page {
  std::uint64_t nonce;
  std::atomic<std::uint64_t> version, beat;
  std::uint32_t num_waited_for;
  SharedMemoryKey waited_for[max_waited_for];
  char what[max_text];
  std::atomic<std::uint64_t> claimed_version, doomed_version;
  char circle[max_circle_text];
};

Page& page_in(const SharedMemory& memory) { return *reinterpret_cast<Page*>(memory.data()); }

}  // namespace

WaitPage::WaitPage() : key_(SharedMemory::make()), memory_(key_, sizeof(Page)) {}

WaitPage& WaitPage::mine() {
  static WaitPage page;
  return page;
}

void WaitPage::set(const std::string& what, const std::vector<SharedMemoryKey>& waited_for) {
  Page& page = page_in(memory_);
  ++page.beat;
  if (waited_for == waited_for_ && (waited_for.empty() || what == what_)) return;
  what_ = what;
  waited_for_ = waited_for;
  page.version.fetch_add(1);
  page.num_waited_for = static_cast<std::uint32_t>(std::min(waited_for.size(), max_waited_for));
  std::copy_n(waited_for.begin(), page.num_waited_for, page.waited_for);
  std::strncpy(page.what, what.c_str(), max_text - 1);
  page.version.fetch_add(1);
}

const SharedMemory* WaitPage::memory_of(const SharedMemoryKey& key) {
  if (key == key_) return &memory_;
  try {
    return &others_.try_emplace({key.process, key.descriptor}, key, sizeof(Page)).first->second;
  } catch (const std::runtime_error&) {
    return nullptr;
  }
}

std::optional<WaitPage::Wait> WaitPage::read(const SharedMemoryKey& key) {
  const SharedMemory* memory = memory_of(key);
  if (memory == nullptr) return std::nullopt;
  const Page& page = page_in(*memory);
  Wait wait{.page = key, .version = page.version.load(), .beat = page.beat.load(), .what = {}, .waited_for = {}};
  wait.waited_for.assign(page.waited_for, page.waited_for + std::min<std::size_t>(page.num_waited_for, max_waited_for));
  wait.what.assign(page.what, ::strnlen(page.what, max_text));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool is_torn = wait.version % 2 != 0 || page.version.load() != wait.version;
  return is_torn ? std::nullopt : std::optional(wait);
}

bool WaitPage::extend_to_circle(std::vector<Wait>& path) {
  const std::vector<SharedMemoryKey> next_pages = path.back().waited_for;
  for (const SharedMemoryKey& next : next_pages) {
    if (next == path.front().page) return true;
    const bool is_on_path = std::ranges::any_of(path, [&](const Wait& wait) { return wait.page == next; });
    const std::optional<Wait> wait = is_on_path ? std::nullopt : read(next);
    if (!wait || wait->waited_for.empty()) continue;
    path.push_back(*wait);
    if (extend_to_circle(path)) return true;
    path.pop_back();
  }
  return false;
}

void WaitPage::tell(const Wait& wait, const std::string& circle) {
  const SharedMemory* memory = memory_of(wait.page);
  if (memory == nullptr) return;
  Page& page = page_in(*memory);
  std::uint64_t claimed = page.claimed_version;
  if (claimed == wait.version || !page.claimed_version.compare_exchange_strong(claimed, wait.version)) return;
  std::strncpy(page.circle, circle.c_str(), max_circle_text - 1);
  page.doomed_version = wait.version;
}

std::optional<std::string> WaitPage::find_circle() {
  if (const Page& own = page_in(memory_); !waited_for_.empty() && own.doomed_version == own.version) return own.circle;
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_at_ < min_age) return std::nullopt;
  looked_at_ = now;
  std::vector<Wait> circle;
  if (std::optional<Wait> own = read(key_); own && !own->waited_for.empty()) circle.push_back(*own);
  if (circle.empty() || !extend_to_circle(circle)) {
    seen_.clear();
    return std::nullopt;
  }
  // A page tells what its process saw when it looked last. Where all have looked anew since this circle was seen first,
  // twice to be sure that the second look began later, and saw the same, none of them has moved meanwhile.
  const auto is_same = [](const Wait& after, const Wait& before) {
    return after.page == before.page && after.version == before.version;
  };
  if (!std::ranges::equal(circle, seen_, is_same)) {
    seen_ = std::move(circle);
    return std::nullopt;
  }
  const auto has_looked = [](const Wait& after, const Wait& before) { return after.beat >= before.beat + 2; };
  if (!std::ranges::equal(circle, seen_, has_looked)) return std::nullopt;
  std::string text;
  for (const Wait& wait : circle) text += (text.empty() ? "" : "; it waits for ") + wait.what;
  text += "; it waits for the first";
  for (const Wait& wait : circle) tell(wait, text);
  return text;
}

}  // namespace sft::emulation
