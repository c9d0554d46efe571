// SPDX-License-Identifier: Apache-2.0
#include "sft/machine/gpus.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "sft/core/ensure.hpp"
#include "sft/core/format.hpp"

namespace sft::machine {

namespace {

std::string version_of(int compute_capability) {
  return fmt::format("{}.{}", compute_capability / 10, compute_capability % 10);
}

Error no_gpu(const VisibleGpus& visible) {
  if (visible.is_broken) {
    return {ExitStatus::configuration, "the GPUs of this node cannot be used", visible.problem,
            "mend that, or set [device] backend = cpu"};
  }
  return {ExitStatus::configuration, "no CUDA device", visible.problem,
          "check the driver with nvidia-smi and CUDA_VISIBLE_DEVICES, or set [device] backend = cpu"};
}

Error too_old(const Gpu& gpu) {
  return {ExitStatus::configuration, fmt::format("the GPU {} cannot run this program", gpu.name),
          fmt::format("its compute capability is {}, the least is {}", version_of(gpu.compute_capability),
                      version_of(least_compute_capability)),
          "use a GPU of the Ampere generation or later, or set [device] backend = cpu"};
}

Error too_few(std::size_t num_ranks, std::size_t num_gpus) {
  return {ExitStatus::configuration,
          fmt::format("{} on a node where they see {}", plural(static_cast<std::int64_t>(num_ranks), "rank"),
                      plural(static_cast<std::int64_t>(num_gpus), "GPU")),
          "each rank needs one of its own",
          "start fewer ranks a node, let every rank see all GPUs of its node or another one each, or let ranks share "
          "GPUs with [device] comm = host"};
}

/// The index in `visible` of the usable GPU that the fewest ranks have, the first of equals; -1: none is usable.
int least_used(const VisibleGpus& visible, std::map<std::string, int>& num_users) {
  int best = -1;
  for (std::size_t i = 0; i < visible.gpus.size(); ++i) {
    const Gpu& gpu = visible.gpus[i];
    if (gpu.compute_capability < least_compute_capability) continue;
    if (best < 0 || num_users[gpu.uuid] < num_users[visible.gpus[best].uuid]) {
      best = static_cast<int>(i);
    }
  }
  return best;
}

}  // namespace

std::string uuid_text(const std::array<unsigned char, 16>& bytes) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    constexpr std::array<std::size_t, 5> group_begins{0, 4, 6, 8, 10};
    if (std::ranges::find(group_begins, i) != group_begins.end()) text += "-";
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

std::vector<DealtGpu> deal_gpus(const std::vector<VisibleGpus>& seen, bool may_share) {
  std::set<std::string> all;
  for (const VisibleGpus& visible : seen) {
    for (const Gpu& gpu : visible.gpus) {
      if (gpu.compute_capability >= least_compute_capability) all.insert(gpu.uuid);
    }
  }
  std::map<std::string, int> num_users;
  std::vector<DealtGpu> dealt;
  const auto uuid_of = [&](std::size_t rank) -> const std::string& { return seen[rank].gpus[dealt[rank].index].uuid; };
  for (const VisibleGpus& visible : seen) {
    DealtGpu& mine = dealt.emplace_back();
    const int index = least_used(visible, num_users);
    if (visible.gpus.empty()) {
      mine.refusal = no_gpu(visible);
    } else if (index < 0) {
      mine.refusal = too_old(visible.gpus.front());
    } else if (const std::string& uuid = visible.gpus[index].uuid; num_users[uuid] > 0 && !may_share) {
      mine.refusal = too_few(seen.size(), all.size());
    } else {
      mine.index = index;
      ++num_users[uuid];
    }
  }
  for (std::size_t rank = 0; rank < dealt.size(); ++rank) {
    if (dealt[rank].refusal) continue;
    dealt[rank].num_sharing = num_users[uuid_of(rank)];
    dealt[rank].compute_capability = seen[rank].gpus[dealt[rank].index].compute_capability;
  }
  return dealt;
}

// A line for the problem, behind a digit for is_broken, then one for each GPU, its name last: it may have spaces.
std::string to_text(const VisibleGpus& visible) {
  std::string text = fmt::format("{:d} {}\n", visible.is_broken, visible.problem);
  for (const Gpu& gpu : visible.gpus) {
    text += fmt::format("{} {} {} {}\n", gpu.uuid, gpu.compute_capability, gpu.memory_bytes, gpu.name);
  }
  return text;
}

VisibleGpus from_text(const std::string& text) {
  VisibleGpus visible;
  std::istringstream lines(text);
  lines >> visible.is_broken;
  lines.get();
  SFT_ENSURE(static_cast<bool>(std::getline(lines, visible.problem)), "a text of GPUs has its first line");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Gpu& gpu = visible.gpus.emplace_back();
    words >> gpu.uuid >> gpu.compute_capability >> gpu.memory_bytes;
    SFT_ENSURE(!words.fail(), "a text of GPUs has three words and a name a line");
    std::getline(words >> std::ws, gpu.name);
  }
  return visible;
}

}  // namespace sft::machine
