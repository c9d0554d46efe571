// SPDX-License-Identifier: Apache-2.0
#include "sft/simulator/hardware.hpp"

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

namespace sft::simulator {

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
std::vector<ProductRate> read_curve(const std::string& text) {
  const std::string form = "SIZE:TFLOPS, one or more by rising sizes, as 1024:250 8192:740";
  std::vector<std::string> points;
  config::read(text, points);
  std::vector<ProductRate> curve;
  for (const std::string& point : points) {
    const std::size_t colon = point.find(':');
    if (colon == std::string::npos) throw std::invalid_argument(form);
    const ProductRate rate{.size = read_number(point.substr(0, colon)),
                           .flops_per_s = tera * read_number(point.substr(colon + 1))};
    if (rate.size <= 0 || rate.flops_per_s <= 0 || (!curve.empty() && rate.size <= curve.back().size)) {
      throw std::invalid_argument(form);
    }
    curve.push_back(rate);
  }
  if (curve.empty()) throw std::invalid_argument(form);
  return curve;
}

std::string write_curve(const std::vector<ProductRate>& curve) {
  std::vector<std::string> points;
  for (const ProductRate& at : curve) points.push_back(fmt::format("{:.0f}:{:.6g}", at.size, at.flops_per_s / tera));
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

/// Of rates by size.
template <class Field>
Key curve(const char* name, const Field& field, bool is_needed) {
  return {name, [field](Hardware& m, const std::string& text) { field(m.rates) = read_curve(text); },
          [field](const Hardware& m) {
            Hardware copy = m;
            return write_curve(field(copy.rates));
          },
          is_needed};
}

/// Of `which` attention.
Key attention_curve(const char* name, AttentionRates Rates::*which, std::vector<ProductRate> AttentionRates::*pass) {
  return curve(
      name, [=](Rates & rates) -> auto& { return rates.*which.*pass; }, false);
}

/// The words of `text`, each as "KEY@BYTES:NUMBER".
struct MeasuredWord {
  std::string key;
  double bytes, number;
};
std::vector<MeasuredWord> read_measured(const std::string& text) {
  std::vector<std::string> words;
  config::read(text, words);
  std::vector<MeasuredWord> all;
  for (const std::string& word : words) {
    const std::size_t at = word.find('@'), colon = word.find(':');
    if (at == std::string::npos || colon == std::string::npos || colon < at) {
      throw std::invalid_argument("words of the form NAME@BYTES:NUMBER");
    }
    all.push_back(
        {word.substr(0, at), read_number(word.substr(at + 1, colon - at - 1)), read_number(word.substr(colon + 1))});
  }
  return all;
}
void require_above_0(double number) {
  if (number <= 0) throw std::invalid_argument("numbers above 0");
}

/// "copy@65536:20 copy@4194304:11 add@...": GB/s.
void read_passes(Hardware& machine, const std::string& text) {
  for (const MeasuredWord& word : read_measured(text)) {
    const auto name = std::ranges::find(ops::pass_names, word.key);
    if (name == ops::pass_names.end()) {
      throw std::invalid_argument(fmt::format("of {}, not {}", fmt::join(ops::pass_names, ", "), word.key));
    }
    require_above_0(word.number);
    auto& points = machine.rates.passes[name - ops::pass_names.begin()];
    if (word.bytes <= 0 || (!points.empty() && word.bytes <= points.back().bytes)) {
      throw std::invalid_argument("rising bytes");
    }
    points.push_back({word.bytes, giga * word.number});
  }
}
std::string write_passes(const Hardware& machine) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < ops::num_passes; ++i) {
    for (const PassRate& at : machine.rates.passes[i]) {
      words.push_back(fmt::format("{}@{:.0f}:{:.6g}", ops::pass_names[i], at.bytes, at.bytes_per_s / giga));
    }
  }
  return fmt::format("{}", fmt::join(words, " "));
}

