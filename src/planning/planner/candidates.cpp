// SPDX-License-Identifier: Apache-2.0
// The ways to train that a search goes through.
#include <algorithm>
#include <numeric>
#include <vector>

#include "sft/core/cast.hpp"
#include "sft/core/error.hpp"
#include "sft/planner/search.hpp"

namespace sft::planner {

namespace {

std::vector<int> divisors(std::int64_t n) {
  std::vector<int> result;
  for (int d = 1; d <= n; ++d) {
    if (n % d == 0) result.push_back(d);
  }
  return result;
}

/// How what does not fit on a device is kept out of it, from what costs least.
struct Saving {
  config::ActivationCheckpointing checkpointing;
  bool activation_offload;
  config::Offload optimizer, parameters;
};

class Enumeration {
 public:
  Enumeration(const PlanTask& task, const std::function<bool(const config::ValidConfig&)>& visit)
      : task_(task), visit_(visit) {}

  void run() const {
    const int world = task_.hardware.num_ranks();
    for (const int tp : values("tp_size", task_.base.parallel.tp_size, divisors(task_.hardware.ranks_per_node))) {
      for (const int sp :
           values("sp_size", task_.base.parallel.sp_size, divisors(world / std::gcd(world, std::max(tp, 1))))) {
        for (const int ep : values("ep_size", task_.base.parallel.ep_size, expert_sizes())) {
          const std::int64_t others = std::int64_t{tp} * sp * ep;
          if (others == 0 || world % others != 0) continue;
          for (const int replicas :
               values("dp_replicate_size", task_.base.parallel.dp_replicate_size, divisors(world / others))) {
            if (replicas < 1 || world % (others * replicas) != 0) continue;
            config::Config config = task_.base;
            config.parallel.tp_size = tp;
            config.parallel.sp_size = sp;
            config.parallel.ep_size = ep;
            config.parallel.dp_replicate_size = replicas;
            if (!is_fixed("dp_shard_size"))
              config.parallel.dp_shard_size = checked_cast<int>(world / others / replicas);
            of_mesh(config);
          }
        }
      }
    }
  }

 private:
  [[nodiscard]] bool is_fixed(const char* key) const { return task_.fixed.contains(key); }
  /// `all`, or of a fixed key its value.
  template <class T>
  [[nodiscard]] std::vector<T> values(const char* key, T fixed, std::vector<T> all) const {
    return is_fixed(key) ? std::vector<T>{fixed} : all;
  }
  [[nodiscard]] std::vector<int> expert_sizes() const {
    return task_.base.model.num_experts > 0 ? divisors(task_.base.model.num_experts) : std::vector<int>{1};
  }

  void of_mesh(config::Config config) const {
    const config::Parallel& parallel = config.parallel;
    const bool shares = parallel.dp_shard_size * parallel.sp_size > 1;
    std::vector<int> stages{3, 2, 1};
    // Without shards all stages are one; copies without any are those of the mesh of replicas alone.
    if (!shares) stages = {3};
    if (shares && parallel.dp_replicate_size == 1) stages.push_back(0);
    for (const int stage : values("zero_stage", task_.base.parallel.zero_stage, stages)) {
      config.parallel.zero_stage = stage;
      for (const ReshardSizes& reshard : reshardings(config.parallel)) {
        config.parallel.reshard_after_forward = reshard.kind;
        config.parallel.reshard_size = reshard.num_ranks;
        of_stage(config);
      }
    }
  }

  /// What is kept of a unit between its forward and its backward pass; of stage 3, whose ranks gather units.
  struct ReshardSizes {
    config::Reshard kind;
    int num_ranks;
  };
  [[nodiscard]] std::vector<ReshardSizes> reshardings(const config::Parallel& parallel) const {
    using config::Reshard;
    const config::Parallel& base = task_.base.parallel;
    const int shards = num_ranks(parallel.sizes(), fsdp_axes);
    if (is_fixed("reshard_after_forward")) return {{base.reshard_after_forward, base.reshard_size}};
    if (parallel.zero_stage < 3 || shards == 1) return {{Reshard::always, 1}};
    std::vector<ReshardSizes> all{{Reshard::always, 1}, {Reshard::never, 1}};
    // The second gather stays within a node, where the first does not.
    const int on_node = std::gcd(shards, task_.hardware.ranks_per_node / parallel.tp_size);
    if (on_node > 1 && on_node < shards) all.push_back({Reshard::to_groups, on_node});
    return all;
  }

  void of_stage(config::Config config) const {
    for (const config::SpMethod method : sp_methods(config.parallel.sp_size)) {
      config.parallel.sp_method = method;
      for (const int ulysses : ulysses_sizes(config.parallel)) {
        config.parallel.ulysses_size = ulysses;
        of_method(config);
      }
    }
  }

  /// `auto` leaves the choice to the search.
  [[nodiscard]] std::vector<config::SpMethod> sp_methods(int sp_size) const {
    using Method = config::SpMethod;
    const Method given = task_.base.parallel.sp_method;
    const bool is_open = given == Method::automatic;
    if (sp_size == 1) return {is_open ? Method::ring : given};
    if (is_fixed("sp_method") && !is_open) return {given};
    return {Method::ulysses, Method::ring, Method::all_gather, Method::hybrid};
  }

