// SPDX-License-Identifier: Apache-2.0
#include "shared_window.hpp"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <utility>

#include "node_map.hpp"
#include "sft/comm/launcher.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/error.hpp"

namespace sft::comm {

namespace {

constexpr std::size_t page_bytes = 4096;

/// Whether `bytes` more fit there; never in a file system on a disk, to which the system would write the window. A
/// sixteenth stays free for others.
bool has_space(std::size_t bytes) {
  struct statfs status {};
  if (::statfs(SharedWindow::backing_folder(), &status) != 0 || status.f_type != TMPFS_MAGIC) return false;
  const std::size_t block_bytes = status.f_bsize;
  const std::size_t free_bytes = status.f_bavail * block_bytes, all_bytes = status.f_blocks * block_bytes;
  // A file system without a limit says that it has no blocks.
  return all_bytes == 0 || bytes + all_bytes / 16 <= free_bytes;
}

/// Whether this process may make a file of `bytes` and map it. What MPI cannot do on one rank, the others wait for.
bool is_within_limits(std::size_t bytes) {
  rlimit files{};
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < bytes) return false;
  void* begin = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return false;
  munmap(begin, bytes);
  return true;
}

/// Whether all ranks say so. Collective.
bool all_agree(const Group& group, bool mine) {
  std::int64_t is_refused = mine ? 0 : 1;
  group.max(std::span(&is_refused, 1));
  return is_refused == 0;
}

bool is_on_one_node(const Group& group) {
  return all_agree(group, split_by_node(group, "neighbours").size() == group.size());
}

/// Makes the pages of [begin, begin + bytes) present. False where there is no memory for them; to write to them would
/// then be SIGBUS. Systems before Linux 5.14 cannot be asked: has_space() has to do.
bool populate(std::byte* begin, std::size_t bytes) {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, which headers before glibc 2.35 do not name
  return bytes == 0 || madvise(begin, bytes, populate_write) == 0 || errno == EINVAL;
}

}  // namespace

const char* SharedWindow::backing_folder() {
  const char* chosen = std::getenv("OMPI_MCA_osc_sm_backing_directory");  // else the default of Open MPI and MPICH
  return chosen != nullptr ? chosen : "/dev/shm";
}

std::unique_ptr<SharedWindow> SharedWindow::make(const Group& group, MemoryUse use, std::size_t bytes,
                                                 Outcome& outcome) {
  outcome = Outcome::other_node;
  if (!is_on_one_node(group)) return nullptr;
  // Other groups of this node ask for as much at the same time.
  const std::size_t num_ranks = std::max(num_local_ranks(), group.size());
  const std::size_t group_size = group.size();
  const bool is_common = use == MemoryUse::gathered;
  const std::size_t num_copies = is_common ? num_ranks / group_size : num_ranks;
  outcome = Outcome::refused;
  constexpr std::size_t bytes_of_mpi = std::size_t{1} << 20;  // what it maps beside the window
  const std::size_t mapped_bytes = (is_common ? 1 : group_size) * bytes + group_size * 4 * page_bytes;
  if (!all_agree(group, is_within_limits(mapped_bytes + bytes_of_mpi))) return nullptr;
  outcome = Outcome::no_space;
  if (!all_agree(group, has_space(num_copies * bytes + num_ranks * 4 * page_bytes))) return nullptr;
  std::unique_ptr<SharedWindow> window(new SharedWindow(group, use, bytes));
  if (!all_agree(group, window->allocate())) {
    window->window_ = MPI_WIN_NULL;  // some have none, so that it cannot be freed together
    return nullptr;
  }
  if (!all_agree(group, window->take_pages())) return nullptr;
  outcome = Outcome::made;
  return window;
}

SharedWindow::SharedWindow(Group group, MemoryUse use, std::size_t bytes)
    : group_(std::move(group)), use_(use), bytes_(round_up(bytes, page_bytes)), account_(bytes_) {}

SharedWindow::~SharedWindow() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  account_.reset();
  if (window_ != MPI_WIN_NULL && finalized == 0) MPI_Win_free(&window_);
}

bool SharedWindow::allocate() {
  static_assert(sizeof(Notes) <= page_bytes);
  const Group::Impl& impl = group_.impl();
  const bool has_data = use_ == MemoryUse::reduced || impl.rank == 0;
  // A page for the notes, and one to align them: MPI need not begin at a page.
  const std::size_t own_bytes = 2 * page_bytes + (has_data ? bytes_ : 0);
  void* own = nullptr;
  if (MPI_Win_allocate_shared(checked_cast<MPI_Aint>(own_bytes), 1, MPI_INFO_NULL, impl.communicator, &own, &window_) !=
      MPI_SUCCESS) {
    window_ = MPI_WIN_NULL;
    return false;
  }
  for (int rank = 0; rank < impl.size; ++rank) {
    MPI_Aint size = 0;
    int unit = 0;
    std::byte* begin = nullptr;
    if (MPI_Win_shared_query(window_, rank, &size, &unit, static_cast<void*>(&begin)) != MPI_SUCCESS) return false;
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    std::byte* aligned = begin + (round_up(address, page_bytes) - address);
    if (rank == impl.rank) {
      notes_.push_back(new (aligned) Notes{});
    } else {
      notes_.push_back(reinterpret_cast<Notes*>(aligned));
    }
    data_.push_back(use_ == MemoryUse::gathered && rank > 0 ? data_.front() : aligned + page_bytes);
  }
  return true;
}

bool SharedWindow::take_pages() const {
  if (use_ == MemoryUse::reduced) return populate(data(group_.rank()), bytes_);
  // Every rank a part of the common memory, so that it is spread over the node's memory controllers.
  const std::size_t num_pages = bytes_ / page_bytes;
  const auto page = [&](int rank) { return num_pages * rank / group_.size(); };
  const std::size_t begin = page(group_.rank()), end = page(group_.rank() + 1);
  return populate(data(0) + begin * page_bytes, (end - begin) * page_bytes);
}

bool SharedWindow::holds(const std::byte* begin, std::size_t bytes) const {
  const std::byte* own = data(group_.rank());
  return begin >= own && begin + bytes <= own + bytes_;
}

bool SharedWindow::begin(std::uint64_t call, std::size_t offset) {
  const std::uint64_t before = call > num_notes ? call - num_notes : 0;
  if (finished_[slot_of(call)] != before) return false;
  Note& own = note_of(group_.rank(), call);
  own.offset = offset;
  own.stage.store(4 * call + 1, std::memory_order_release);
  return true;
}

void SharedWindow::note(std::uint64_t call, std::uint64_t stage) {
  note_of(group_.rank(), call).stage.store(4 * call + stage, std::memory_order_release);
}

bool SharedWindow::have_all_reached(std::uint64_t call, std::uint64_t stage) const {
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (note_of(rank, call).stage.load(std::memory_order_acquire) < 4 * call + stage) return false;
  }
  return true;
}

std::byte* SharedWindow::tensor(std::uint64_t call, int rank) const { return data(rank) + note_of(rank, call).offset; }

void SharedWindow::finish(std::uint64_t call) { finished_[slot_of(call)] = call; }

}  // namespace sft::comm
