// SPDX-License-Identifier: Apache-2.0
#include "check_machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective_trial.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/plural.hpp"
#include "sft/core/table.hpp"
#include "sft/device/format_bytes.hpp"
#include "sft/device/gpus.hpp"
#include "sft/device/network.hpp"
#include "sft/device/node.hpp"
#include "sft/ops/factory.hpp"
#include "sft/train/start_table.hpp"

namespace sft::apps {

namespace {

/// "12.3", three digits in all.
std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
  return text.data();
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
  [[nodiscard]] std::ptrdiff_t rank_of_most() const { return std::ranges::max_element(of_rank) - of_rank.begin(); }
};

Measured gather(double value, const comm::Group& world) {
  Measured all;
  for (const std::string& text : world.all_gather(std::to_string(value))) all.of_rank.push_back(std::stod(text));
  return all;
}

/// The best of some runs of `work`, which ends on `stream`; all ranks work at the same time.
template <class Work>
double best_time_s(const comm::Group& world, device::Stream& stream, const Work& work) {
  double best_s = 0;
  for (int i = 0; i < 5; ++i) {
    std::int64_t nothing = 0;
    world.sum(std::span(&nothing, 1));
    const auto start = std::chrono::steady_clock::now();
    work();
    stream.synchronize();
    const double time_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best_s = i == 0 ? time_s : std::min(best_s, time_s);
  }
  return best_s;
}

/// "8 x NVIDIA H100 80GB HBM3, 79.11 GiB".
std::string describe_devices(const CheckedMachine& machine) {
  std::map<std::string, int> counts;
  for (const std::string& text : machine.groups.world.all_gather(train::describe_device(machine.device)))
    ++counts[text];
  std::string all;
  for (const auto& [text, count] : counts) all += (all.empty() ? "" : "; ") + std::to_string(count) + " x " + text;
  return all;
}

/// "4 nodes with eth0 25 Gb/s", of each kind of node; empty where no node tells.
std::string describe_networks(const CheckedMachine& machine, const std::vector<int>& nodes) {
  std::string mine;
  for (const std::string& adapter : device::network_adapters()) mine += (mine.empty() ? "" : ", ") + adapter;
  const std::vector<std::string> of_rank = machine.groups.world.all_gather(mine);
  std::map<std::string, std::int64_t> counts;
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    const bool is_first_of_node = std::cmp_equal(nodes[rank], rank);
    if (is_first_of_node && !of_rank[rank].empty()) ++counts[of_rank[rank]];
  }
  std::string all;
  for (const auto& [text, count] : counts) all += (all.empty() ? "" : "; ") + plural(count, "node") + " with " + text;
  return all;
}

/// "node07, GPU 3, GPU-1a2b..., up to 1980 MHz".
std::string describe_own_gpu() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const device::OwnGpu own = device::own_gpu();
  return std::string(host.data()) + ", GPU " + std::to_string(own.index) + ", " + own.uuid +
         (own.clock_hz > 0 ? ", up to " + number(1e-6 * own.clock_hz) + " MHz" : "");
}

/// A line for each rank.
void print_gpus(const CheckedMachine& machine) {
  if (machine.device.kind() != device::Kind::cuda) return;
  Table table({Align::left, Align::left}, 2);
  const std::vector<std::string> of_rank = machine.groups.world.all_gather(describe_own_gpu());
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) table.add({"rank " + std::to_string(rank), of_rank[rank]});
  log_info("\n" + table.text());
}

/// What the rank with the least of it has free.
std::string describe_memory(const CheckedMachine& machine) {
  const std::optional<device::OwnMemory> own = machine.device.own_memory();
  const std::size_t available = own ? own->total_bytes - own->used_bytes : device::node_memory_bytes().value_or(0);
  const double least = gather(static_cast<double>(available), machine.groups.world).least();
  if (least == 0) return "";
  const std::string bytes = device::format_bytes(static_cast<std::size_t>(least));
  return own ? bytes + " of a rank's GPU free, or more" : bytes + " a node, or more, for all its ranks";
}

