// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/agreed_gather.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>

#include "agreement.hpp"
#include "sft/core/ensure.hpp"

namespace sft::comm {

namespace {

constexpr std::int64_t failed = -1;  ///< in place of a length

}  // namespace

std::vector<std::string> agree_and_gather(const Group& group, std::size_t max_length,
                                          const std::function<std::string()>& work) {
  refuse_inside_agree(group, "agree_and_gather");
  std::vector<std::int64_t> own(1 + (max_length + sizeof(std::int64_t) - 1) / sizeof(std::int64_t));
  std::exception_ptr error;
  try {
    const Agreement agreement(group);
    const std::string text = work();
    SFT_ENSURE(text.size() <= max_length, "a text is as long as was said");
    own[0] = std::ssize(text);
    std::memcpy(own.data() + 1, text.data(), text.size());
  } catch (...) {
    error = std::current_exception();
    own[0] = failed;
  }
  const std::vector<std::int64_t> all = group.all_gather(std::span<const std::int64_t>(own));
  std::vector<std::string> texts;
  bool has_failed = false;
  for (std::size_t at = 0; at < all.size(); at += own.size()) {
    has_failed = has_failed || all[at] == failed;
    texts.emplace_back(reinterpret_cast<const char*>(&all[at + 1]), std::max<std::int64_t>(all[at], 0));
  }
  if (has_failed) {
    group.agree([&] {
      if (error) std::rethrow_exception(error);
    });
  }
  return texts;
}

}  // namespace sft::comm
