// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of an sp group reach each other's keys and values. Pure.

namespace sft::sequence {

/// The sp ranks r with the same r / ulysses_size, neighbours, exchange heads: each holds some heads of all tokens of
/// them together (Jacobs et al. 2023). Keys and values of these heads travel between the groups of neighbours in one of
/// two ways. ulysses_size = 1 exchanges no heads; ulysses_size = sp_size leaves nothing to travel; between them the two
/// are combined (Fang & Zhao 2024).
struct AttentionMethod {
  enum class Keys {
    ring,       ///< from one to the next (Liu et al. 2023)
    all_gather  ///< to all at once, some heads at a time (Llama Team 2024)
  };

  Keys keys = Keys::ring;
  int ulysses_size = 1;  ///< divides sp_size; 1 with all_gather

  [[nodiscard]] bool operator==(const AttentionMethod&) const = default;
};

}  // namespace sft::sequence