std::string describe_transport(const CheckedMachine& machine) {
  if (machine.device.kind() == device::Kind::cpu) return "MPI";
  return machine.copies_through_host ? "MPI through the memory of the nodes" : "NCCL";
}

void print_machine(const CheckedMachine& machine, const std::vector<int>& nodes) {
  const mesh::Layout& layout = machine.place.layout();
  Table table({Align::left, Align::left}, 2);
  table.add({"mesh",
             layout.describe() + ", " + plural(layout.size(), "rank") + " on " + train::describe_nodes(layout, nodes)});
  table.add({"device", describe_devices(machine)});
  if (const std::string memory = describe_memory(machine); !memory.empty()) table.add({"memory", memory});
  table.add({"collectives", describe_transport(machine)});
  if (const std::string networks = describe_networks(machine, nodes); !networks.empty()) {
    table.add({"network", networks});
  }
  log_info(table.text());
  constexpr std::size_t tp_axis = 3;
  if (layout.axes_between_nodes(nodes)[tp_axis]) {
    log_warning(
        "tp goes between nodes (its ranks sum activations several times in every block): make tp_size divide "
        "the number of ranks per node");
  }
}

/// Throws unless every collective of every group is right.
void check_collectives(const CheckedMachine& machine, const std::vector<comm::TensorGroup>& groups,
                       CollectiveTrial& trial) {
  std::string error, names;
  for (const comm::TensorGroup& group : groups) {
    const std::string found = trial.find_error(group);
    if (error.empty() && !found.empty()) error = found + " in group " + group.group.name();
    names += (names.empty() ? "" : ", ") + group.group.name();
  }
  machine.groups.world.agree([&] {
    if (error.empty()) return;
    throw Error(ExitStatus::failure, "a collective gave a wrong result: " + error,
                "numbers whose sums are exact went in", "try without this rank's node or GPU, or with another network");
  });
  log_info(names.empty() ? "one rank: there are no collectives to check" : "every collective is right in " + names);
}

void time_collectives(const CheckedMachine& machine, const std::vector<comm::TensorGroup>& groups,
                      const std::vector<int>& nodes, CollectiveTrial& trial, std::size_t large_bytes) {
  using Call = CollectiveTrial::Call;
  if (groups.empty()) return;
  constexpr std::size_t small_bytes = std::size_t{64} << 10;
  const comm::Group& world = machine.groups.world;
  Table table({Align::left, Align::right, Align::left, Align::left, Align::right, Align::right, Align::left}, 2);
  table.add({"group", "ranks", "", "call", device::format_bytes(small_bytes), device::format_bytes(large_bytes), ""});
  for (const comm::TensorGroup& of : groups) {
    const comm::Group& group = of.group;
    std::set<std::string> nodes_of_group;
    for (const std::string& node : group.all_gather(std::to_string(nodes[static_cast<std::size_t>(world.rank())]))) {
      nodes_of_group.insert(node);
    }
    const bool crosses = gather(nodes_of_group.size() > 1 ? 1 : 0, world).most() > 0;
    for (const Call call : {Call::all_gather, Call::reduce_scatter_add, Call::all_reduce, Call::exchange}) {
      if (call == Call::exchange && !of.has_exchanges) continue;
      const Measured small_s = gather(trial.measure_s(group, call, small_bytes), world);
      const Measured large_s = gather(trial.measure_s(group, call, large_bytes), world);
      const double sent_bytes = CollectiveTrial::sent_bytes(call, group.size(), large_bytes);
      table.add({group.name(), std::to_string(group.size()), crosses ? "between nodes" : "in a node",
                 CollectiveTrial::call_names[static_cast<std::size_t>(call)], number(1e6 * small_s.most()) + " us",
                 number(1e-9 * sent_bytes / large_s.most()) + " GB/s",
                 "slowest with rank " + std::to_string(large_s.rank_of_most())});
    }
  }
  log_info(
      "\n" + table.text() +
      "  (the time of a small call, and what a rank sends in a second of large ones; all groups of a kind at once)");
}

