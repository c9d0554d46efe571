// SPDX-License-Identifier: Apache-2.0
#include "runtime/source_line.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>

extern "C" const char __executable_start;  // of the program, by the linker

namespace sft::emulation {

const void* access_address = nullptr;

std::string source_line_of_access() {
  if (access_address == nullptr) return {};
  std::array<char, 4096> program{};
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) <= 0) return {};
  const auto offset = static_cast<const char*>(access_address) - &__executable_start - 1;  // within the call
  std::array<char, 64> hexadecimal{};
  std::snprintf(hexadecimal.data(), hexadecimal.size(), "0x%tx", offset);
  const std::string command =
      "addr2line -s -e '" + std::string(program.data()) + "' " + hexadecimal.data() + " 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  std::array<char, 512> line{};
  if (pipe == nullptr || std::fgets(line.data(), static_cast<int>(line.size()), pipe.get()) == nullptr) return {};
  std::string text = line.data();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.empty() || text.front() == '?' ? std::string() : ", " + text;
}

}  // namespace sft::emulation
