// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <stdexcept>

#include "sft/core/error.hpp"
#include "sft/jinja/error.hpp"
#include "support/listed_error.hpp"

namespace sft::fuzz {

std::vector<Reader> input_readers() {
  std::vector<Reader> all;
  for (const auto& some : {config_readers(), hub_readers(), data_readers()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

void read(const Reader& reader, const std::string& bytes) {
  try {
    reader.read(bytes);
  } catch (const Error& error) {
    if (error.status() != ExitStatus::configuration && error.status() != ExitStatus::data) throw;
    const std::string message = error.what();
    if (message.find('\n') != std::string::npos && !test::is_listed_error(message)) {
      throw std::logic_error("an error of several lines");
    }
  } catch (const jinja::TemplateError&) {  // with the line
  }
}

}  // namespace sft::fuzz
