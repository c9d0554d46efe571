// SPDX-License-Identifier: Apache-2.0
// NCCL on one rank by CUDA and NCCL alone: no MPI, and nothing of the program but how it loads NCCL, so that what fails
// here is neither's doing. Prints versions, whether NCCL's own memory can be had, which the program does without where
// it cannot, and a line for each call whose numbers are right. Status 1 behind an error line.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

namespace sft {

namespace {

constexpr std::size_t count = 10001;  // more than a block of a kernel, and no multiple of one
constexpr std::size_t bytes = count * sizeof(float);
constexpr int no_number = 0xFF;  // float32 of such bytes is not a number

void check(cudaError_t code, const std::string& call) {
  if (code == cudaSuccess) return;
  throw Error(ExitStatus::failure, call + " failed", cudaGetErrorString(code), "check the GPU with nvidia-smi");
}

void check(ncclResult_t result, const std::string& call, ncclComm_t communicator) {
  if (result == ncclSuccess) return;
  const std::string last = ncclGetLastError(communicator);
  throw Error(ExitStatus::failure, call + " failed",
              ncclGetErrorString(result) + (last.empty() ? std::string() : ", " + last),
              "run again with NCCL_DEBUG=INFO");
}

std::string version_of_cuda(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string version_of_nccl(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

void print_versions() {
  int driver = 0, runtime = 0, nccl = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(ncclGetVersion(&nccl), "ncclGetVersion", nullptr);
  std::printf("versions: NCCL %s (built with %s), CUDA %s (driver for %s)\n", version_of_nccl(nccl).c_str(),
              version_of_nccl(NCCL_VERSION_CODE).c_str(), version_of_cuda(runtime).c_str(),
              version_of_cuda(driver).c_str());
}

/// A communicator of this process alone.
class Communicator {
 public:
  Communicator() {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    check(ncclCommInitRankScalable(&handle_, 1, 0, 1, &id, &config), "ncclCommInitRankScalable", nullptr);
  }
  /// Ends it, with whatever NCCL says of that.
  void end() {
    check(ncclCommFinalize(handle_), "ncclCommFinalize", handle_);
    check(ncclCommDestroy(handle_), "ncclCommDestroy", nullptr);
  }
  [[nodiscard]] ncclComm_t handle() const { return handle_; }

 private:
  ncclComm_t handle_ = nullptr;
};

/// `bytes` of the GPU's memory: NCCL's and registered, or without one or both where NCCL refuses.
class Memory {
 public:
  explicit Memory(const Communicator& communicator) : communicator_(communicator.handle()) {
    const ncclResult_t allocated = ncclMemAlloc(&data_, bytes);
    if (allocated != ncclSuccess) {
      (void)cudaGetLastError();  // of a call that NCCL made
      state_ = std::string("ncclMemAlloc refused (") + ncclGetErrorString(allocated) + ")";
      check(cudaMalloc(&data_, bytes), "cudaMalloc");
      return;
    }
    is_of_nccl_ = true;
    const ncclResult_t registered = ncclCommRegister(communicator_, data_, bytes, &registration_);
    if (registered == ncclSuccess) return;
    (void)cudaGetLastError();
    registration_ = nullptr;
    state_ = std::string("NCCL's, ncclCommRegister refused (") + ncclGetErrorString(registered) + ")";
  }
  void free() {
    if (registration_ != nullptr) {
      check(ncclCommDeregister(communicator_, registration_), "ncclCommDeregister", communicator_);
    }
    if (is_of_nccl_) {
      check(ncclMemFree(data_), "ncclMemFree", communicator_);
    } else {
      check(cudaFree(data_), "cudaFree");
    }
  }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] const std::string& state() const { return state_; }

 private:
  ncclComm_t communicator_;
  void* data_ = nullptr;
  void* registration_ = nullptr;
  bool is_of_nccl_ = false;
  std::string state_ = "NCCL's, registered";
};

/// Throws where a number of `target` is not that of `sent`.
void compare(const std::string& call, const std::vector<float>& sent, const void* target) {
  std::vector<float> found(count);
  check(cudaMemcpy(found.data(), target, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (std::size_t i = 0; i < count; ++i) {
    if (found[i] == sent[i]) continue;
    throw Error(ExitStatus::failure, call + " gives wrong numbers",
                "number " + std::to_string(i) + " of " + std::to_string(count) + " is " + std::to_string(found[i]) +
                    ", not " + std::to_string(sent[i]),
                "run again with NCCL_DEBUG=INFO");
  }
  std::printf("%s: right\n", call.c_str());
}

/// Every call gives one rank back what it gave.
void try_calls(const Communicator& communicator, const Memory& source, const Memory& target) {
  std::vector<float> sent(count);
  for (std::size_t i = 0; i < count; ++i) sent[i] = 0.5F + static_cast<float>(i);
  check(cudaMemcpy(source.data(), sent.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  ncclComm_t handle = communicator.handle();
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const auto attempt = [&](const std::string& call, const std::function<ncclResult_t()>& launch) {
    check(cudaMemset(target.data(), no_number, bytes), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(launch(), call, handle);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize behind " + call);
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(handle, &state), "ncclCommGetAsyncError", handle);
    check(state, call, handle);
    compare(call, sent, target.data());
  };
  attempt("ncclAllReduce",
          [&] { return ncclAllReduce(source.data(), target.data(), count, ncclFloat32, ncclSum, handle, stream); });
  attempt("ncclReduceScatter",
          [&] { return ncclReduceScatter(source.data(), target.data(), count, ncclFloat32, ncclSum, handle, stream); });
  attempt("ncclAllGather",
          [&] { return ncclAllGather(source.data(), target.data(), count, ncclFloat32, handle, stream); });
  attempt("ncclSend and ncclRecv", [&] {
    ncclResult_t first_error = ncclGroupStart();
    const auto note = [&](ncclResult_t result) {
      if (first_error == ncclSuccess) first_error = result;
    };
    note(ncclSend(source.data(), count, ncclFloat32, 0, handle, stream));
    note(ncclRecv(target.data(), count, ncclFloat32, 0, handle, stream));
    note(ncclGroupEnd());
    return first_error;
  });
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

void run() {
  setenv("NCCL_DEBUG", "WARN", /*overwrite=*/0);  // NCCL's own words where it fails
  check(cudaSetDevice(0), "cudaSetDevice");
  print_versions();
  Communicator communicator;
  Memory source(communicator), target(communicator);
  std::printf("memory: %s\n", target.state().c_str());
  try_calls(communicator, source, target);
  target.free();
  source.free();
  communicator.end();
}

}  // namespace

}  // namespace sft

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was right before a crash
  try {
    sft::run();
  } catch (const std::exception& error) {
    sft::log_error(error.what());
    return 1;
  }
  return 0;
}