/// A word whose key is "4x1", for groups of 4 ranks on each of 1 node.
struct SpanWord {
  Span span;
  double at, number;
};
std::vector<SpanWord> read_of_spans(const std::string& text, const std::string& form) {
  std::vector<SpanWord> all;
  for (const MeasuredWord& word : read_measured(text)) {
    std::smatch parts;
    if (!std::regex_match(word.key, parts, std::regex("([0-9]{1,5})x([0-9]{1,5})"))) throw std::invalid_argument(form);
    const Span span{.num_nodes = std::stoi(parts[2]), .ranks_per_node = std::stoi(parts[1])};
    if (span.num_nodes < 1 || span.ranks_per_node < 1 || span.num_nodes * span.ranks_per_node < 2) {
      throw std::invalid_argument(form);
    }
    if (!all.empty() && all.back().span == span && word.bytes <= all.back().at) throw std::invalid_argument(form);
    all.push_back({span, word.bytes, word.number});
  }
  return all;
}
std::string word_of(const Span& span, double at, double number) {
  return fmt::format("{}x{}@{:.0f}:{:.6g}", span.ranks_per_node, span.num_nodes, at, number);
}

/// "4x1@65536:31 4x1@1048576:420": microseconds of groups of 4 ranks on each of 1 node.
Key calls(const char* name, const char* call) {
  const std::string form = "RANKSxNODES@BYTES:MICROSECONDS by rising bytes, two or more of a form";
  return {name,
          [call, form](Hardware& m, const std::string& text) {
            std::vector<MeasuredCalls>& measured = m.network.measured;
            std::erase_if(measured, [&](const MeasuredCalls& of) { return of.call == call; });
            for (const SpanWord& word : read_of_spans(text, form)) {
              require_above_0(word.number);
              const bool is_new =
                  measured.empty() || measured.back().call != call || !(measured.back().span == word.span);
              if (is_new) measured.push_back({call, word.span, {}});
              measured.back().points.push_back({word.at, micro * word.number});
            }
            if (std::ranges::any_of(measured, [](const MeasuredCalls& of) { return of.points.size() < 2; })) {
              throw std::invalid_argument(form);
            }
          },
          [call](const Hardware& m) {
            std::vector<std::string> words;
            for (const MeasuredCalls& of : m.network.measured) {
              if (of.call != call) continue;
              for (const auto& at : of.points) words.push_back(word_of(of.span, at.bytes, at.seconds / micro));
            }
            return fmt::format("{}", fmt::join(words, " "));
          },
          false};
}

/// "4x1@1000:150": after 1000 microseconds of work groups of 4 ranks on each of 1 node wait 150.
Key waits(const char* name, const char* call) {
  return {name,
          [call](Hardware& m, const std::string& text) {
            std::vector<MeasuredWaits>& all = m.network.waits;
            std::erase_if(all, [&](const MeasuredWaits& of) { return of.call == call; });
            for (const SpanWord& word :
                 read_of_spans(text, "RANKSxNODES@MICROSECONDS:MICROSECONDS by rising work before")) {
              require_above_0(word.at);
              const bool is_new = all.empty() || all.back().call != call || !(all.back().span == word.span);
              if (is_new) all.push_back({call, word.span, {}});
              all.back().points.push_back({micro * word.at, micro * word.number});
            }
          },
          [call](const Hardware& m) {
            std::vector<std::string> words;
            for (const MeasuredWaits& of : m.network.waits) {
              if (of.call != call) continue;
              for (const auto& at : of.points)
                words.push_back(word_of(of.span, at.computed_s / micro, at.wait_s / micro));
            }
            return fmt::format("{}", fmt::join(words, " "));
          },
          false};
}

/// "16 64 256".
std::vector<double> read_numbers(const std::string& text) {
  std::vector<std::string> words;
  config::read(text, words);
  std::vector<double> numbers;
  for (const std::string& word : words) numbers.push_back(read_number(word));
  if (numbers.empty() || std::ranges::any_of(numbers, [](double number) { return number <= 0; })) {
    throw std::invalid_argument("numbers above 0");
  }
  return numbers;
}
std::string write_numbers(const std::vector<double>& numbers, double unit) {
  std::vector<std::string> words;
  words.reserve(numbers.size());
  for (const double number : numbers) words.push_back(fmt::format("{:.4g}", number / unit));
  return fmt::format("{}", fmt::join(words, " "));
}

