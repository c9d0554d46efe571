#include <algorithm>
#include <string>

#include "config/keys.hpp"
#include "sft/config/parse.hpp"

namespace sft::config {

std::string help_text() {
  std::string text =
      "Fine-tunes a decoder language model on a mesh of MPI ranks.\n"
      "\n"
      "  mpirun -np N sft [INPUT.ini] [--section.key VALUE ...]\n"
      "\n"
      "  -h, --help      print this text\n"
      "  --version       print the version\n"
      "  --print-config  print the configuration that this command line means, as .ini text\n"
      "  --dry-run       on one rank, print what the run would be and the memory of all its ranks, and end\n"
      "  --json          with --dry-run: as JSON\n"
      "  --num_ranks N   with --dry-run: for N ranks; without it, for as many as the mesh needs\n"
      "\n"
      "Keys of the .ini file; each is also an option, --section.key VALUE, which wins. Defaults are in brackets.\n";
  std::size_t width = 0;
  for (const Key& key : keys()) width = std::max(width, key.name.size());
  const Config defaults;
  std::string section;
  for (const Key& key : keys()) {
    if (key.section != section) text += "\n[" + key.section + "]\n";
    section = key.section;
    const std::string value = key.get(defaults);
    text += "  " + key.name + std::string(width - key.name.size() + 2, ' ') + key.help;
    text += value.empty() ? "\n" : " [" + value + "]\n";
  }
  return text;
}

}  // namespace sft::config
