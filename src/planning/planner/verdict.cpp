// SPDX-License-Identifier: Apache-2.0
#include "sft/planner/verdict.hpp"

#include <fmt/core.h>
#include <algorithm>

#include "sft/core/format.hpp"
#include "sft/planner/search.hpp"

namespace sft::planner {

namespace {

/// "the largest part are 96 GiB of activations"
std::string largest_part(const rank::MemoryTable& memory) {
  std::size_t largest = 0;
  for (std::size_t i = 1; i < device::num_labels; ++i) {
    if (memory.labels[i].most_bytes > memory.labels[largest].most_bytes) largest = i;
  }
  return fmt::format("the largest part are {} of {}", format_bytes(memory.labels[largest].most_bytes),
                     device::name_of(static_cast<device::Label>(largest)));
}

}  // namespace

Room room_of(const simulator::Hardware& hardware) {
  return {.gpu_bytes = static_cast<std::size_t>((1 - reserved_share) * static_cast<double>(hardware.device_bytes)),
          .node_bytes = hardware.node_bytes,
          .ranks_per_node = hardware.ranks_per_node,
          .whose = hardware.name};
}

namespace {

/// Without the copies of what is saved, where only they are too much for the node and may be left out.
Verdict skip_copies(Verdict of_node, const rank::MemoryTable& memory, const Room& room) {
  const std::size_t of_rank = memory.labels[static_cast<std::size_t>(device::Label::snapshot)].most_bytes;
  const std::size_t copies_bytes = of_rank * static_cast<std::size_t>(of_node.ranks_per_node);
  if (!room.may_skip_copies || of_node.fits()) return of_node;
  if (of_node.needed_bytes > of_node.present_bytes + copies_bytes) return of_node;
  of_node.lacking_bytes = of_node.needed_bytes - of_node.present_bytes;
  of_node.needed_bytes -= copies_bytes;
  return of_node;
}

}  // namespace

Verdict judge(const rank::MemoryTable& memory, device::Kind kind, const Room& room) {
  const bool is_gpu = kind == device::Kind::cuda;
  const std::size_t of_rank = is_gpu ? memory.on_node.most_bytes : memory.total.most_bytes;
  int on_node = room.ranks_per_node;
  if (room.takes_more_nodes && of_rank > 0) {
    on_node = static_cast<int>(std::clamp<std::size_t>(room.node_bytes / of_rank, 1, room.ranks_per_node));
  }
  const Verdict of_node = skip_copies({.is_known = room.node_bytes > 0,
                                       .is_of_gpu = false,
                                       .needed_bytes = of_rank * static_cast<std::size_t>(on_node),
                                       .present_bytes = room.node_bytes,
                                       .ranks_per_node = on_node,
                                       .num_nodes = (room.ranks_per_node + on_node - 1) / on_node},
                                      memory, room);
  Verdict of_gpu = of_node;
  of_gpu.is_known = is_gpu && room.gpu_bytes > 0;
  of_gpu.is_of_gpu = true;
  of_gpu.needed_bytes = memory.on_gpu.most_bytes;
  of_gpu.present_bytes = room.gpu_bytes;
  if (!of_gpu.is_known) return of_node;
  return of_gpu.fits() && of_node.is_known && !of_node.fits() ? of_node : of_gpu;
}

std::string describe(const Verdict& verdict, const rank::MemoryTable& memory, const Room& room) {
  if (!verdict.is_known) return "";
  const std::string nodes = verdict.num_nodes > 1 ? fmt::format("on {} nodes, ", verdict.num_nodes) : "";
  const std::string who = verdict.is_of_gpu            ? "a rank takes"
                          : verdict.ranks_per_node > 1 ? fmt::format("{} ranks of a node take", verdict.ranks_per_node)
                                                       : "the rank of a node takes";
  const std::string needs = fmt::format("{}{} {} of {} ({})", nodes, who, format_bytes(verdict.needed_bytes),
                                        format_bytes(verdict.present_bytes), room.whose);
  if (verdict.fits()) {
    const std::string copies =
        verdict.lacking_bytes == 0
            ? ""
            : fmt::format("; a node lacks {} for copies of what is saved: checkpoint.async = auto goes without them",
                          format_bytes(verdict.lacking_bytes));
    return fmt::format("yes: {}, {} to spare{}", needs, format_bytes(verdict.present_bytes - verdict.needed_bytes),
                       copies);
  }
  return fmt::format("NO: {}, {} too much; {}. sft-plan finds what fits", needs,
                     format_bytes(verdict.needed_bytes - verdict.present_bytes), largest_part(memory));
}

std::string describe_duration(std::int64_t num_steps, const StepTime& time, const simulator::Hardware& hardware) {
  constexpr double hour_s = 3600;
  return fmt::format("{} of {:.3g} s on {}: {:.3g} hours", plural(num_steps, "step"), time.step_s, hardware.name,
                     run_s(num_steps, time, hardware) / hour_s);
}

}  // namespace sft::planner