Key sides(const char* name) {
  return {name,
          [](Hardware& m, const std::string& text) {
            m.rates.product_grid.sides = read_numbers(text);
            if (m.rates.product_grid.sides.size() < 2 ||
                std::ranges::adjacent_find(m.rates.product_grid.sides, std::greater_equal()) !=
                    m.rates.product_grid.sides.end()) {
              throw std::invalid_argument("two rising sizes or more");
            }
          },
          [](const Hardware& m) { return write_numbers(m.rates.product_grid.sides, 1); }, false};
}
Key grid(const char* name, ProductForm form) {
  const auto index = static_cast<std::size_t>(form);
  return {
      name,
      [index](Hardware& m, const std::string& text) {
        const std::size_t n = m.rates.product_grid.sides.size();
        std::vector<double>& rates = m.rates.product_grid.flops_per_s[index];
        rates = read_numbers(text);
        if (rates.size() != n * n * n) {
          throw std::invalid_argument(fmt::format("{} rates, as many as product_sides make, behind them", n * n * n));
        }
        for (double& rate : rates) rate *= giga;
      },
      [index](const Hardware& m) { return write_numbers(m.rates.product_grid.flops_per_s[index], giga); }, false};
}

void read_kind(Hardware& machine, const std::string& text) {
  if (text != "cpu" && text != "cuda") throw std::invalid_argument("cpu or cuda");
  machine.kind = text == "cuda" ? device::Kind::cuda : device::Kind::cpu;
  machine.rates.overlaps = machine.kind == device::Kind::cuda;
}

const std::vector<Key>& keys() {
  using R = Rates;
  using A = AttentionRates;
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
          "compute_capability", 10, [](Hardware& m) -> int& { return m.compute_capability; }, false),
      number(
          "multiprocessors", 1, [](Hardware& m) -> int& { return m.multiprocessors; }, false),
      number(
          "memory_bus_bits", 1, [](Hardware& m) -> int& { return m.memory_bus_bits; }, false),
      number(
          "peak_tflops", tera, [](Hardware& m) -> double& { return m.peak_flops_per_s; }, false),
      curve(
          "product_tflops", [](Rates & rates) -> auto& { return rates.products; }, true),
      number(
          "fp8_speedup", 1, [](Hardware& m) -> double& { return m.rates.fp8_speedup; }, false),
      number("attention_forward_tflops", tera,
             [](Hardware& m) -> double& { return m.rates.attention_forward_flops_per_s; }),
      number("attention_backward_tflops", tera,
             [](Hardware& m) -> double& { return m.rates.attention_backward_flops_per_s; }),
      number("memory_gbps", giga, [](Hardware& m) -> double& { return m.rates.memory_bytes_per_s; }),
      number("host_gbps", giga, [](Hardware& m) -> double& { return m.rates.host_bytes_per_s; }),
      number("launch_us", micro, [](Hardware& m) -> double& { return m.rates.launch_s; }),
      number(
          "host_launch_us", micro, [](Hardware& m) -> double& { return m.rates.host_launch_s; }, false),
      number(
          "host_repeat_us", micro, [](Hardware& m) -> double& { return m.rates.host_repeat_s; }, false),
      number("link_gbps", giga, [](Hardware& m) -> double& { return m.network.within.bytes_per_s; }),
      number("link_hop_us", micro, [](Hardware& m) -> double& { return m.network.within.hop_s; }),
      number("network_gbps", giga, [](Hardware& m) -> double& { return m.network.between.bytes_per_s; }),
      number("network_hop_us", micro, [](Hardware& m) -> double& { return m.network.between.hop_s; }),
      number("call_us", micro, [](Hardware& m) -> double& { return m.network.call_s; }),
      number("write_gbps", giga, [](Hardware& m) -> double& { return m.write_bytes_per_s; }),
      number(
          "cores_per_node", 1, [](Hardware& m) -> int& { return m.cores_per_node; }, false),
      number(
          "start_s", 1, [](Hardware& m) -> double& { return m.start_s; }, false),
      sides("product_sides"),
      grid("product_forward_gflops", ProductForm::second),
      grid("product_input_gradient_gflops", ProductForm::none),
      grid("product_weight_gradient_gflops", ProductForm::first),
      attention_curve("attention_forward_by_keys_tflops", &R::attention, &A::forward),
      attention_curve("attention_backward_by_keys_tflops", &R::attention, &A::backward),
      attention_curve("attention_cudnn_forward_by_keys_tflops", &R::attention_cudnn, &A::forward),
      attention_curve("attention_cudnn_backward_by_keys_tflops", &R::attention_cudnn, &A::backward),
      attention_curve("attention_cudnn_unordered_backward_by_keys_tflops", &R::attention_cudnn_unordered, &A::backward),
      attention_curve("attention_hopper_forward_by_keys_tflops", &R::attention_hopper, &A::forward),
      attention_curve("attention_hopper_backward_by_keys_tflops", &R::attention_hopper, &A::backward),
      {"pass_gbps", read_passes, write_passes, false},
      calls("all_gather_us", "all_gather"),
      calls("reduce_scatter_add_us", "reduce_scatter_add"),
      calls("all_reduce_us", "all_reduce"),
      calls("exchange_us", "exchange"),
      calls("exchange_all_us", "exchange_all"),
      waits("all_reduce_wait_us", waited_calls[0]),
      waits("exchange_all_wait_us", waited_calls[1])};
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
  if (!m.rates.product_grid.sides.empty() &&
      std::ranges::any_of(m.rates.product_grid.flops_per_s, [](const auto& row) { return row.empty(); })) {
    return false;
  }
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
      if (std::ranges::find(machines, line.section, &Hardware::name) != machines.end()) {
        throw_config_error(fmt::format("{}: machine `{}` is there twice", place, line.section),
                           "the second one would never be found", "give it another name, or remove it");
      }
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
    if (!given.insert(line.name).second) {
      throw_config_error(fmt::format("{}: `{}` is given twice", place, line.name), "one of the two would be ignored",
                         "keep one of them");
    }
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
    Hardware machine = with_ranks_per_node(*found, ranks_per_node);
    machine.name = name;
    machine.num_nodes = num_nodes;
    return machine;
  }
  std::vector<std::string> names;
  for (const Hardware& machine : known) names.push_back(machine.name);
  throw_config_error(fmt::format("there is no machine `{}`", name), fmt::format("known are {}", fmt::join(names, ", ")),
                     "give one of them with its devices and nodes, as h200x8x4 for 4 nodes of 8, or a file of one "
                     "machine");
}

