// SPDX-License-Identifier: Apache-2.0
#include "jinja/heap.hpp"

namespace sft::jinja {

void Heap::fail_steps() const {
  throw Failure("it takes more than " + std::to_string(limits_.max_steps) + " steps",
                "shorten the conversation, or mend the template's loops");
}

void Heap::fail_memory() const {
  throw Failure("its values take more than " + std::to_string(limits_.max_memory_bytes >> 20) + " MiB",
                "shorten the conversation, or mend the template's loops");
}

}  // namespace sft::jinja
