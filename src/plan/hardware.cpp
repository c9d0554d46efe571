// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/hardware.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>

#include "sft/config/ini.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::plan {

namespace {

constexpr double giga = 1e9, tera = 1e12, micro = 1e-6;
constexpr double gibibyte = 1 << 30;

double read_number(const std::string& text) {
  double number = 0;
  config::read(text, number);
  if (!(number >= 0)) throw std::invalid_argument("a number from 0");
  return number;
}

/// "1024:250 8192:740": sizes and TFLOP/s.
std::vector<device::ProductRate> read_curve(const std::string& text) {
  const std::string form = "SIZE:TFLOPS, one or more by rising sizes, as 1024:250 8192:740";
  std::vector<std::string> points;
  config::read(text, points);
  std::vector<device::ProductRate> curve;
  for (const std::string& point : points) {
    const std::size_t colon = point.find(':');
    if (colon == std::string::npos) throw std::invalid_argument(form);
    const device::ProductRate rate{.size = read_number(point.substr(0, colon)),
                                   .flops_per_s = tera * read_number(point.substr(colon + 1))};
    if (rate.size <= 0 || rate.flops_per_s <= 0 || (!curve.empty() && rate.size <= curve.back().size)) {
      throw std::invalid_argument(form);
    }
    curve.push_back(rate);
  }
  if (curve.empty()) throw std::invalid_argument(form);
  return curve;
}

std::string write_curve(const std::vector<device::ProductRate>& curve) {
  std::vector<std::string> points;
  for (const device::ProductRate& at : curve)
    points.push_back(fmt::format("{:.0f}:{:.6g}", at.size, at.flops_per_s / tera));
  return fmt::format("{}", fmt::join(points, " "));
}

/// A key of a machine: how it is read, and written.
struct Key {
  const char* name;
  std::function<void(Hardware&, const std::string&)> read;
  std::function<std::string(const Hardware&)> write;
  bool is_needed = true;
};

/// Of a number that stands in units of `unit`.
template <class Field>
Key number(const char* name, double unit, const Field& field, bool is_needed = true) {
  return {name,
          [field, unit](Hardware& machine, const std::string& text) {
            using Number = std::remove_reference_t<decltype(field(machine))>;
            field(machine) = static_cast<Number>(unit * read_number(text));
          },
          [field, unit](const Hardware& machine) {
            Hardware copy = machine;
            return fmt::format("{:.6g}", static_cast<double>(field(copy)) / unit);
          },
          is_needed};
}

void read_kind(Hardware& machine, const std::string& text) {
  if (text != "cpu" && text != "cuda") throw std::invalid_argument("cpu or cuda");
  machine.kind = text == "cuda" ? device::Kind::cuda : device::Kind::cpu;
  machine.rates.overlaps = machine.kind == device::Kind::cuda;
}

const std::vector<Key>& keys() {
  static const std::vector<Key> all{
      {"description", [](Hardware& m, const std::string& text) { config::read(text, m.description); },
       [](const Hardware& m) { return m.description; }, false},
      {"kind", read_kind, [](const Hardware& m) { return std::string(m.kind == device::Kind::cuda ? "cuda" : "cpu"); }},
      number("ranks_per_node", 1, [](Hardware& m) -> int& { return m.ranks_per_node; }),
      number(
          "num_nodes", 1, [](Hardware& m) -> int& { return m.num_nodes; }, false),
      number(
          "device_memory_gib", gibibyte, [](Hardware& m) -> std::size_t& { return m.device_bytes; }, false),
      number("node_memory_gib", gibibyte, [](Hardware& m) -> std::size_t& { return m.node_bytes; }),
      number(
          "peak_tflops", tera, [](Hardware& m) -> double& { return m.peak_flops_per_s; }, false),
      {"product_tflops", [](Hardware& m, const std::string& text) { m.rates.products = read_curve(text); },
       [](const Hardware& m) { return write_curve(m.rates.products); }},
      number("attention_forward_tflops", tera,
             [](Hardware& m) -> double& { return m.rates.attention_forward_flops_per_s; }),
      number("attention_backward_tflops", tera,
             [](Hardware& m) -> double& { return m.rates.attention_backward_flops_per_s; }),
      number("memory_gbps", giga, [](Hardware& m) -> double& { return m.rates.memory_bytes_per_s; }),
      number("host_gbps", giga, [](Hardware& m) -> double& { return m.rates.host_bytes_per_s; }),
      number("launch_us", micro, [](Hardware& m) -> double& { return m.rates.launch_s; }),
      number("link_gbps", giga, [](Hardware& m) -> double& { return m.network.within.bytes_per_s; }),
      number("link_hop_us", micro, [](Hardware& m) -> double& { return m.network.within.hop_s; }),
      number("network_gbps", giga, [](Hardware& m) -> double& { return m.network.between.bytes_per_s; }),
      number("network_hop_us", micro, [](Hardware& m) -> double& { return m.network.between.hop_s; }),
      number("call_us", micro, [](Hardware& m) -> double& { return m.network.call_s; }),
      number("write_gbps", giga, [](Hardware& m) -> double& { return m.write_bytes_per_s; })};
  return all;
}

/// What rates may not be: clocks would stand still, or never end.
bool is_complete(const Hardware& m) {
  const std::vector<double> rates{m.rates.attention_forward_flops_per_s,
                                  m.rates.attention_backward_flops_per_s,
                                  m.rates.memory_bytes_per_s,
                                  m.rates.host_bytes_per_s,
                                  m.network.within.bytes_per_s,
                                  m.network.between.bytes_per_s,
                                  m.write_bytes_per_s};
  return m.ranks_per_node >= 1 && m.num_nodes >= 1 && std::ranges::all_of(rates, [](double rate) { return rate > 0; });
}

}  // namespace

