// SPDX-License-Identifier: Apache-2.0
// Saving and resuming beside `dd` on the same file system in the same run.
//
//   mpirun -np 2 ./bench_checkpoint [FOLDER] [MIB_PER_RANK] [SAMPLES]
//
// Each sample in turn, all ranks at once, and medians over the samples:
//   dd write   dd if=/dev/zero bs=4M conv=fsync, as many bytes as the rank writes of the checkpoint
//   write      Save::write() of a snapshot: hashed, written, synced
//   save       begin, copy, write and commit, as a run that waits for it
//   dd read    dd of=/dev/null of the shard files, which are not in the file cache
//   resume     checkpoint::load() on the mesh that wrote it, likewise; every byte is compared with its hash
// of_dd is the time of dd over it: the goal is 0.8.

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/save.hpp"
#include "sft/comm/session.hpp"
#include "sft/core/log.hpp"
#include "sft/device/factory.hpp"
#include "sft/mesh/groups.hpp"
#include "support/barrier.hpp"
#include "support/parameter.hpp"

namespace {

using namespace sft;
namespace fs = std::filesystem;

/// Forgets what the file cache has of the files in a folder.
void drop_cache(const std::string& folder) {
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    const int descriptor = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) continue;
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }
}

void run_shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw Error(ExitStatus::failure, command + " failed");  // NOLINT
}

/// Units with matrices of so many elements for each rank.
std::vector<parallel::Unit> units_of(std::int64_t num_elements) {
  constexpr std::int64_t columns = 1024;
  std::vector<parallel::Unit> units;
  for (int i = 0; i < 8; ++i) {
    units.emplace_back();
    units.back().parameters = {test::parameter(fmt::format("layer.{}.weight", i), num_elements / 8 / columns, columns,
                                               parallel::TpSplit::none)};
  }
  return units;
}

class Bench {
 public:
  Bench(const comm::Session& session, std::string folder, std::int64_t mib)
      : world_(session.world()),
        folder_(std::move(folder)),
        place_(mesh::Layout{{Axis::dp_shard, world_.size()}}, WorldRank::from(world_.rank())),
        groups_(world_, place_, {}),
        device_(device::make_device(device::Kind::cpu, {.num_local_ranks = session.node().size()})),
        stream_(device_->make_stream()),
        shard_map_(units_of(mib * (1 << 20) / 12 * world_.size()), place_) {
    for (const char* name : {"model", "exp_avg", "exp_avg_sq"}) {
      std::vector<float>& values = memory_[name];
      values.resize(static_cast<std::size_t>(shard_map_.rank_shard_elements()));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) + 1.0F;
    }
  }

  void sample(int number) {
    const checkpoint::State state = this->state();
    config::Config config;
    checkpoint::Position position{.step = number};
    position.lineage.run_id = "bench";
    const std::string plain = fmt::format("{}/plain-{}", folder_, world_.rank());
    const std::size_t mib = checkpoint::WritePlan(state.entries()).snapshot_bytes() >> 20U;
    time("dd write",
         [&] { run_shell(fmt::format("dd if=/dev/zero of={} bs=1M count={} conv=fsync status=none", plain, mib)); });
    fs::remove(plain);
    {
      std::optional<checkpoint::Save> save;
      time("begin", [&] { save.emplace(folder_, config, "byte", place_, groups_, state.entries(), position); });
      std::vector<std::byte> snapshot(save->plan().snapshot_bytes());
      checkpoint::take_snapshot(save->plan(), state, *device_, *stream_, snapshot.data());
      stream_->synchronize();
      time("write", [&] { save->write(snapshot.data()); });
      time("commit", [&] { (void)save->commit(); });
      if (world_.rank() == 0) fs::remove_all(save->folder());
      test::barrier(world_);
    }
    time("save", [&] {
      (void)checkpoint::save(folder_, config, "byte", place_, groups_, state, position, *device_, *stream_);
    });
    const std::string saved = checkpoint::path_of(folder_, number);
    drop_cache(saved);
    time("dd read", [&] {
      run_shell(fmt::format("dd if={}/shard-*-{:05}.h5 of=/dev/null bs=1M status=none", saved, world_.rank()));
    });
    drop_cache(saved);
    time("resume", [&] { (void)checkpoint::load(saved, world_, state, *device_, *stream_); });
    if (world_.rank() == 0) fs::remove_all(saved);
    test::barrier(world_);
  }

  void report() {
    log_info(fmt::format("{} ranks, {} MiB of state each\n{:<10}{:>10}{:>10}{:>8}", world_.size(),
                         checkpoint::WritePlan(state().entries()).snapshot_bytes() >> 20U, "", "time_s", "mib_s",
                         "of_dd"));
    const std::map<std::string, std::string> peers{{"write", "dd write"}, {"save", "dd write"}, {"resume", "dd read"}};
    for (const char* what : {"dd write", "begin", "write", "commit", "save", "dd read", "resume"}) {
      const double time_s = median(what);
      const auto peer = peers.find(what);
      const std::size_t mib = checkpoint::WritePlan(state().entries()).snapshot_bytes() >> 20U;
      log_info(fmt::format("{:<10}{:>10.3f}{:>10.0f}{:>8}", what, time_s,
                           static_cast<double>(mib) * static_cast<double>(world_.size()) / time_s,
                           peer == peers.end() ? "" : fmt::format("{:.2f}", median(peer->second) / time_s)));
    }
  }

 private:
  checkpoint::State state() {
    std::vector<checkpoint::Entry> entries;
    for (auto& [name, values] : memory_) {
      entries.push_back({name, &shard_map_, Tensor(values.data(), DType::float32, {std::ssize(values)})});
    }
    return {std::move(entries), [] {}};
  }

  /// From the first rank's begin to the last one's end; the disk is done with what came before, such as discards of
  /// removed files.
  void time(const std::string& what, const std::function<void()>& work) {
    if (world_.rank() == 0) ::sync();
    test::barrier(world_);
    const auto start = std::chrono::steady_clock::now();
    work();
    test::barrier(world_);
    times_[what].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  double median(const std::string& what) {
    std::vector<double>& times = times_.at(what);
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

  comm::Group world_;
  std::string folder_;
  mesh::Place place_;
  mesh::Groups groups_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  parallel::ShardMap shard_map_;
  std::map<std::string, std::vector<float>> memory_;
  std::map<std::string, std::vector<double>> times_;
};

int run(comm::Session& session, int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "bench_checkpoint";
  const int mib = argc > 2 ? std::atoi(argv[2]) : 256, num_samples = argc > 3 ? std::atoi(argv[3]) : 5;  // NOLINT
  fs::create_directories(folder);
  Bench bench(session, folder, mib);
  for (int i = 0; i < num_samples; ++i) bench.sample(i);
  bench.report();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return comm::run_program(argc, argv, [&](comm::Session& session) { return run(session, argc, argv); });
}
