// SPDX-License-Identifier: Apache-2.0
// Makes MPI take addresses of the emulated GPU's memory: such messages go through copies on the host, made with the
// GPU's own runtime, as a CUDA-aware MPI makes them. These wait for nothing that the caller has queued, so a call that
// comes too early is a race that the runtime reports; any other function of MPI that gets such an address touches what
// the host cannot read.
#include <cuda_runtime_api.h>
#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <list>
#include <string>
#include <vector>

namespace {

/// A message from or to the memory of a GPU.
struct Message {
  std::vector<std::byte> copy;
  void* received_into;  ///< null: it is sent
  MPI_Request request = MPI_REQUEST_NULL;
};

std::list<Message>& under_way() {
  static std::list<Message> messages;
  return messages;
}

bool is_on_gpu(const void* address) {
  cudaPointerAttributes attributes{};
  cudaPointerGetAttributes(&attributes, address);
  return attributes.type == cudaMemoryTypeDevice;
}

void copy(void* to, const void* from, std::size_t bytes) {
  static cudaStream_t stream = nullptr;
  if (stream == nullptr) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
  cudaStreamSynchronize(stream);
}

std::size_t bytes_of(int count, MPI_Datatype type) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(bytes);
}

/// What was received goes to the GPU.
void finish(MPI_Request request) {
  for (auto message = under_way().begin(); message != under_way().end(); ++message) {
    if (message->request != request) continue;
    if (message->received_into != nullptr) copy(message->received_into, message->copy.data(), message->copy.size());
    under_way().erase(message);
    return;
  }
}

}  // namespace

extern "C" {

int MPIX_Query_cuda_support() {
  const char* const answer = std::getenv("SFT_EMULATED_CUDA_AWARE_MPI");
  return answer == nullptr || std::string(answer) != "0" ? 1 : 0;
}

int MPI_Isend(const void* source, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  if (!is_on_gpu(source)) return PMPI_Isend(source, count, type, to, tag, comm, request);
  Message& message = under_way().emplace_back(Message{std::vector<std::byte>(bytes_of(count, type)), nullptr});
  copy(message.copy.data(), source, message.copy.size());
  const int code = PMPI_Isend(message.copy.data(), count, type, to, tag, comm, request);
  message.request = *request;
  return code;
}

int MPI_Irecv(void* destination, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  if (!is_on_gpu(destination)) return PMPI_Irecv(destination, count, type, from, tag, comm, request);
  Message& message = under_way().emplace_back(Message{std::vector<std::byte>(bytes_of(count, type)), destination});
  const int code = PMPI_Irecv(message.copy.data(), count, type, from, tag, comm, request);
  message.request = *request;
  return code;
}

int MPI_Testall(int count, MPI_Request* requests, int* are_finished, MPI_Status* statuses) {
  const std::vector<MPI_Request> before(requests, requests + count);
  const int code = PMPI_Testall(count, requests, are_finished, statuses);
  if (code == MPI_SUCCESS && *are_finished != 0) {
    for (const MPI_Request request : before) finish(request);
  }
  return code;
}

}  // extern "C"
