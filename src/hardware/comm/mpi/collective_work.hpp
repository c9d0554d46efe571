// SPDX-License-Identifier: Apache-2.0
#pragma once
// What all collectives that are work of a CPU stream have in common: words for who waits for them.

#include <cstdint>
#include <string>

#include "communicator.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/device/device.hpp"

namespace sft::comm {

class CollectiveWork : public device::Pending {
 public:
  [[nodiscard]] device::WaitText text() const final {
    return {.what = collective_, .of = subject_, .over = group_.name(), .number = number_};
  }

 protected:
  /// `collective`: its name, a literal.
  CollectiveWork(const Group& group, const char* collective)
      : group_(group), collective_(collective), subject_(CallSubject::current()), number_(group.impl().next_number()) {}

 private:
  const Group group_;
  const char* const collective_;
  const std::string subject_;
  const std::uint64_t number_;
};

}  // namespace sft::comm
