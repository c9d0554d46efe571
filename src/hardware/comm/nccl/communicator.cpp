// SPDX-License-Identifier: Apache-2.0
#include "communicator.hpp"

#include <fmt/core.h>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>

#include "sft/core/format.hpp"
#include "sft/core/gpu_launches.hpp"
#include "sft/core/log.hpp"
#include "unique_ids.hpp"

namespace sft::comm {

namespace {

std::string place_of(const Group& group) {
  return " in group " + group.name() + " on rank " + std::to_string(log_rank());
}

void check_cuda(cudaError_t code, const char* call, const Group& group) {
  if (code == cudaSuccess) return;
  throw_if_of_a_kernel(code, cudaGetErrorString(code));
  throw Error(ExitStatus::failure, call + std::string(" failed") + place_of(group), cudaGetErrorString(code),
              "look for an earlier message of another rank, and check the GPU with nvidia-smi");
}

/// NCCL does not say which error of CUDA's it met.
void throw_if_a_kernel_failed() {
  const cudaError_t code = cudaStreamQuery(nullptr);
  throw_if_of_a_kernel(code, cudaGetErrorString(code));
}

/// The group's name, for messages of NCCL from 2.27 on.
template <class Config>
void set_name(Config& config, const Group& group) {
  if constexpr (requires { config.commName; }) config.commName = group.name().c_str();
}

}  // namespace

NcclCommunicator::NcclCommunicator(TensorGroup group, std::size_t number, CallLog& log, const NcclCommunicator* within)
    : group_(std::move(group)), number_(number), log_(log) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  set_name(config, group_.group);
  config.splitShare = 0;  // no resources in common with other communicators
  if (group_.max_ctas > 0) {
    config.minCTAs = 1;
    config.maxCTAs = group_.max_ctas;
  }
  if (within != nullptr) {
    split_off(*within, config);
  } else {
    make(config);
  }
  log_.finish(number_);
}

void NcclCommunicator::make(ncclConfig_t& config) {
  std::vector<ncclUniqueId> ids = share_unique_ids(group());
  begin("ncclCommInitRankScalable", 0);
  check(ncclCommInitRankScalable(&communicator_, group().size(), group().rank(), static_cast<int>(ids.size()),
                                 ids.data(), &config));
}

void NcclCommunicator::split_off(const NcclCommunicator& whole, ncclConfig_t& config) {
  std::int64_t first_rank = whole.group().rank();  // the first rank's number there is that of its group
  group().broadcast(std::span(&first_rank, 1), 0);
  begin("ncclCommSplit", 0);
  check(ncclCommSplit(whole.communicator_, static_cast<int>(first_rank), group().rank(), &communicator_, &config));
}

NcclCommunicator::~NcclCommunicator() {
  for (cudaEvent_t event : under_way_) cudaEventDestroy(event);
  for (cudaEvent_t event : spare_) cudaEventDestroy(event);
}

void NcclCommunicator::begin(const char* call, std::size_t bytes) {
  notice_finished();
  last_call_ = call;
  log_.start(number_, call, bytes);
}

void NcclCommunicator::check(ncclResult_t result) const {
  if (result == ncclSuccess) return;
  throw_if_a_kernel_failed();
  throw error_of(last_call_, result);
}

void NcclCommunicator::queue_event(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  cudaEvent_t event = nullptr;
  if (spare_.empty()) {
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags", group());
  } else {
    event = spare_.back();
    spare_.pop_back();
  }
  under_way_.push_back(event);
  check_cuda(cudaEventRecord(event, stream), "cudaEventRecord", group());
}

void NcclCommunicator::notice_finished() {
  const std::lock_guard lock(mutex_);
  while (!under_way_.empty()) {
    if (cudaEventQuery(under_way_.front()) != cudaSuccess) {
      (void)cudaGetLastError();  // not ready, which the next check of a kernel launch would find; or an error that the
      return;                    // host meets where it waits
    }
    spare_.push_back(under_way_.front());
    under_way_.pop_front();
    log_.finish(number_);
  }
}

void NcclCommunicator::throw_if_failed() const {
  if (const std::optional<Error> error = failure()) {
    throw_if_a_kernel_failed();
    throw Error(*error);
  }
}

std::optional<Error> NcclCommunicator::failure() const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t query = ncclCommGetAsyncError(communicator_, &state);
  const ncclResult_t result = query == ncclSuccess ? state : query;
  if (result == ncclSuccess || result == ncclInProgress) return std::nullopt;
  return error_of("work queued up to " + std::string(last_call_), result);
}

device::Device::Block NcclCommunicator::allocate(std::size_t bytes) const {
  const auto warn = [&](const char* call, ncclResult_t result) {
    static std::once_flag once;
    std::call_once(once, [&] {
      log_warning(
          fmt::format("NCCL works with copies of what it sends, which is slower ({} failed{}: {}): allow the "
                      "container what NCCL's own memory needs, such as --cap-add SYS_NICE and --shm-size",
                      call, place_of(group()), text_of(result)));
    });
  };
  void* memory = nullptr;
  if (const ncclResult_t result = ncclMemAlloc(&memory, bytes); result != ncclSuccess) {
    (void)cudaGetLastError();  // of a call that NCCL made
    const cudaError_t code = cudaMalloc(&memory, bytes);
    if (code != cudaSuccess) {
      (void)cudaGetLastError();
      throw Error(ExitStatus::failure,
                  fmt::format("cannot allocate {} on the GPU for NCCL{}", format_bytes(bytes), place_of(group())),
                  cudaGetErrorString(code), "use more ranks, shorter rows or a smaller model");
    }
    warn("ncclMemAlloc", result);
    return {memory, [](void* block) { cudaFree(block); }};
  }
  void* registration = nullptr;
  if (const ncclResult_t result = ncclCommRegister(communicator_, memory, bytes, &registration);
      result != ncclSuccess) {
    warn("ncclCommRegister", result);
    return {memory, [](void* block) { ncclMemFree(block); }};
  }
  return {memory, [communicator = communicator_, registration](void* block) {
            ncclCommDeregister(communicator, registration);
            ncclMemFree(block);
          }};
}

void NcclCommunicator::end() {
  begin("ncclCommFinalize", 0);
  check(ncclCommFinalize(communicator_));
  notice_finished();
  log_.finish(number_);
  begin("ncclCommDestroy", 0);
  check(ncclCommDestroy(communicator_));
  log_.finish(number_);
}

std::string NcclCommunicator::text_of(ncclResult_t result) const {
  std::string text = ncclGetErrorString(result);
  const char* details = ncclGetLastError(communicator_);
  if (details != nullptr && details[0] != '\0') text += "; " + std::string(details);
  return text;
}

Error NcclCommunicator::error_of(const std::string& what, ncclResult_t result) const {
  return {ExitStatus::failure, what + " failed" + place_of(group()), text_of(result),
          "look for an earlier message of another rank, or run again with NCCL_DEBUG=INFO"};
}

}  // namespace sft::comm
