// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chat templates in the language Jinja (https://jinja.palletsprojects.com, version 3.1), rendered as the Python library
// transformers renders them: blocks trimmed on both sides, `break` and `continue`, `raise_exception`, `strftime_now`,
// `tojson` without HTML escapes, and the block `generation`. Values, their operators and how they print are Python's.
// The rendered text remembers, byte by byte, which message it came from. src/tools/jinja/README.md lists what there is
// of the language: what published templates use. Anything else is refused by name.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sft::jinja {

/// A range of bytes of the rendered text: [begin, end).
struct ByteSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const ByteSpan&, const ByteSpan&) = default;
};

/// A value inside `messages` that rendered text was made from.
struct Source {
  std::int32_t message = 0;  ///< index into `messages`
  std::string field;         ///< key of the message that holds it: "role", "content", "tool_calls", ...
};

/// Consecutive bytes of the rendered text that have the same origin.
struct Fragment {
  ByteSpan bytes;
  std::int32_t source = -1;  ///< index into Rendered::sources; -1: the template's own words, or no message's
  std::int32_t turn = -1;  ///< the message whose iteration of a loop over messages wrote it; -1: outside of such loops
};

struct Rendered {
  std::string text;
  std::vector<ByteSpan>
      generation;                   ///< what stands in `{% generation %}` blocks, in order, without overlap, none empty
  std::vector<Fragment> fragments;  ///< cover the text in order; neighbours differ, none is empty
  std::vector<Source> sources;
};

/// What a rendering may use before it is refused. The defaults are far beyond the need of published templates.
struct Limits {
  std::size_t max_steps = 50'000'000;                     ///< evaluated nodes, iterations, and 64 bytes of text moved
  std::size_t max_memory_bytes = std::size_t{512} << 20;  ///< held by values at one time, the context included
  std::size_t max_depth = 1200;  ///< of nested evaluation: macros that call themselves, deep syntax
};

struct RenderOptions {
  Limits limits;
  /// What `strftime_now` prints, in local time. A run that fixes it renders the same text on every day.
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  /// Refuses to print what is undefined or none, which Jinja prints as nothing and "None". Tests of both, and
  /// `default`, are allowed, and an
  /// inline `if` without an `else` is an empty text.
  bool has_values_only = false;
};

struct Syntax;

/// A compiled template. Immutable: threads may render with one object at the same time.
class Template {
 public:
  /// Compiles `source` (UTF-8). Throws a TemplateError that names the line of what is wrong or not supported.
  explicit Template(std::string_view source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// Renders with the members of the object `context` as variables; strings under `messages` are tracked. Binary data
  /// are the digits of an integer beyond 64 bits, which JSON's library has no value for. Throws a TemplateError that
  /// names the line: what the template raises, an operation that Python refuses, what is not supported, or a limit that
  /// is exceeded.
  [[nodiscard]] Rendered render(const nlohmann::ordered_json& context, const RenderOptions& options = {}) const;

  /// Whether it has a `{% generation %}` block, so that Rendered::generation says what an assistant wrote.
  [[nodiscard]] bool has_generation() const;
  /// What it was compiled from.
  [[nodiscard]] const std::string& source() const;

 private:
  std::unique_ptr<const Syntax> syntax_;
};

}  // namespace sft::jinja
