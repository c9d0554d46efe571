// SPDX-License-Identifier: Apache-2.0
#include "config/make_key.hpp"

#include <fmt/core.h>

namespace sft::config {

namespace {

/// The whole number that `text` stands for. Throws std::invalid_argument with what is `expected` where it is no number
/// or below `least`.
int number_from(int least, const std::string& text, const char* expected) {
  int number = least - 1;
  try {
    read(text, number);
  } catch (const std::invalid_argument&) {
  }
  if (number < least) throw std::invalid_argument(expected);
  return number;
}

}  // namespace

std::string optimizers_text() {
  std::string text;
  for (const OptimizerName& optimizer : optimizer_names) {
    const bool is_first = &optimizer == &optimizer_names.front(), is_last = &optimizer == &optimizer_names.back();
    text += fmt::format("{}{}", is_first ? "" : is_last ? " or " : ", ", optimizer.name);
    if (*optimizer.about != '\0') text += fmt::format(" ({})", optimizer.about);
  }
  return text;
}

Key ranks_key(const char* name, int Parallel::*field, const char* help) {
  return {"parallel",
          name,
          help,
          {},
          /*is_path=*/false,
          [=](const std::string& text, Config& config) {
            read(text, config.parallel.*field);
            if (config.parallel.*field < 1) throw std::invalid_argument("a whole number from 1");
          },
          [=](const Config& config) { return write(config.parallel.*field); }};
}

Key ranks_or_auto_key(const char* name, int Parallel::*field, const char* help) {
  return {"parallel",
          name,
          help,
          {},
          /*is_path=*/false,
          [=](const std::string& text, Config& config) {
            int& size = config.parallel.*field;
            size = unquoted(text) == "auto" ? 0 : number_from(1, text, "a whole number from 1 or auto");
          },
          [=](const Config& config) {
            const int size = config.parallel.*field;
            return size == 0 ? std::string("auto") : write(size);
          }};
}

Key reshard_key(const char* help) {
  return {"parallel",
          "reshard_after_forward",
          help,
          {},
          /*is_path=*/false,
          [](const std::string& text, Config& config) {
            Parallel& parallel = config.parallel;
            const std::string word = unquoted(text);
            const bool is_digit = word == "0" || word == "1";  // a truth elsewhere; here it could be a number of ranks
            if (const std::optional<bool> truth = truth_of(word); truth && !is_digit) {
              parallel.reshard_after_forward = *truth ? Reshard::always : Reshard::never;
              parallel.reshard_size = 1;
              return;
            }
            parallel.reshard_size = number_from(2, text, "true, false or a number of ranks from 2");
            parallel.reshard_after_forward = Reshard::to_groups;
          },
          [](const Config& config) {
            const Parallel& parallel = config.parallel;
            const Reshard reshard = parallel.reshard_after_forward;
            return reshard == Reshard::to_groups ? write(parallel.reshard_size) : write(reshard == Reshard::always);
          }};
}

Key checkpointing_key(const char* help) {
  Key checkpointing = key("train", &Config::train, "activation_checkpointing", &Train::activation_checkpointing, help);
  checkpointing.may_stand_alone = true;
  return checkpointing;
}

Key fsdp_units_key(const char* help) {
  return {"parallel",
          "fsdp_units",
          help,
          {},
          /*is_path=*/false,
          [](const std::string& text, Config& config) {
            int& blocks = config.parallel.blocks_per_unit;
            const std::string word = unquoted(text);
            if (word == "block" || word == "parts") {
              blocks = word == "block" ? 1 : 0;
              return;
            }
            blocks = number_from(1, text, "block, parts or a number of blocks from 1");
          },
          [](const Config& config) {
            const int blocks = config.parallel.blocks_per_unit;
            return blocks > 1 ? write(blocks) : std::string(blocks == 1 ? "block" : "parts");
          }};
}

Key resume_key(const char* help) {
  return {"checkpoint",
          "resume_from_checkpoint",
          help,
          {},
          /*is_path=*/true,
          [](const std::string& text, Config& config) {
            const std::string word = unquoted(text);
            const std::optional<bool> truth = truth_of(word);
            if (is_none(word) || truth == false) {
              config.checkpoint.resume_from_checkpoint = "none";
            } else if (word == "latest" || truth == true) {
              config.checkpoint.resume_from_checkpoint = "auto";
            } else {
              read(text, config.checkpoint.resume_from_checkpoint);
            }
          },
          [](const Config& config) { return write(config.checkpoint.resume_from_checkpoint); }};
}

Key eval_files_key(const char* help) {
  Key files = path_key("data", &Config::data, "eval_files", &Data::eval_files, help);
  files.set = [](const std::string& text, Config& config) {
    config.data.eval_files.clear();
    if (!is_none(unquoted(text))) read(text, config.data.eval_files);
  };
  return files;
}

bool is_no_truth(const std::string& text) { return is_none(text) && !truth_of(text); }

Key eval_steps_key(const char* help) {
  return {"train",
          "eval_steps",
          help,
          {},
          /*is_path=*/false,
          [](const std::string& text, Config& config) {
            std::int64_t& steps = config.train.eval_steps;
            const std::string word = unquoted(text);
            if (truth_of(word) == false) {
              steps = 0;
            } else if (is_none(word)) {
              steps = -1;
            } else {
              try {
                read(text, steps);
                if (steps < 0) throw std::invalid_argument("a negative number");
              } catch (const std::invalid_argument&) {
                throw std::invalid_argument("none, or a whole number from 0");
              }
            }
          },
          [](const Config& config) {
            const std::int64_t steps = config.train.eval_steps;
            return steps < 0 ? std::string("none") : write(steps);
          }};
}

Key save_hub_model_key(const char* help) {
  return {"checkpoint",
          "save_hub_model",
          help,
          {"auto", "true", "false", "every_save"},
          /*is_path=*/false,
          [](const std::string& text, Config& config) {
            const std::string word = unquoted(text);
            HubModel& choice = config.checkpoint.save_hub_model;
            if (word == "auto") {
              choice = HubModel::automatic;
            } else if (word == "every_save") {
              choice = HubModel::every_save;
            } else if (const std::optional<bool> truth = truth_of(word)) {
              choice = *truth ? HubModel::at_end : HubModel::never;
            } else {
              throw std::invalid_argument("auto, true, false or every_save");
            }
          },
          [](const Config& config) -> std::string {
            switch (config.checkpoint.save_hub_model) {
              case HubModel::automatic:
                return "auto";
              case HubModel::never:
                return write(false);
              case HubModel::at_end:
                return write(true);
              case HubModel::every_save:
                break;
            }
            return "every_save";
          }};
}

}  // namespace sft::config