std::vector<Hardware> read_machines(const std::string& text, const std::string& source) {
  std::vector<Hardware> machines;
  std::set<std::string> given;
  const auto finish = [&] {
    if (machines.empty()) return;
    for (const Key& key : keys()) {
      if (!key.is_needed || given.contains(key.name)) continue;
      throw_config_error(fmt::format("{}: machine `{}` has no `{}`", source, machines.back().name, key.name),
                         "plans of time need it", "add the line; share/sft/machines.ini has examples");
    }
    if (!is_complete(machines.back())) {
      throw_config_error(
          fmt::format("{}: machine `{}` has a rate or a number of ranks of 0", source, machines.back().name),
          "nothing would ever end on it", "give what it does");
    }
    given.clear();
  };
  for (const config::IniLine& line : config::read_ini(text, source)) {
    const std::string place = config::place_of(source, line.number);
    if (line.name.empty()) {
      finish();
      machines.emplace_back().name = line.section;
      continue;
    }
    const auto key = std::ranges::find_if(keys(), [&](const Key& known) { return line.name == known.name; });
    if (machines.empty() || key == keys().end()) {
      throw_config_error(
          fmt::format("{}: `{}` is nothing that is known of a machine", place, line.name),
          machines.empty() ? "it stands in no [machine]" : "see share/sft/machines.ini for what there is",
          "correct or remove the line");
    }
    try {
      key->read(machines.back(), line.value);
    } catch (const std::invalid_argument& expectation) {
      throw_config_error(fmt::format("{}: cannot read `{} = {}`", place, line.name, line.value),
                         fmt::format("expected {}", expectation.what()), "correct the value");
    }
    given.insert(line.name);
  }
  finish();
  return machines;
}

Hardware find_machine(const std::string& name, const std::vector<Hardware>& known) {
  constexpr int most = 65536;
  const auto named = [&](const std::string& base) { return std::ranges::find(known, base, &Hardware::name); };
  if (const auto exact = named(name); exact != known.end()) return *exact;
  for (const char* form : {"(.+)x([0-9]{1,5})x([0-9]{1,5})", "(.+)x([0-9]{1,5})"}) {
    std::smatch parts;
    if (!std::regex_match(name, parts, std::regex(form))) continue;
    const auto found = named(parts[1]);
    const int ranks_per_node = std::stoi(parts[2]), num_nodes = parts.size() > 3 ? std::stoi(parts[3]) : 1;
    if (found == known.end() || ranks_per_node < 1 || num_nodes < 1 || ranks_per_node > most / num_nodes) continue;
    Hardware machine = *found;
    machine.name = name;
    machine.ranks_per_node = ranks_per_node;
    machine.num_nodes = num_nodes;
    return machine;
  }
  std::vector<std::string> names;
  for (const Hardware& machine : known) names.push_back(machine.name);
  throw_config_error(fmt::format("there is no machine `{}`", name), fmt::format("known are {}", fmt::join(names, ", ")),
                     "give one of them with its devices and nodes, as h200x8x4 for 4 nodes of 8, or a file of one "
                     "machine");
}

std::string to_ini(const Hardware& machine) {
  std::string text = fmt::format("[{}]\n", machine.name);
  for (const Key& key : keys()) text += fmt::format("{} = {}\n", key.name, key.write(machine));
  return text;
}

comm::Span span_of(const std::vector<WorldRank>& ranks, int ranks_per_node) {
  std::map<int, int> ranks_of_node;
  for (const WorldRank rank : ranks) ++ranks_of_node[static_cast<int>(rank) / ranks_per_node];
  int least = static_cast<int>(ranks.size());
  for (const auto& [node, count] : ranks_of_node) least = std::min(least, count);
  return {.num_nodes = static_cast<int>(ranks_of_node.size()), .ranks_per_node = least};
}

}  // namespace sft::plan
