// SPDX-License-Identifier: Apache-2.0
// libFuzzer's side: --reader=NAME says which reader its inputs go to. What a reader must not throw ends the process,
// which is how libFuzzer knows a finding.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include "readers.hpp"
#include "sft/core/log.hpp"

namespace {

sft::fuzz::Reader reader;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view option = "--reader=";
  sft::set_log_rank(1);  // warnings are not for anybody here
  for (int i = 1; i < *argc; ++i) {
    const std::string_view word = (*argv)[i];
    if (!word.starts_with(option)) continue;
    for (const sft::fuzz::Reader& known : sft::fuzz::all_readers()) {
      if (known.name == word.substr(option.size())) reader = known;
    }
  }
  if (reader.read != nullptr) return 0;
  for (const sft::fuzz::Reader& known : sft::fuzz::all_readers()) std::cout << known.name << "\n";
  std::exit(*argc > 1 && std::string_view((*argv)[1]) == "--list" ? EXIT_SUCCESS : EXIT_FAILURE);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    sft::fuzz::read(reader, std::string(reinterpret_cast<const char*>(bytes), size));
  } catch (const std::exception& error) {
    std::cerr << reader.name << ": no error for a user: " << error.what() << "\n";
    std::abort();
  }
  return 0;
}
