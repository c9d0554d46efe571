// SPDX-License-Identifier: Apache-2.0
#pragma once
// A backend that holds every call against the rules of ops/backend.hpp before another backend runs it.

#include <memory>

#include "sft/ops/backend.hpp"

namespace sft::ops::checked {

/// See ops::make_checked_backend.
[[nodiscard]] std::unique_ptr<Backend> make_backend(std::unique_ptr<Backend> inner);

}  // namespace sft::ops::checked
