// SPDX-License-Identifier: Apache-2.0
#include "shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>

namespace sft::emulation {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("emulated NCCL: " + what + ": " + std::strerror(errno));
}

/// An open file of this process, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

SharedMemoryKey SharedMemory::make() {
  const int descriptor = ::memfd_create("emulated-nccl", MFD_CLOEXEC);
  if (descriptor < 0) fail("memfd_create");
  std::random_device random;
  const SharedMemoryKey key{::getpid(), descriptor, (std::uint64_t{random()} << 32) | random()};
  if (::write(descriptor, &key.nonce, sizeof key.nonce) != sizeof key.nonce) fail("write to a memfd");
  return key;
}

SharedMemory::SharedMemory(const SharedMemoryKey& key, std::size_t bytes) : bytes_(bytes) {
  const std::string path = "/proc/" + std::to_string(key.process) + "/fd/" + std::to_string(key.descriptor);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) fail("cannot open the memory of process " + std::to_string(key.process));
  const Descriptor file(opened);
  // All ask for the same size, so it does not matter who is first.
  if (::ftruncate(file.number(), static_cast<off_t>(bytes)) != 0) fail("ftruncate");
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (mapped == MAP_FAILED) fail("mmap");
  data_ = static_cast<std::byte*>(mapped);
  std::uint64_t nonce = 0;
  std::memcpy(&nonce, data_, sizeof nonce);
  if (nonce == key.nonce) return;
  ::munmap(data_, bytes_);
  throw std::runtime_error("emulated NCCL: an id that no living process made");
}

SharedMemory::~SharedMemory() { ::munmap(data_, bytes_); }

void SharedMemory::close(const SharedMemoryKey& key) {
  if (key.process == ::getpid()) ::close(key.descriptor);
}

}  // namespace sft::emulation
