// SPDX-License-Identifier: Apache-2.0
// What a run computes on, from what its ranks see.
#include "sft/train/choose_device.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <tuple>

#include "sft/rank/machine.hpp"
#include "support/config_error.hpp"

namespace sft::train {

using config::BackendChoice;
using config::CommChoice;

BOOST_AUTO_TEST_CASE(the_backend_follows_from_the_wish_and_from_what_all_ranks_see) {
  struct Row {
    BackendChoice wanted;
    GpuCounts counts;  // ranks, seeing, served
    Verdict verdict;
  };
  const Row table[] = {
      {BackendChoice::automatic, {1, 0, 0}, Verdict::cpu},
      {BackendChoice::automatic, {1, 1, 1}, Verdict::cuda},
      {BackendChoice::automatic, {16, 0, 0}, Verdict::cpu},
      {BackendChoice::automatic, {16, 16, 16}, Verdict::cuda},
      {BackendChoice::automatic, {16, 16, 0}, Verdict::cpu_beside_gpus},  // 16 ranks, one GPU
      {BackendChoice::automatic, {16, 8, 0}, Verdict::cpu_beside_gpus},   // half of each node's ranks see none
      {BackendChoice::automatic, {16, 8, 8}, Verdict::refused},           // one node of two has none
      {BackendChoice::automatic, {16, 16, 8}, Verdict::refused},          // one node of two has too few
      {BackendChoice::automatic, {16, 0, 0, 16}, Verdict::refused},       // an old driver
      {BackendChoice::automatic, {16, 8, 8, 8}, Verdict::refused},        // on one node of two
      {BackendChoice::cuda, {16, 16, 16}, Verdict::cuda},
      {BackendChoice::cuda, {16, 16, 8}, Verdict::refused},
      {BackendChoice::cuda, {16, 16, 0}, Verdict::refused},
      {BackendChoice::cuda, {1, 0, 0}, Verdict::refused},
      {BackendChoice::cpu, {16, 0, 0, 16}, Verdict::cpu},
      {BackendChoice::cpu, {16, 16, 16}, Verdict::cpu},
      {BackendChoice::cpu, {1, 0, 0}, Verdict::cpu},
  };
  for (const Row& row : table) {
    BOOST_TEST((judge(row.wanted, row.counts) == row.verdict),
               row.counts.ranks << " ranks, " << row.counts.seeing << " see, " << row.counts.served << " served");
  }
}

BOOST_AUTO_TEST_CASE(tensors_of_gpus_travel_as_comm_says) {
  using Way = comm::Transport::Way;
  const auto way = [](CommChoice comm, device::Kind kind) {
    return transport_of({.backend = BackendChoice::automatic, .comm = comm}, kind).way;
  };
  BOOST_TEST((way(CommChoice::automatic, device::Kind::cuda) == Way::direct));
  BOOST_TEST((way(CommChoice::nccl, device::Kind::cuda) == Way::direct));
  BOOST_TEST((way(CommChoice::host, device::Kind::cuda) == Way::host_copy));
  BOOST_TEST((way(CommChoice::automatic, device::Kind::cpu) == Way::direct));
  BOOST_TEST((way(CommChoice::host, device::Kind::cpu) == Way::direct));
  BOOST_TEST((way(CommChoice::mpi, device::Kind::cpu) == Way::direct));
  BOOST_TEST((rank::way_of(CommChoice::mpi, device::Kind::cuda) == Way::cuda_mpi));
  BOOST_CHECK_EXCEPTION((void)way(CommChoice::nccl, device::Kind::cpu), Error, [](const Error& error) {
    return std::string(error.what()).starts_with("`device.comm = nccl` has nothing to send");
  });
}

BOOST_AUTO_TEST_CASE(master_weights_leave_a_gpu_where_there_are_any) {
  using config::Offload;
  using config::Precision;
  for (const auto& [place, precision, stage, is_refused] :
       {std::tuple{Offload::none, Precision::fp32, 2, false}, std::tuple{Offload::nvme, Precision::bf16, 2, false},
        std::tuple{Offload::host, Precision::bf16, 0, false}, std::tuple{Offload::host, Precision::fp32, 2, true},
        std::tuple{Offload::host, Precision::pure_bf16, 0, true}, std::tuple{Offload::host, Precision::fp32, 3, false},
        std::tuple{Offload::host, Precision::pure_bf16, 3, false}}) {
    config::Config config;
    config.train.offload_optimizer = Offload::host;
    config.train.offload_parameters = place;
    config.train.precision = precision;
    config.parallel.zero_stage = stage;
    BOOST_CHECK_NO_THROW(require_fitting_device(config, device::Kind::cpu));
    if (is_refused) {
      BOOST_CHECK_EXCEPTION(require_fitting_device(config, device::Kind::cuda), Error, [](const Error& error) {
        return error.status() == ExitStatus::configuration &&
               std::string(error.what()).starts_with("`train.offload_parameters = host` does not go with precision = ");
      });
    } else {
      BOOST_CHECK_NO_THROW(require_fitting_device(config, device::Kind::cuda));
    }
  }
}

BOOST_AUTO_TEST_CASE(products_in_fp8_are_those_of_gpus_that_have_them) {
  using config::Fp8;
  config::Config config;
  for (const auto& [fp8, compute_capability, problem] :
       {std::tuple(Fp8::none, 80, ""),
        {Fp8::tensorwise, 80, "its compute capability is 8.0, and products of 8-bit"},
        {Fp8::tensorwise, 89, ""},
        {Fp8::tensorwise, 100, ""},
        {Fp8::blockwise, 86, "its compute capability is 8.6"},
        {Fp8::blockwise, 89, "its compute capability is 8.9, and cuBLAS multiplies with scales of 128 numbers on 9.0"},
        {Fp8::blockwise, 90, ""},
        {Fp8::blockwise, 120, "its compute capability is 12.0, and cuBLAS"}}) {
    config.train.fp8 = fp8;
    BOOST_CHECK_NO_THROW(require_fitting_device(config, device::Kind::cpu, compute_capability));
    BOOST_CHECK_NO_THROW(require_fitting_device(config, device::Kind::cuda));  // planned for a GPU that is not there
    if (std::string(problem).empty()) {
      BOOST_CHECK_NO_THROW(require_fitting_device(config, device::Kind::cuda, compute_capability));
      continue;
    }
    BOOST_CHECK_EXCEPTION(require_fitting_device(config, device::Kind::cuda, compute_capability), Error,
                          [&](const Error& error) {
                            return error.status() == ExitStatus::configuration &&
                                   std::string(error.what()).find(problem) != std::string::npos;
                          });
  }
}

}  // namespace sft::train