Hardware with_ranks_per_node(Hardware machine, int ranks_per_node) {
  const auto share_of_rank = [&](int ranks) {
    return machine.cores_per_node == 0 ? 1.0 : static_cast<double>(machine.cores_per_node) / ranks;
  };
  if (machine.kind == device::Kind::cpu && ranks_per_node != machine.ranks_per_node) {
    const double factor = share_of_rank(ranks_per_node) / share_of_rank(machine.ranks_per_node);
    machine.rates = machine.rates.scaled(factor);
    for (Link* link : {&machine.network.within, &machine.network.between}) {
      link->bytes_per_s *= factor;
      link->hop_s /= factor;
    }
    machine.network.call_s /= factor;
    for (MeasuredCalls& calls : machine.network.measured) {
      for (MeasuredCalls::Point& at : calls.points) at.seconds /= factor;
    }
    for (MeasuredWaits& of : machine.network.waits) {
      for (MeasuredWaits::Point& at : of.points) {
        at.computed_s /= factor;
        at.wait_s /= factor;
      }
    }
    const bool shared_cores = share_of_rank(machine.ranks_per_node) < 1;
    if (shared_cores && share_of_rank(ranks_per_node) >= 1) machine.network.waits.clear();
  }
  machine.ranks_per_node = ranks_per_node;
  return machine;
}

std::string to_ini(const Hardware& machine) {
  std::string text = fmt::format("[{}]\n", machine.name);
  for (const Key& key : keys()) {
    const std::string value = key.write(machine);
    if (key.is_needed || !value.empty()) text += fmt::format("{} = {}\n", key.name, value);
  }
  return text;
}

Span span_of(const std::vector<WorldRank>& ranks, int ranks_per_node) {
  std::map<int, int> ranks_of_node;
  for (const WorldRank rank : ranks) ++ranks_of_node[static_cast<int>(rank) / ranks_per_node];
  int least = static_cast<int>(ranks.size());
  for (const auto& [node, count] : ranks_of_node) least = std::min(least, count);
  return {.num_nodes = static_cast<int>(ranks_of_node.size()), .ranks_per_node = least};
}

}  // namespace sft::simulator