/// Products and copies on all ranks at once: a rank that is slow at them is slow in every step.
void time_ranks(const CheckedMachine& machine) {
  const comm::Group& world = machine.groups.world;
  device::Device& device = machine.device;
  const bool is_gpu = device.kind() == device::Kind::cuda;
  const std::int64_t n = is_gpu ? 8192 : 768;
  const DType dtype = machine.config.train.precision == config::Precision::fp32 ? DType::float32 : DType::bf16;
  const std::unique_ptr<device::Stream> stream = device.make_stream();
  const std::unique_ptr<ops::Backend> backend = ops::make_backend(device, *stream);
  const ops::Shapes shapes{
      .tokens = n, .hidden = n, .q_heads = 1, .kv_heads = 1, .head_dim = 64, .mlp = n, .vocab = n, .compute = dtype};
  const std::size_t workspace_bytes = ops::workspace_bytes(device.kind(), device::num_threads(), shapes);
  const std::size_t matrix_bytes = static_cast<std::size_t>(n * n) * size_of(dtype);
  std::array<device::Device::Block, 4> blocks;
  for (std::size_t i = 0; i < 3; ++i) blocks[i] = device.allocate(matrix_bytes);
  blocks[3] = device.allocate(workspace_bytes);
  const auto matrix = [&](std::size_t i) { return Tensor(blocks[i].get(), dtype, {n, n}); };
  backend->set_workspace(
      Tensor(blocks[3].get(), DType::bf16, {static_cast<std::int64_t>(workspace_bytes / size_of(DType::bf16))}));
  for (std::size_t i = 0; i < 3; ++i) backend->fill(matrix(i), 1.0F);

  const double product_s =
      best_time_s(world, *stream, [&] { backend->matmul({.a = matrix(0), .b = matrix(1), .c = matrix(2)}); });
  const double copy_s =
      best_time_s(world, *stream, [&] { device.copy(matrix(1).data, matrix(0).data, matrix_bytes, *stream); });
  const Measured products_s = gather(product_s, world), copies_s = gather(copy_s, world);

  Table table({Align::left, Align::right, Align::left}, 2);
  const auto add = [&](const std::string& what, const Measured& time_s, double amount, const char* unit) {
    const std::string slowest =
        "slowest: rank " + std::to_string(time_s.rank_of_most()) + " with " + number(amount / time_s.most()) + unit;
    table.add({what, number(amount / time_s.median()) + unit, world.size() > 1 ? slowest : ""});
  };
  const auto cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  add(dtype == DType::float32 ? "float32 product" : "bf16 product", products_s, 2e-9 * cube, " GFLOP/s");
  const double promised = is_gpu ? 1e-9 * device::own_gpu().memory_bytes_per_second : 0;
  add(promised > 0 ? "copy in memory, of " + number(promised) + " GB/s" : "copy in memory", copies_s,
      2e-9 * static_cast<double>(matrix_bytes), " GB/s");
  log_info("\n" + table.text());
  constexpr double tolerated = 1.25;
  if (products_s.most() > tolerated * products_s.median()) {
    log_warning("rank " + std::to_string(products_s.rank_of_most()) + " takes " +
                number(products_s.most() / products_s.median()) +
                " times as long for a product as the others (all ranks wait for it in every step): look at its clocks, "
                "its temperature, and what else runs on its node");
  }
}

}  // namespace

void check_machine(const CheckedMachine& machine) {
  const std::size_t large_bytes =
      machine.device.kind() == device::Kind::cuda ? std::size_t{64} << 20 : std::size_t{4} << 20;
  const std::vector<int> nodes = train::nodes_of_ranks(machine.session);
  print_machine(machine, nodes);
  print_gpus(machine);
  const std::vector<comm::TensorGroup> groups = machine.groups.of_tensors();
  CollectiveTrial trial(machine.device, machine.collectives, machine.copies_through_host, large_bytes);
  check_collectives(machine, groups, trial);
  time_collectives(machine, groups, nodes, trial, large_bytes);
  time_ranks(machine);
}

}  // namespace sft::apps
