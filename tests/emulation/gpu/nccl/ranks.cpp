// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <thread>

namespace sft::test {

namespace {

/// In the child: runs the body and writes how it ended into the pipe.
[[noreturn]] void run_child(int rank, const std::function<void(int)>& body, int pipe_end) {
  std::string text;
  try {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    body(rank);
  } catch (const std::exception& error) {
    text = error.what();
    if (text.empty()) text = "an exception without a text";
  }
  std::fflush(nullptr);
  if (::write(pipe_end, text.data(), text.size()) < 0) ::_exit(1);
  ::_exit(0);
}

std::string read_all(int pipe_end) {
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(pipe_end, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(pipe_end);
  return text;
}

}  // namespace

void expect(bool holds, const std::string& text) {
  if (!holds) throw std::runtime_error(text);
}

std::vector<std::string> run_ranks(int num_ranks, const std::function<void(int)>& body) {
  struct Child {
    pid_t process;
    int pipe_end;
  };
  std::vector<Child> children;
  std::fflush(nullptr);
  for (int rank = 0; rank < num_ranks; ++rank) {
    int ends[2];
    expect(::pipe(ends) == 0, "pipe");
    const pid_t process = ::fork();
    expect(process >= 0, "fork");
    if (process == 0) run_child(rank, body, ends[1]);
    ::close(ends[1]);
    children.push_back({process, ends[0]});
  }
  std::vector<std::string> results;
  for (const Child& child : children) {
    std::string text = read_all(child.pipe_end);
    int status = 0;
    ::waitpid(child.process, &status, 0);
    if (WIFSIGNALED(status)) text = "ended by signal " + std::to_string(WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) text = "exit status " + std::to_string(WEXITSTATUS(status));
    results.push_back(text);
  }
  return results;
}

Rank::Rank(const ncclUniqueId& id, int num_ranks, int rank, const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  const ncclResult_t result = ncclCommInitRankConfig(&communicator_, num_ranks, id, rank, &config);
  expect(result == ncclSuccess, ncclGetLastError(nullptr));
  expect(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess, "cudaStreamCreateWithFlags");
}

Rank::~Rank() {
  cudaStreamDestroy(stream_);
  if (std::uncaught_exceptions() > 0) {
    ncclCommAbort(communicator_);  // the others may not come to a common end
  } else {
    ncclCommDestroy(communicator_);
  }
}

void Rank::synchronize() const { expect(cudaStreamSynchronize(stream_) == cudaSuccess, "cudaStreamSynchronize"); }

Signal::Signal() {
  void* memory = ::mmap(nullptr, sizeof *is_given_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  expect(memory != MAP_FAILED, "mmap");
  is_given_ = new (memory) std::atomic<bool>(false);
}

Signal::~Signal() { ::munmap(is_given_, sizeof *is_given_); }

std::string wait_for(const std::vector<const Rank*>& ranks, const std::function<bool()>& has_enough) {
  const auto is_busy = [](const Rank* rank) { return cudaStreamQuery(rank->stream()) == cudaErrorNotReady; };
  while (std::ranges::any_of(ranks, is_busy)) {
    for (const Rank* rank : ranks) {
      ncclResult_t error = ncclSuccess;
      expect(ncclCommGetAsyncError(rank->communicator(), &error) == ncclSuccess, "ncclCommGetAsyncError");
      if (error != ncclSuccess) return ncclGetLastError(rank->communicator());
    }
    if (has_enough()) return "still waiting";
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return "";
}

std::function<bool()> after_many_polls() {
  constexpr int many = 3000;
  return [num_polls = 0]() mutable { return ++num_polls >= many; };
}

ncclUniqueId new_id() {
  ncclUniqueId id;
  expect(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  return id;
}

}  // namespace sft::test
