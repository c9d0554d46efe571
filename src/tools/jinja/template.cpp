// SPDX-License-Identifier: Apache-2.0
#include "sft/jinja/template.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "jinja/evaluator.hpp"
#include "jinja/failure.hpp"
#include "jinja/json.hpp"
#include "jinja/syntax.hpp"
#include "sft/jinja/error.hpp"

namespace sft::jinja {

namespace {

/// Far beyond published templates, whose largest has some 30 kB.
constexpr std::size_t max_source_bytes = std::size_t{4} << 20;

Rendered rendered_from(const TextBuilder& text, std::vector<Source> sources) {
  Rendered rendered;
  rendered.text = text.bytes();
  rendered.sources = std::move(sources);
  std::size_t begin = 0;
  std::int32_t last_generation = -1;
  for (const Run& run : text.runs()) {
    const bool goes_on = !rendered.fragments.empty() && rendered.fragments.back().source == run.tag.source &&
                         rendered.fragments.back().turn == run.tag.turn;
    if (goes_on) {
      rendered.fragments.back().bytes.end = run.end;
    } else {
      rendered.fragments.push_back({{begin, run.end}, run.tag.source, run.tag.turn});
    }
    if (run.tag.generation >= 0) {
      if (run.tag.generation == last_generation) {
        rendered.generation.back().end = run.end;
      } else {
        rendered.generation.push_back({begin, run.end});
      }
    }
    last_generation = run.tag.generation;
    begin = run.end;
  }
  return rendered;
}

}  // namespace

Template::Template(std::string_view source) {
  if (source.size() > max_source_bytes) {
    throw TemplateError(fmt::format("the template has {} bytes", source.size()),
                        fmt::format("at most {} are read", max_source_bytes), "give a shorter one");
  }
  auto syntax = std::make_unique<Syntax>(parse(source));
  syntax->source = source;
  try {
    bind_names(*syntax);
  } catch (const Failure& failure) {
    throw_at_line(1, failure.what(), failure.what_to_do());
  }
  syntax_ = std::move(syntax);
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

bool Template::has_generation() const { return syntax_->has_generation; }
const std::string& Template::source() const { return syntax_->source; }

Rendered Template::render(const nlohmann::ordered_json& context, const RenderOptions& options) const {
  Evaluator evaluator(options);
  try {
    std::vector<Source> sources;
    evaluator.run(*syntax_, variables_of(evaluator.heap(), context, sources));
    return rendered_from(evaluator.text(), std::move(sources));
  } catch (const Failure& failure) {
    if (evaluator.line() > 0) throw_at_line(evaluator.line(), failure.what(), failure.what_to_do());
    throw TemplateError("the template cannot take its data", failure.what(), failure.what_to_do());
  }
}

}  // namespace sft::jinja
