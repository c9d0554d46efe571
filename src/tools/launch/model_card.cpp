// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/model_card.hpp"

#include <fmt/format.h>

#include "sft/core/program.hpp"

namespace sft::launch {

namespace {

std::string fields_of(const ModelCard& card) {
  std::string text = "---\n";
  if (!card.base_model.empty()) text += fmt::format("base_model: {}\n", card.base_model);
  if (!card.dataset.empty()) text += fmt::format("datasets: {}\n", card.dataset);
  text += fmt::format("library_name: {}\n", card.is_adapter ? "peft" : "transformers");
  text +=
      fmt::format("model_name: {}\npipeline_tag: text-generation\ntags:\n- generated_from_trainer\n- sft\n", card.name);
  if (card.is_adapter) text += "- lora\n";
  return text + "---\n";
}

std::string origin_of(const ModelCard& card) {
  const char* const hub = "https://huggingface.co";
  std::string text = fmt::format("This {} was made by supervised fine-tuning", card.is_adapter ? "adapter" : "model");
  if (!card.base_model.empty()) text += fmt::format(" of [{0}]({1}/{0})", card.base_model, hub);
  if (!card.dataset.empty()) text += fmt::format(" on the [{0}]({1}/datasets/{0}) dataset", card.dataset, hub);
  return text + ".\n";
}

}  // namespace

std::string to_markdown(const ModelCard& card) {
  const char* const question =
      "If you had a time machine, but could only go to the past or the future once and never return, which would you "
      "choose and why?";
  const char* const input = card.is_chat ? "[{\"role\": \"user\", \"content\": question}]" : "question";
  return fmt::format(R"({0}
# Model Card for {1}

{2}
## Quick start

```python
from transformers import pipeline

question = "{3}"
generator = pipeline("text-generation", model="{4}", device_map="auto")
output = generator({5}, max_new_tokens=128, return_full_text=False)[0]
print(output["generated_text"])
```

## Training procedure

This model was trained with SFT, by `sft` {6}; `launch.ini` has its settings.
)",
                     fields_of(card), card.name, origin_of(card), question, card.repository, input, version());
}

}  // namespace sft::launch
