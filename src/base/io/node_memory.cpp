// SPDX-License-Identifier: Apache-2.0
#include "sft/io/node_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace sft::io {

std::unique_ptr<NodeMemory> NodeMemory::map(int descriptor, std::string path, std::size_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (data == MAP_FAILED) return nullptr;
  return std::unique_ptr<NodeMemory>(new NodeMemory(std::move(path), static_cast<std::byte*>(data), bytes));
}

std::unique_ptr<NodeMemory> NodeMemory::make(std::size_t bytes) {
  std::string path = "/dev/shm/sft-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  if (::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes)) != 0) {
    ::close(descriptor);
    ::unlink(path.c_str());
    return nullptr;
  }
  auto memory = map(descriptor, path, bytes);
  if (memory == nullptr) ::unlink(path.c_str());
  return memory;
}

std::unique_ptr<NodeMemory> NodeMemory::open(const std::string& path, std::size_t bytes) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  return descriptor < 0 ? nullptr : map(descriptor, path, bytes);
}

NodeMemory::~NodeMemory() { ::munmap(data_, bytes_); }

void NodeMemory::forget() const { ::unlink(path_.c_str()); }

}  // namespace sft::io
