// SPDX-License-Identifier: Apache-2.0
// Shows whether two layouts of one run train alike, to rounding.
//
//   sft-prove two_nodes.ini one_node.ini
//   sft-prove run.ini --against one_rank --steps 10 --precision fp32
//   sft-prove run.ini --against one_rank --launcher "srun --mpi=pmix -n {n}" --scratch /shared/proof
//
// Exit status: 0 rounding explains all differences; 1 it does not; 2 to 4 and 75 as sft, when a run ends so.

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/json_text.hpp"
#include "compare.hpp"
#include "layouts.hpp"
#include "options.hpp"
#include "rounding.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/table.hpp"

namespace {

using namespace sft;
using apps::Gap;
using apps::Layout;
using apps::RunNumbers;

/// A new folder in the one that was asked for, which goes with this object unless it is to be kept.
class Scratch {
 public:
  explicit Scratch(const apps::ProveOptions& options) : keep_(options.keep) {
    const char* const temporary = std::getenv("TMPDIR");
    const std::string parent = !options.scratch.empty() ? options.scratch : temporary != nullptr ? temporary : "/tmp";
    std::error_code ignored;
    std::filesystem::create_directories(parent, ignored);
    path_ = parent + "/sft-prove.XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      throw_config_error(fmt::format("cannot make a folder in {}", parent), "the runs leave there what is compared",
                         "give a folder that can be written to with --scratch");
    }
    path_ = std::filesystem::absolute(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    if (!keep_) std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool keep_;
};

/// Both runs and what came of them.
struct Proof {
  Layout first, second;
  std::vector<std::string> other_keys;
  RunNumbers first_run, second_run;
  apps::Rounding rounding;
  std::vector<Gap> gaps;

