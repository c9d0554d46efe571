// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "config/keys.hpp"
#include "sft/config/manual.hpp"
#include "sft/config/parse.hpp"

namespace sft::config {

Manual sft_manual() {
  Manual manual;
  manual.program = "sft";
  manual.summary = "Fine-tunes a decoder language model on a mesh of MPI ranks";
  manual.usage = {"mpirun -np N sft [INPUT.ini] [--section.key VALUE ...]",
                  "sft INPUT.ini --dry-run [--json] [--num_ranks N]", "mpirun -np N sft INPUT.ini --check"};
  manual.groups.push_back(
      {"Options",
       {{"help", "", "print this text (also -h)", "", {}, false},
        {"version", "", "print the version", "", {}, false},
        {"print-config", "", "print the configuration that this command line means, as .ini text", "", {}, false},
        {"dry-run",
         "",
         "on one rank, print what the run would be and the memory of all its ranks, and end",
         "",
         {},
         false},
        {"check",
         "",
         "try the machine on the mesh of the run: every collective, its speed, and the slowest rank; and end",
         "",
         {},
         false},
        {"json", "", "with --dry-run: as JSON", "", {}, false},
        {"num_ranks", "N", "with --dry-run: for N ranks; without it, for as many as the mesh needs", "", {}, false}},
       /*has_dashes=*/true});
  manual.keys_heading =
      "Keys of the .ini file; each is also an option, --section.key VALUE, which wins. The section may be left out "
      "where only one has the key. Defaults are in brackets.";
  manual.operand = "*.ini";
  const Config defaults;
  for (const Key& key : keys()) {
    const std::string title = "[" + key.section + "]";
    if (manual.groups.back().title != title) manual.groups.push_back({title, {}, /*has_dashes=*/false});
    manual.groups.back().options.push_back({key.name, "VALUE", key.help, key.get(defaults), key.choices, key.is_path});
  }
  return manual;
}

std::string help_text() { return help_of(sft_manual()); }

}  // namespace sft::config
