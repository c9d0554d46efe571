// SPDX-License-Identifier: Apache-2.0
#include "cpu_device.hpp"

#include <omp.h>
#include <sys/mman.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sft/core/error.hpp"
#include "sft/core/format.hpp"

namespace sft::device {

namespace {

constexpr std::size_t piece_bytes = std::size_t{512} << 10;  // what one thread copies at a time

/// Calls work(begin, count) for pieces of [0, bytes), on several threads when it is worth it.
template <class Work>
void for_each_piece(std::size_t bytes, const Work& work) {
  const std::size_t num_pieces = (bytes + piece_bytes - 1) / piece_bytes;
#pragma omp parallel for schedule(static) if (num_pieces > 1)
  for (std::size_t piece = 0; piece < num_pieces; ++piece) {
    const std::size_t begin = piece * piece_bytes;
    work(begin, std::min(piece_bytes, bytes - begin));
  }
}

}  // namespace

std::string CpuDevice::description() const {
  const int num_threads = omp_get_max_threads();
  return fmt::format("CPU, {}", plural(num_threads, "thread"));
}

Device::Block CpuDevice::allocate(std::size_t bytes, Space) { return allocate_host(bytes); }

std::unique_ptr<Stream> CpuDevice::make_stream(Priority) { return std::make_unique<CpuStream>(streams_); }
std::unique_ptr<Event> CpuDevice::make_event() { return std::make_unique<CpuEvent>(); }

void CpuDevice::copy(void* destination, const void* source, std::size_t bytes, Stream& stream) {
  stream.synchronize();
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  for_each_piece(bytes, [=](std::size_t begin, std::size_t count) { std::memcpy(to + begin, from + begin, count); });
}

void CpuDevice::fill_zero(void* destination, std::size_t bytes, Stream& stream) {
  stream.synchronize();
  auto* to = static_cast<std::byte*>(destination);
  for_each_piece(bytes, [=](std::size_t begin, std::size_t count) { std::memset(to + begin, 0, count); });
}

class CpuTimeline::Mark final : public Pending {
 public:
  Mark(CpuTimeline& timeline, Id id, Edge edge) : timeline_(timeline), id_(id), edge_(edge) {}
  bool test() override {
    timeline_.set_time(id_, edge_, now_ns());
    return true;
  }

 private:
  CpuTimeline& timeline_;
  Id id_;
  Edge edge_;
};

void CpuTimeline::stamp(Stream& stream, Id id, Edge edge) { stream.push(std::make_unique<Mark>(*this, id, edge)); }

Device::Block allocate_host(std::size_t bytes) {
  constexpr std::size_t huge_page_threshold_bytes = std::size_t{8} << 20;
  if (bytes == 0) return {};
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ExitStatus::failure, fmt::format("cannot allocate {}", format_bytes(bytes)), std::strerror(errno),
                "use more ranks, shorter rows or a smaller model");
  }
  if (bytes >= huge_page_threshold_bytes) madvise(memory, bytes, MADV_HUGEPAGE);
  return {memory, [bytes](void* block) { munmap(block, bytes); }};
}

}  // namespace sft::device
