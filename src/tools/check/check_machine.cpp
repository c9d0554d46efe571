// SPDX-License-Identifier: Apache-2.0
#include "sft/check/check_machine.hpp"

#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective_trial.hpp"
#include "rank_trial.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/table.hpp"
#include "sft/device/factory.hpp"
#include "sft/machine/gpus.hpp"
#include "sft/machine/node.hpp"
#include "sft/rank/nodes.hpp"

namespace sft::check {

namespace {

/// Of the tensors of which the time of a small collective is told.
constexpr std::size_t small_bytes = std::size_t{64} << 10;

/// "12.3", three digits.
std::string number(double value) {
  if (value < 1) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

/// What all ranks of the world measured, in rank order.
struct Measured {
  std::vector<double> of_rank;

  [[nodiscard]] double least() const { return *std::ranges::min_element(of_rank); }
  [[nodiscard]] double most() const { return *std::ranges::max_element(of_rank); }
  [[nodiscard]] double median() const {
    std::vector<double> sorted = of_rank;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
  [[nodiscard]] std::ptrdiff_t rank_of_least() const { return std::ranges::min_element(of_rank) - of_rank.begin(); }
  [[nodiscard]] std::ptrdiff_t rank_of_most() const { return std::ranges::max_element(of_rank) - of_rank.begin(); }
};

Measured gather(double value, const comm::Group& world) {
  return {world.all_gather(std::span<const double>(&value, 1))};
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The first of `least`, 2 x least, ... that takes a rank time_s(size) >= long_enough_s, which can be measured well; at
/// most `most`. Collective over the world.
template <class Time>
std::int64_t find_size(const comm::Group& world, std::int64_t least, std::int64_t most, double long_enough_s,
                       const Time& time_s) {
  std::int64_t size = least;
  for (; size < most; size = std::min(2 * size, most)) {
    std::array<double, 1> slowest_s{time_s(size)};
    world.max(std::span<double>(slowest_s));
    if (slowest_s[0] >= long_enough_s) break;
  }
  return size;
}

/// The best of `num_runs` runs of `work`, which ends with wait(); all ranks work at the same time.
template <class Trial, class Work>
double best_time_s(const comm::Group& world, int num_runs, Trial& trial, const Work& work) {
  double best_s = 0;
  for (int i = 0; i < num_runs; ++i) {
    trial.wait();
    std::int64_t nothing = 0;
    world.sum(std::span(&nothing, 1));
    const auto start = std::chrono::steady_clock::now();
    (trial.*work)();
    trial.wait();
    const double time_s = seconds_since(start);
    best_s = i == 0 ? time_s : std::min(best_s, time_s);
  }
  return best_s;
}

/// "8 x NVIDIA H100 80GB HBM3, 79.11 GiB".
std::string describe_devices(const CheckedMachine& machine) {
  std::map<std::string, int> counts;
  for (const std::string& text : machine.groups.world.all_gather(rank::describe_device(machine.device))) ++counts[text];
  std::vector<std::string> all;
  for (const auto& [text, count] : counts) all.push_back(fmt::format("{} x {}", count, text));
  return fmt::format("{}", fmt::join(all, "; "));
}

/// "4 nodes with eth0 25 Gb/s", of each kind of node; empty where no node tells.
std::string describe_networks(const CheckedMachine& machine, const IndexedVector<WorldRank, int>& nodes) {
  const std::string mine = fmt::format("{}", fmt::join(machine::network_adapters(), ", "));
  const IndexedVector<WorldRank, std::string> of_rank(machine.groups.world.all_gather(mine));
  std::map<std::string, std::int64_t> counts;
  for (const WorldRank rank : of_rank.indices()) {
    const bool is_first_of_node = nodes[rank] == rank;
    if (is_first_of_node && !of_rank[rank].empty()) ++counts[of_rank[rank]];
  }
  std::vector<std::string> all;
  for (const auto& [text, count] : counts) all.push_back(fmt::format("{} with {}", plural(count, "node"), text));
  return fmt::format("{}", fmt::join(all, "; "));
}

/// "node07, GPU 3, GPU-1a2b..., up to 1980 MHz".
std::string describe_own_gpu() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const device::OwnGpu own = device::own_gpu();
  return fmt::format("{}, GPU {}, {}{}", host.data(), own.index, own.uuid,
                     own.clock_hz > 0 ? fmt::format(", up to {} MHz", number(1e-6 * own.clock_hz)) : "");
}

/// A line for each rank.
void print_gpus(const CheckedMachine& machine) {
  if (machine.device.kind() != device::Kind::cuda) return;
  Table table({Align::left, Align::left}, 2);
  const std::vector<std::string> of_rank = machine.groups.world.all_gather(describe_own_gpu());
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) table.add({fmt::format("rank {}", rank), of_rank[rank]});
  log_info(table.text());
}

/// What the rank with the least of it has free.
std::string describe_memory(const CheckedMachine& machine) {
  const std::optional<device::OwnMemory> own = machine.device.own_memory();
  const std::size_t available = own ? own->total_bytes - own->used_bytes : machine::node_memory_bytes().value_or(0);
  const double least = gather(static_cast<double>(available), machine.groups.world).least();
  if (least == 0) return "";
  const std::string bytes = format_bytes(static_cast<std::size_t>(least));
  return fmt::format("at least {} {}", bytes, own ? "free on each rank's GPU" : "on each node, for all its ranks");
}

std::string describe_transport(const CheckedMachine& machine) {
  if (machine.device.kind() == device::Kind::cpu) return "MPI";
  switch (machine.way) {
    case comm::Transport::Way::direct:
      return "NCCL";
    case comm::Transport::Way::host_copy:
      return "MPI through the memory of the nodes";
    case comm::Transport::Way::cuda_mpi:
      return "MPI from the memory of the GPUs";
  }
  return "";
}

void print_machine(const CheckedMachine& machine, const IndexedVector<WorldRank, int>& nodes) {
  const mesh::Layout& layout = machine.place.layout();
  Table table({Align::left, Align::left}, 2);
  table.add({"mesh", fmt::format("{}, {} on {}", layout.describe(), plural(layout.size(), "rank"),
                                 rank::describe_nodes(layout, nodes))});
  table.add({"device", describe_devices(machine)});
  if (const std::string memory = describe_memory(machine); !memory.empty()) table.add({"memory", memory});
  table.add({"collectives", describe_transport(machine)});
  if (const std::string networks = describe_networks(machine, nodes); !networks.empty()) {
    table.add({"network", networks});
  }
  log_info(table.text());
  if (layout.axes_between_nodes(nodes).contains(Axis::tp)) {
    log_warning(
        "tp goes between nodes (its ranks sum activations several times in every block): make tp_size divide "
        "the number of ranks per node");
  }
}

/// Throws unless every collective of every group is right on tensors of up to `bytes`.
void check_collectives(const CheckedMachine& machine, const std::vector<comm::TensorGroup>& groups,
                       CollectiveTrial& trial, std::size_t bytes) {
  std::string error;
  for (const comm::TensorGroup& group : groups) {
    const std::string found = trial.find_error(group, bytes);
    if (error.empty() && !found.empty()) error = fmt::format("{} in group {}", found, group.group.name());
  }
  machine.groups.world.agree([&] {
    if (error.empty()) return;
    throw Error(ExitStatus::failure, fmt::format("a collective gave a wrong result: {}", error),
                "numbers whose sums are exact went in", "try without this rank's node or GPU, or with another network");
  });
}

/// Bytes of the tensors of which the rate of collectives is told: all groups can send them in a short time.
std::size_t find_large_bytes(const CheckedMachine& machine, const std::vector<comm::TensorGroup>& groups,
                             CollectiveTrial& trial, std::size_t most_bytes) {
  constexpr double long_enough_s = 10e-3;
  auto bytes = static_cast<std::int64_t>(most_bytes);
  for (const comm::TensorGroup& group : groups) {
    using Call = CollectiveTrial::Call;
    const Call call = CollectiveTrial::has(group, Call::all_reduce) ? Call::all_reduce : Call::all_gather;
    bytes = find_size(machine.groups.world, small_bytes, bytes, long_enough_s,
                      [&](std::int64_t size) { return trial.measure_s(group.group, call, size); });
  }
  return static_cast<std::size_t>(bytes);
}

std::string names_of(const std::vector<comm::TensorGroup>& groups) {
  std::vector<std::string> names;
  for (const comm::TensorGroup& group : groups) names.push_back(group.group.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

void time_collectives(const CheckedMachine& machine, const std::vector<comm::TensorGroup>& groups,
                      const IndexedVector<WorldRank, int>& nodes, CollectiveTrial& trial, std::size_t large_bytes) {
  using Call = CollectiveTrial::Call;
  const comm::Group& world = machine.groups.world;
  Table table({Align::left, Align::right, Align::left, Align::left, Align::right, Align::right, Align::left}, 2);
  table.add({"group", "ranks", "", "call", format_bytes(small_bytes), format_bytes(large_bytes), ""});
  for (const comm::TensorGroup& of : groups) {
    const comm::Group& group = of.group;
    const std::int64_t own_node = nodes[machine.place.rank()];
    const std::vector<std::int64_t> nodes_of_group = group.all_gather(std::span(&own_node, 1));
    const bool is_split = std::ranges::count(nodes_of_group, own_node) < group.size();
    const bool crosses = gather(is_split ? 1 : 0, world).most() > 0;
    for (const Call call : CollectiveTrial::calls) {
      if (!CollectiveTrial::has(of, call)) continue;
      const Measured small_s = gather(trial.measure_s(group, call, small_bytes), world);
      const Measured large_s = gather(trial.measure_s(group, call, large_bytes), world);
      const double sent_bytes = CollectiveTrial::sent_bytes(call, group.size(), large_bytes);
      table.add({group.name(), std::to_string(group.size()), crosses ? "between nodes" : "in a node",
                 CollectiveTrial::call_names[static_cast<std::size_t>(call)],
                 fmt::format("{} us", number(1e6 * small_s.most())),
                 fmt::format("{} GB/s", number(1e-9 * sent_bytes / large_s.most())),
                 fmt::format("slowest with rank {}", large_s.rank_of_most())});
    }
  }
  log_info(fmt::format(
      "\n{}  (the time of a small call, and what a rank sends in a second of large ones; all groups of a kind at once)",
      table.text()));
}

/// What a rank's processor did.
struct RankTimes {
  double product_s = 0, num_flops = 0;
  double copy_s = 0, num_bytes = 0;
  std::optional<machine::GpuClock> clock;  ///< while it multiplied
};

/// Products and copies on all ranks at once, as large as a step's or as can be measured in a short time.
RankTimes time_rank(const CheckedMachine& machine, DType dtype) {
  constexpr double long_enough_s = 20e-3;
  constexpr int num_runs = 5;
  const comm::Group& world = machine.groups.world;
  device::Device& device = machine.device;
  const bool is_gpu = device.kind() == device::Kind::cuda;
  RankTimes times;
  constexpr std::int64_t least_n = 128, most_n = 8192;
  const std::int64_t n = find_size(world, least_n, most_n, long_enough_s, [&](std::int64_t size) {
    ProductTrial trial(device, dtype, size);
    return best_time_s(world, 2, trial, &ProductTrial::multiply);
  });
  ProductTrial products(device, dtype, n);
  times.num_flops = products.num_flops();
  times.product_s = best_time_s(world, num_runs, products, &ProductTrial::multiply);
  if (is_gpu) times.clock = clock_under_load(products, times.product_s);

  constexpr std::int64_t least_bytes = std::int64_t{1} << 20;
  const std::int64_t most_bytes = std::int64_t{is_gpu ? 256 : 32} << 20;
  const std::int64_t bytes = find_size(world, least_bytes, most_bytes, long_enough_s, [&](std::int64_t size) {
    CopyTrial trial(device, size);
    return best_time_s(world, 2, trial, &CopyTrial::copy);
  });
  CopyTrial copies(device, bytes);
  times.num_bytes = copies.num_bytes();
  times.copy_s = best_time_s(world, num_runs, copies, &CopyTrial::copy);
  return times;
}

/// "rank 3: its temperature; rank 7: its power limit"; empty where nothing holds a clock down.
std::string describe_held(const RankTimes& times, const comm::Group& world) {
  const std::vector<std::string> of_rank = world.all_gather(times.clock ? times.clock->held_by : "");
  std::vector<std::string> all;
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    if (!of_rank[rank].empty()) all.push_back(fmt::format("rank {}: {}", rank, of_rank[rank]));
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

void time_ranks(const CheckedMachine& machine) {
  const comm::Group& world = machine.groups.world;
  const bool is_gpu = machine.device.kind() == device::Kind::cuda;
  const DType dtype = machine.config->train.precision == config::Precision::fp32 ? DType::float32 : DType::bf16;
  const RankTimes times = time_rank(machine, dtype);

  Table table({Align::left, Align::right, Align::left}, 2);
  const auto add = [&](const std::string& what, const Measured& rates, const char* unit) {
    const std::string slowest =
        fmt::format("slowest: rank {} with {}{}", rates.rank_of_least(), number(rates.least()), unit);
    table.add({what, number(rates.median()) + unit, world.size() > 1 ? slowest : ""});
  };
  const Measured products = gather(1e-9 * times.num_flops / times.product_s, world);
  add(dtype == DType::float32 ? "float32 product" : "bf16 product", products, " GFLOP/s");
  const double promised = is_gpu ? 1e-9 * device::own_gpu().memory_bytes_per_second : 0;
  add(promised > 0 ? fmt::format("copy in memory, of {} GB/s", number(promised)) : "copy in memory",
      gather(1e-9 * times.num_bytes / times.copy_s, world), " GB/s");
  if (gather(times.clock ? 1 : 0, world).least() > 0) {
    add(fmt::format("clock in products, of {} MHz", number(1e-6 * times.clock->most_hz)),
        gather(1e-6 * times.clock->now_hz, world), " MHz");
  }
  const std::string held = describe_held(times, world);
  log_info(
      fmt::format("\n{}{}", table.text(), held.empty() ? "" : fmt::format("  (what holds a clock down: {})\n", held)));
  constexpr double tolerated = 1.25;
  if (products.median() > tolerated * products.least()) {
    log_warning(
        fmt::format("rank {} takes {} times as long for a product as the others (all ranks wait for it in every step): "
                    "look at its clocks, its temperature, and what else runs on its node",
                    products.rank_of_least(), number(products.median() / products.least())));
  }
}

}  // namespace

void check_machine(const CheckedMachine& machine) {
  const std::size_t most_bytes =
      machine.device.kind() == device::Kind::cuda ? std::size_t{64} << 20 : std::size_t{4} << 20;
  const IndexedVector<WorldRank, int> nodes = rank::nodes_of_ranks(machine.session);
  print_machine(machine, nodes);
  print_gpus(machine);
  const std::vector<comm::TensorGroup> groups = machine.groups.of_tensors();
  if (groups.empty()) {
    log_info("one rank: there are no collectives to check");
  } else {
    CollectiveTrial trial(machine.device, machine.collectives, machine.way, most_bytes);
    check_collectives(machine, groups, trial, small_bytes);
    const std::size_t large_bytes = find_large_bytes(machine, groups, trial, most_bytes);
    check_collectives(machine, groups, trial, large_bytes);
    log_info(fmt::format("every collective is right in {}", names_of(groups)));
    time_collectives(machine, groups, nodes, trial, large_bytes);
  }
  time_ranks(machine);
}

}  // namespace sft::check
