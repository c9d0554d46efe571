// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/hostfile.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/environment.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::launch {

namespace fs = std::filesystem;

namespace {

/// A line of a hostfile, as Open MPI, DeepSpeed (`HOST slots=N`) and MPICH (`HOST:N`) read it.
struct Line {
  std::string host;
  std::optional<int> slots, max_slots;
  std::string unclear;  ///< what of it is not known here
};

std::optional<int> read_slots(std::string_view text, Line& line) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error == std::errc() && end == text.data() + text.size() && slots >= 0) return slots;
  line.unclear = fmt::format("`{}` is no number of slots", text);
  return 0;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// The words of a line before its comment; blanks around `=` are none.
std::vector<std::string> fields_of(const std::string& text) {
  std::string joined;
  for (const char c : text.substr(0, text.find('#'))) {
    if (c == '=') {
      while (joined.ends_with(' ')) joined.pop_back();
      joined += c;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (!joined.ends_with('=') && !joined.ends_with(' ')) joined += ' ';
    } else {
      joined += c;
    }
  }
  std::istringstream stream(joined);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Line read_line(const std::vector<std::string>& words) {
  Line line{.host = words.front(), .slots = {}, .max_slots = {}, .unclear = {}};
  const std::size_t colon = line.host.rfind(':');
  if (colon != std::string::npos && line.host.find(':') == colon) {  // several are an IPv6 address
    line.slots = read_slots(std::string_view(line.host).substr(colon + 1), line);
    line.host.resize(colon);
  }
  line.host.erase(0, line.host.find('@') + 1);  // Open MPI's USER@HOST
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word(words[i]);
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = word.substr(0, equals);
    if (is_one_of(name, {"slots", "slot", "cpu", "cpus", "count"}))
      line.slots = read_slots(word.substr(equals + 1), line);
    if (is_one_of(name, {"max_slots", "max-slots", "slots_max", "slots-max", "cpus_max", "cpus-max"})) {
      line.max_slots = read_slots(word.substr(equals + 1), line);
    }
  }
  if (line.host.starts_with('+') || line.host.starts_with('^')) {
    line.unclear = fmt::format("`{}` means hosts by their place among others", line.host);
  }
  return line;
}

}  // namespace

Hosts read_hostfile(const std::string& path) {
  std::error_code ignored;
  if (const auto kind = fs::status(path, ignored).type(); kind != fs::file_type::regular) {
    throw_config_error(kind == fs::file_type::not_found ? fmt::format("there is no hostfile {}", path)
                                                        : fmt::format("the hostfile {} is no file", path),
                       kind == fs::file_type::directory   ? "it is a folder"
                       : kind == fs::file_type::not_found ? "the path does not exist"
                                                          : "a pipe or device can be read only once",
                       "name a file with a line `HOST slots=N` for each machine");
  }
  std::istringstream text(io::read_file_or_pipe(path));
  std::vector<std::pair<int, Line>> lines;
  std::map<std::string, int> times;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    const std::vector<std::string> words = fields_of(line);
    if (words.empty()) continue;
    lines.emplace_back(number, read_line(words));
    ++times[lines.back().second.host];
  }
  if (lines.empty()) {
    throw_config_error(fmt::format("the hostfile {} names no host", path), "all its lines are empty or comments",
                       "write a line `HOST slots=N` for each machine");
  }
  Hosts hosts{.num_hosts = static_cast<int>(times.size())};
  for (auto& [place, line] : lines) {
    // A batch system names a host once for each of its slots. One that is named once has as many as cores, says Open
    // MPI.
    if (!line.slots && !line.max_slots && times[line.host] == 1 && line.unclear.empty()) {
      line.unclear = fmt::format("the line of {} has no slots", line.host);
    }
    if (!line.unclear.empty() && hosts.unclear.empty()) {
      hosts.unclear = fmt::format("{}:{}: {}", path, place, line.unclear);
    }
    const int slots = line.slots.value_or(line.max_slots.value_or(1));
    hosts.num_slots += slots;
    const auto known = std::ranges::find(hosts.slots_of, line.host, &std::pair<std::string, int>::first);
    if (known != hosts.slots_of.end()) {
      known->second += slots;
    } else {
      hosts.slots_of.emplace_back(line.host, slots);
    }
  }
  if (hosts.num_slots == 0 && hosts.unclear.empty()) hosts.unclear = fmt::format("{}: all hosts have 0 slots", path);
  if (!hosts.unclear.empty()) hosts.num_slots = 0;
  if (std::ranges::any_of(
          times, [](const auto& host) { return host.first.starts_with('+') || host.first.starts_with('^'); })) {
    hosts.num_hosts = 0;
  }
  return hosts;
}

JobHosts find_job_hosts() {
  std::error_code ignored;
  for (const char* name : {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE"}) {
    const std::string file = variable(name);
    if (!fs::is_regular_file(file, ignored)) continue;
    const Hosts hosts = read_hostfile(file);
    return {file, hosts.num_slots > 0, hosts.slots_of};
  }
  JobHosts job;
  std::istringstream words(variable("LSB_MCPU_HOSTS"));
  int slots = 0;
  for (std::string host; words >> host >> slots;) job.slots_of.emplace_back(host, slots);
  return job;
}

}  // namespace sft::launch
