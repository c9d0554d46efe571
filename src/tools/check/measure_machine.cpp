// SPDX-License-Identifier: Apache-2.0
#include "sft/check/measure_machine.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "call_trial.hpp"
#include "op_trial.hpp"
#include "rank_trial.hpp"
#include "sft/core/error.hpp"
#include "sft/machine/node.hpp"
#include "sft/ops/factory.hpp"
#include "sft/rank/nodes.hpp"

namespace sft::check {

namespace {

int ranks_per_node_of(const CheckedMachine& machine) {
  const IndexedVector<WorldRank, int> nodes = rank::nodes_of_ranks(machine.session);
  const int size = machine.groups.world.size(), own = machine.session.node().size();
  bool is_even = size % own == 0;
  for (const WorldRank rank : nodes.indices()) is_even = is_even && nodes[rank] == static_cast<int>(rank) / own * own;
  std::array<std::int64_t, 1> uneven{is_even ? 0 : 1};
  machine.groups.world.max(std::span<std::int64_t>(uneven));
  machine.groups.world.agree([&] {
    if (uneven[0] == 0) return;
    throw_config_error("the machine cannot be described",
                       "its nodes have different numbers of ranks, or these are not numbered node by node",
                       "start the check with equally many ranks on each node, by node");
  });
  return own;
}

/// Seconds in which all ranks of a node write and sync a file each. Collective.
double write_rate(const CheckedMachine& machine, const std::string& folder, int ranks_per_node) {
  constexpr std::size_t file_bytes = std::size_t{16} << 20;
  const std::string path = fmt::format("{}/.sft-check-{}", folder, machine.groups.world.rank());
  const std::vector<char> bytes(file_bytes, 'x');
  double seconds = 0;
  machine.groups.world.agree([&] {
    const auto start = std::chrono::steady_clock::now();
    const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    const bool is_written =
        file >= 0 && ::write(file, bytes.data(), file_bytes) == static_cast<ssize_t>(file_bytes) && ::fsync(file) == 0;
    const int error = errno;
    if (file >= 0) ::close(file);
    ::unlink(path.c_str());
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!is_written) {
      throw_config_error(fmt::format("cannot write {}", path), std::strerror(error),
                         "start the check in a folder that can be written to");
    }
  });
  std::array<double, 1> slowest{seconds};
  machine.groups.world.max(std::span<double>(slowest));
  return static_cast<double>(file_bytes) * ranks_per_node / slowest[0];
}

/// From the time of a large exchange, and that of a small one.
simulator::Link link_of(const std::vector<simulator::MeasuredCalls>& measured, bool is_between,
                        const simulator::Link& otherwise) {
  for (const simulator::MeasuredCalls& calls : measured) {
    if (calls.call != "exchange" || (calls.span.num_nodes > 1) != is_between) continue;
    const simulator::MeasuredCalls::Point &small = calls.points.front(), &large = calls.points.back();
    return {.bytes_per_s = large.bytes / large.seconds, .hop_s = small.seconds};
  }
  return otherwise;
}

/// Copies between the device and the memory of its node, of which a clocked device counts bytes one way.
double host_rate(const CheckedMachine& machine, const Window& window) {
  constexpr std::size_t bytes = std::size_t{16} << 20;
  const device::Device::Block on_device = machine.device.allocate(bytes);
  const device::Device::Block pinned = machine.device.allocate(bytes, device::Space::pinned);
  const auto stream = machine.device.make_stream(device::Priority::communication);
  machine.device.fill_zero(on_device.get(), bytes, *stream);
  const double seconds = window.seconds_of([&] { machine.device.copy(pinned.get(), on_device.get(), bytes, *stream); },
                                           [&] { stream->synchronize(); });
  return static_cast<double>(bytes) / seconds;
}

/// What ranks on CPUs wait for each other, in groups of all forms, between passes over as much as the cache of
/// a core holds: whose turn it is finds little of its own there.
std::vector<simulator::MeasuredWaits> waits_of(const CheckedMachine& machine, const std::vector<simulator::Span>& spans,
                                               int ranks_per_node, const Window& window) {
  constexpr std::int64_t elements = std::int64_t{1} << 16;
  const device::Device::Block memory = machine.device.allocate(2 * elements * sizeof(float));
  const auto stream = machine.device.make_stream();
  const std::unique_ptr<ops::Backend> ops = ops::make_backend(machine.device, *stream);
  const Tensor both(memory.get(), DType::float32, {2, elements});
  ops->run(ops::Fill{both.view({2 * elements}), 0});
  const std::function<void()> work = [&] { ops->run(ops::Add{both.rows(0, 1), both.rows(1, 1)}); };
  std::vector<simulator::MeasuredWaits> waits;
  for (const simulator::Span& span : spans) {
    for (simulator::MeasuredWaits& of : measure_waits(machine, span, ranks_per_node, 2 * window.seconds, work)) {
      waits.push_back(std::move(of));
    }
  }
  return waits;
}

/// All forms of groups that meshes make of the nodes: dividers of their ranks, in a node and over all nodes.
std::vector<simulator::Span> spans_of(int ranks_per_node, int num_nodes) {
  std::vector<simulator::Span> spans;
  for (const int nodes : num_nodes == 1 ? std::vector{1} : std::vector{1, num_nodes}) {
    for (int ranks = 1; ranks <= ranks_per_node; ++ranks) {
      if (ranks_per_node % ranks == 0 && ranks * nodes > 1)
        spans.push_back({.num_nodes = nodes, .ranks_per_node = ranks});
    }
  }
  return spans;
}

}  // namespace