  /// Of hybrid those between the two that it is made of.
  [[nodiscard]] std::vector<int> ulysses_sizes(const config::Parallel& parallel) const {
    const int given = task_.base.parallel.ulysses_size;
    if (parallel.sp_method != config::SpMethod::hybrid) return {is_fixed("sp_method") ? given : 0};
    std::vector<int> sizes = divisors(parallel.sp_size);
    std::erase_if(sizes, [&](int size) { return size == 1 || size == parallel.sp_size; });
    return given == 0 ? sizes : values("ulysses_size", given, sizes);
  }

  /// With everything that may be searched beside the mesh.
  void of_method(config::Config config) const {
    using Kind = config::OptimizerKind;
    const auto searched = [&]<class T>(const char* key, T given, std::vector<T> all) {
      return task_.searched.contains(key) ? values(key, given, std::move(all)) : std::vector<T>{given};
    };
    const bool sums = config.parallel.dp_shard_size * config.parallel.sp_size * config.parallel.dp_replicate_size > 1;
    const std::vector<DType> both{DType::float32, DType::bf16}, one{DType::float32};
    for (const Kind optim : searched("optim", task_.base.optimizer.optim,
                                     std::vector{Kind::adamw_torch, Kind::adamw_8bit, Kind::adafactor})) {
      config.optimizer.optim = optim;
      for (const DType reduce : searched("reduce_dtype", task_.base.parallel.reduce_dtype, sums ? both : one)) {
        config.parallel.reduce_dtype = reduce;
        for (const DType tp :
             searched("tp_reduce", task_.base.parallel.tp_reduce, config.parallel.tp_size > 1 ? both : one)) {
          config.parallel.tp_reduce = tp;
          of_sums(config);
        }
      }
    }
  }

  void of_sums(const config::Config& config) const {
    // What saves more is slower: behind the first that fits one more is looked at.
    int num_fitting = 0;
    for (const Saving& saving : savings()) {
      num_fitting += of_saving(config, saving) ? 1 : 0;
      if (num_fitting == 2) break;
    }
  }

  [[nodiscard]] std::vector<Saving> savings() const {
    using Checkpointing = config::ActivationCheckpointing;
    using config::Offload;
    const config::Train& train = task_.base.train;
    const bool is_gpu = task_.hardware.kind == device::Kind::cuda;
    std::vector<Saving> result;
    for (const Offload optimizer : values("offload_optimizer", train.offload_optimizer, offloads(is_gpu))) {
      for (const Offload parameters : values("offload_parameters", train.offload_parameters, offloads(is_gpu))) {
        if (!is_fixed("offload_optimizer") && !is_fixed("offload_parameters") && optimizer == Offload::none &&
            parameters != Offload::none) {
          continue;  // moments are the larger part, and the one that is touched once a step
        }
        for (const Checkpointing checkpointing :
             values("activation_checkpointing", train.activation_checkpointing,
                    std::vector{Checkpointing::none, Checkpointing::selective, Checkpointing::full})) {
          const bool may_offload = is_gpu && checkpointing == Checkpointing::full;
          for (const bool moves : {false, true}) {
            if (is_fixed("activation_offload") ? moves != train.activation_offload : moves && !may_offload) continue;
            result.push_back({checkpointing, moves, optimizer, parameters});
          }
        }
      }
    }
    return result;
  }
  [[nodiscard]] static std::vector<config::Offload> offloads(bool is_gpu) {
    using config::Offload;
    return is_gpu ? std::vector{Offload::none, Offload::host} : std::vector{Offload::none};
  }

  /// Whether any micro-batch fits.
  [[nodiscard]] bool of_saving(config::Config config, const Saving& saving) const {
    config.train.activation_checkpointing = saving.checkpointing;
    config.train.activation_offload = saving.activation_offload;
    config.train.offload_optimizer = saving.optimizer;
    config.train.offload_parameters = saving.parameters;
    const std::int64_t data_ranks = std::int64_t{config.parallel.dp_replicate_size} *
                                    std::max(config.parallel.dp_shard_size, 1) * config.parallel.ep_size;
    if (task_.rows_per_step % data_ranks != 0) return false;
    const std::int64_t rows = task_.rows_per_step / data_ranks;
    bool fits = false;
    const bool has_micro_batch = is_fixed("per_device_train_batch_size");
    for (std::int64_t micro_batch = has_micro_batch ? task_.base.train.per_device_train_batch_size : 1;
         micro_batch <= rows; micro_batch *= 2) {
      if (rows % micro_batch != 0) break;
      config.train.per_device_train_batch_size = micro_batch;
      config.train.gradient_accumulation_steps = rows / micro_batch;
      if (is_fixed("gradient_accumulation_steps") &&
          config.train.gradient_accumulation_steps != task_.base.train.gradient_accumulation_steps) {
        continue;
      }
      if (!offer(config)) break;
      fits = true;
      if (has_micro_batch) break;
    }
    return fits;
  }

  /// Whether a larger micro-batch may be worth a look.
  [[nodiscard]] bool offer(const config::Config& config) const {
    try {
      const config::ValidConfig valid = config::validate(config, task_.hardware.num_ranks());
      config::validate_data(valid, task_.max_length, valid->model.vocab_size, "the rows");
      return visit_(valid);
    } catch (const Error&) {  // not legal, and so with any micro-batch
      return false;
    }
  }

  const PlanTask& task_;
  const std::function<bool(const config::ValidConfig&)>& visit_;
};

}  // namespace

void for_each_candidate(const PlanTask& task, const std::function<bool(const config::ValidConfig&)>& visit) {
  Enumeration(task, visit).run();
}

}  // namespace sft::planner
