// SPDX-License-Identifier: Apache-2.0
// Copies for saving beside training where a node has no room for them: left out where the run may choose, refused with
// the numbers where it may not, on every rank alike.

#include "sft/rank/async_save.hpp"

#include <optional>
#include <string>

#include "sft/config/valid_config.hpp"
#include "support/config_error.hpp"
#include "support/mpi_session.hpp"

using namespace sft;
using test::check_says;
using test::refusal;
using test::session;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr std::size_t rest_bytes = 8 * mib, copy_bytes = 2 * mib;  // of a rank

config::ValidConfig config_of(std::optional<bool> async, std::int64_t save_steps = 5) {
  config::Config config;
  config.model.hidden_size = 32;
  config.model.num_hidden_layers = 1;
  config.model.num_attention_heads = 2;
  config.model.num_key_value_heads = 2;
  config.model.intermediate_size = 32;
  config.model.vocab_size = 64;
  config.data.train_files = {"rows.h5"};
  config.checkpoint.async = async;
  config.checkpoint.save_steps = save_steps;
  return config::validate(config, session().world().size());
}

rank::ChosenSave choose(const config::ValidConfig& config, std::optional<std::size_t> node_bytes) {
  const auto plan_ledger = [](const config::ValidConfig& planned) {
    device::Ledger ledger;
    ledger.add(device::Label::parameters, device::Space::device, rest_bytes);
    if (planned->checkpoint.has_snapshot()) {
      ledger.add(device::Label::snapshot, device::Space::pinned, copy_bytes);
    }
    return ledger;
  };
  return rank::choose_async_save(config, plan_ledger, device::Kind::cpu, node_bytes, session());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(async_save)

BOOST_AUTO_TEST_CASE(auto_takes_copies_where_there_is_room_for_all_ranks_of_a_node) {
  const std::size_t num_ranks = session().node().size();
  for (const std::optional<std::size_t> node_bytes :
       {std::optional<std::size_t>{}, std::optional(num_ranks * (rest_bytes + copy_bytes))}) {
    const rank::ChosenSave chosen = choose(config_of({}), node_bytes);
    BOOST_TEST((chosen.config->checkpoint.async == true));
    BOOST_TEST(chosen.planned.total_bytes() == rest_bytes + copy_bytes);
    BOOST_TEST(chosen.why.empty());
  }
  const rank::ChosenSave chosen = choose(config_of({}), num_ranks * (rest_bytes + copy_bytes) - 1);
  BOOST_TEST((chosen.config->checkpoint.async == false));
  BOOST_TEST(chosen.planned.total_bytes() == rest_bytes);
  check_says(chosen.why, "a node lacks 1 B for copies");
}

BOOST_AUTO_TEST_CASE(copies_are_for_saves_before_the_end) {
  BOOST_TEST((choose(config_of({}, 0), {}).config->checkpoint.async == false));
  BOOST_TEST(choose(config_of(true, 0), {}).planned.total_bytes() == rest_bytes);
  BOOST_TEST((choose(config_of(false), {}).config->checkpoint.async == false));
}

BOOST_AUTO_TEST_CASE(what_was_asked_for_and_does_not_fit_is_refused_with_the_numbers) {
  const std::size_t num_ranks = session().node().size();
  const std::string text = refusal([&] { (void)choose(config_of(true), num_ranks * (rest_bytes + mib)); });
  check_says(text, "`checkpoint.async = true` does not fit in memory");
  check_says(text, num_ranks == 2 ? "20.0 MiB, 4.0 MiB of it for copies" : "40.0 MiB, 8.0 MiB of it for copies");
  check_says(text, num_ranks == 2 ? "it has 18.0 MiB" : "it has 36.0 MiB");
  check_says(text, "set checkpoint.async = false");
  // Where the rest alone is too much, rank::require_node_memory says so.
  BOOST_TEST((choose(config_of(true), num_ranks * rest_bytes - 1).config->checkpoint.async == true));
}

BOOST_AUTO_TEST_SUITE_END()