simulator::Hardware measure_machine(const CheckedMachine& machine, const std::string& folder, double start_s) {
  const comm::Group& world = machine.groups.world;
  const bool is_gpu = machine.device.kind() == device::Kind::cuda;
  const DType dtype = machine.config->train.precision == config::Precision::fp32 ? DType::float32 : DType::bf16;
  simulator::Hardware hardware;
  hardware.kind = machine.device.kind();
  hardware.ranks_per_node = ranks_per_node_of(machine);
  hardware.num_nodes = world.size() / hardware.ranks_per_node;
  hardware.start_s = start_s;
  hardware.description = fmt::format("measured in {}", dtype == DType::bf16 ? "bf16" : "float32");
  hardware.name = "here";
  hardware.node_bytes = machine::node_memory_bytes().value_or(0);
  if (const auto own = machine.device.own_memory()) hardware.device_bytes = own->total_bytes;
  hardware.rates.overlaps = is_gpu;

  double share = 1;  // of a core, that a rank has
  if (!is_gpu) {
    hardware.cores_per_node = machine::cores_of_this_process().of_job;
    share = std::min(1.0, static_cast<double>(hardware.cores_per_node) / hardware.ranks_per_node);
  }
  // So long that each rank has its turns on the cores several times.
  constexpr double window_of_core_s = 8e-3;
  const Window window{world, window_of_core_s / share, share};
  OpTrial(machine.device, dtype, window).measure(hardware.rates);
  hardware.rates.host_bytes_per_s = host_rate(machine, window);
  const std::vector<simulator::Span> spans = spans_of(hardware.ranks_per_node, hardware.num_nodes);
  for (const simulator::Span& span : spans) {
    for (simulator::MeasuredCalls& calls : measure_calls(machine, span, hardware.ranks_per_node, window.seconds)) {
      hardware.network.measured.push_back(std::move(calls));
    }
  }
  if (!is_gpu) hardware.network.waits = waits_of(machine, spans, hardware.ranks_per_node, window);
  // Of forms of groups that this mesh does not have.
  const simulator::Link memory{.bytes_per_s = hardware.rates.memory_bytes_per_s / 2, .hop_s = 0};
  hardware.network.within = link_of(hardware.network.measured, /*is_between=*/false, memory);
  hardware.network.between = link_of(hardware.network.measured, /*is_between=*/true, hardware.network.within);
  hardware.write_bytes_per_s = write_rate(machine, folder, hardware.ranks_per_node);
  std::array<double, 2> slowest{start_s, 0};
  world.max(std::span<double>(slowest));
  hardware.start_s = slowest[0];
  return hardware;
}

}  // namespace sft::check