  [[nodiscard]] bool holds() const { return std::ranges::all_of(gaps, &Gap::holds); }
};

std::string number(double value) { return fmt::format("{:.8g}", value); }
std::string share(double value) { return fmt::format("{:.1e}", value); }

std::int64_t largest_step(const std::vector<apps::StepNumbers>& steps) {
  std::int64_t tokens = 0;
  for (const apps::StepNumbers& step : steps) tokens = std::max(tokens, step.num_tokens);
  return tokens;
}

Proof prove(const apps::ProveOptions& options, const std::string& folder) {
  Layout first = apps::read_layout(options.first, options);
  Layout second = options.second.empty() ? apps::on_one_rank(first) : apps::read_layout(options.second, options);
  Proof proof{.first = std::move(first),
              .second = std::move(second),
              .other_keys = {},
              .first_run = {},
              .second_run = {},
              .rounding = {},
              .gaps = {}};
  proof.other_keys = apps::keys_of_other_runs(proof.first, proof.second);
  const auto tell = [&](const Layout& layout, const char* run, const std::string& what) {
    if (!options.json) {
      log_info(fmt::format("{} of 3: {}, {}, {}", run, layout.name, plural(layout.num_ranks, "rank"), what));
    }
  };
  const std::string steps = plural(options.steps, "step");
  tell(proof.first, "1", "the weights that it begins with");
  const RunNumbers start = apps::train_layout(proof.first, 0, folder, "start", options.launcher);
  tell(proof.first, "2", steps);
  proof.first_run = apps::train_layout(proof.first, options.steps, folder, "first", options.launcher);
  tell(proof.second, "3", steps);
  proof.second_run = apps::train_layout(proof.second, options.steps, folder, "second", options.launcher);
  proof.rounding = apps::rounding_between(proof.first.config, proof.second.config, largest_step(proof.first_run.steps));
  proof.gaps = apps::compare_steps(proof.first_run.steps, proof.second_run.steps, proof.rounding);
  const std::vector<Gap> tensors = apps::compare_tensors(
      *checkpoint::open_source(start.checkpoint), *checkpoint::open_source(proof.first_run.checkpoint),
      *checkpoint::open_source(proof.second_run.checkpoint), options.steps, proof.rounding);
  proof.gaps.insert(proof.gaps.end(), tensors.begin(), tensors.end());
  return proof;
}

std::string verdict(const Proof& proof) {
  if (proof.holds()) return "the same: rounding explains every difference";
  const auto num_over = std::ranges::count_if(proof.gaps, [](const Gap& gap) { return !gap.holds(); });
  return fmt::format("NOT the same: {} of {} differ by more than rounding explains, {}", num_over,
                     plural(std::ssize(proof.gaps), "number"), apps::first_sign(proof.gaps));
}

void print_steps(const Proof& proof) {
  Table table({Align::right, Align::right, Align::right, Align::right, Align::right, Align::right, Align::right});
  table.add({"step", "loss", proof.second.name, "apart", "norm", proof.second.name, "apart"});
  table.add_rule();
  for (std::size_t i = 0; i < proof.first_run.steps.size(); ++i) {
    const apps::StepNumbers &a = proof.first_run.steps[i], &b = proof.second_run.steps[i];
    const auto apart = [](double x, double y) { return share(x == y ? 0.0 : std::abs(x - y) / std::abs(x)); };
    table.add({fmt::format("{}", i + 1), number(a.loss), number(b.loss), apart(a.loss, b.loss), number(a.grad_norm),
               number(b.grad_norm), apart(a.grad_norm, b.grad_norm)});
  }
  log_info("\n" + table.text());
}

void print_gaps(const std::vector<Gap>& gaps) {
  Table table({Align::left, Align::left, Align::right, Align::right, Align::right, Align::left});
  table.add({"", "where", "apart", "explained", "digits", ""});
  table.add_rule();
  for (const Gap& gap : gaps) {
    table.add({gap.what, gap.where, share(gap.apart), share(gap.explained), apps::digits_of(gap.apart),
               gap.holds() ? "" : "NOT EXPLAINED"});
  }
  log_info(table.text());
}

void print_text(const Proof& proof) {
  constexpr std::size_t most_listed = 20;
  for (const std::string& key : proof.other_keys) {
    log_warning(fmt::format("the two are other runs, not other layouts of one: {}", key));
  }
  print_steps(proof);
  log_info("The largest of each, against what rounding explains:\n");
  print_gaps(apps::worst_of_each(proof.gaps));
  std::vector<Gap> over;
  std::ranges::copy_if(proof.gaps, std::back_inserter(over), [](const Gap& gap) { return !gap.holds(); });
  if (!over.empty()) {
    log_info(fmt::format("All that it does not explain{}:\n",
                         over.size() > most_listed ? fmt::format(", the first {}", most_listed) : ""));
    over.resize(std::min(over.size(), most_listed));
    print_gaps(over);
  }
  log_info(fmt::format("rounding: {}", proof.rounding.reason));
  log_info(verdict(proof));
}

nlohmann::ordered_json json_of(const std::vector<Gap>& gaps) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Gap& gap : gaps) {
    list.push_back({{"what", gap.what},
                    {"where", gap.where},
                    {"apart", gap.apart},
                    {"explained", gap.explained},
                    {"holds", gap.holds()}});
  }
  return list;
}

void print_json(const Proof& proof) {
  nlohmann::ordered_json json = {{"same", proof.holds()}, {"verdict", verdict(proof)}};
  json["rounding"] = proof.rounding.reason;
  json["other_keys"] = proof.other_keys;
  json["gaps"] = json_of(proof.gaps);
  log_info(apps::json_text(json));
}

int run(const std::vector<std::string>& arguments) {
  const std::optional<apps::ProveOptions> options = apps::read_prove_options(arguments);
  if (!options) return static_cast<int>(ExitStatus::done);
  const Scratch scratch(*options);
  if (options->keep && !options->json) log_info(fmt::format("the runs are kept in {}", scratch.path()));
  const Proof proof = prove(*options, scratch.path());
  if (options->json) {
    print_json(proof);
  } else {
    print_text(proof);
  }
  return static_cast<int>(proof.holds() ? ExitStatus::done : ExitStatus::failure);
}

}  // namespace

int main(int argc, char** argv) {
  raise_open_file_limit();
  return run_alone([&] { return run(std::vector<std::string>(argv + 1, argv + argc)); });
}
