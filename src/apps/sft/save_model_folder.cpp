// SPDX-License-Identifier: Apache-2.0
#include "save_model_folder.hpp"

#include <fmt/core.h>
#include <array>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "sft/core/cast.hpp"
#include "sft/core/log.hpp"
#include "sft/model/architecture.hpp"

namespace sft::apps {

namespace {

constexpr std::uint64_t max_file_bytes = 5'000'000'000;  ///< transformers' max_shard_size

/// float32, or bfloat16 where the run kept no more.
hub::WeightType weight_type_of(const checkpoint::Entry& entry) {
  return entry.dtype() == DType::bf16 ? hub::WeightType::bfloat16 : hub::WeightType::float32;
}

/// All tensors of the entries, in logical shapes.
std::vector<io::TensorInfo> tensors_of(const std::vector<checkpoint::Entry>& entries) {
  std::vector<io::TensorInfo> tensors;
  for (const checkpoint::Entry& entry : entries) {
    for (const parallel::StoredTensor& tensor : entry.layout->tensors(*entry.shard_map)) {
      tensors.push_back({fmt::format("{}/{}", entry.name, tensor.parameter->name), tensor.shape, DType::float32});
    }
  }
  return tensors;
}

hub::WeightsPlan plan_of(const std::vector<checkpoint::Entry>& entries, const config::Lora& lora,
                         hub::FileLayout layout) {
  const hub::WeightType type = weight_type_of(entries.front());
  if (!lora.use_peft) return {tensors_of(entries), type, max_file_bytes, hub::model_stem, layout};
  layout.carried.clear();
  return {tensors_of(entries), type, std::numeric_limits<std::uint64_t>::max(), hub::adapter_stem, layout, &lora};
}

}  // namespace

ModelFolder::ModelFolder(const config::Config& config, const rows::PackedDataset& rows, const train::Engine& engine,
                         const comm::Group& world, const comm::Group& node)
    : folder_(folder_of(config)),
      config_(config),
      max_length_(rows.max_length()),
      state_(config.lora.use_peft ? engine.adapter() : engine.weights()),
      world_(world),
      node_(node) {
  world.agree([&] {
    if (world.rank() == 0) markup_ = rows.markup();
  });
}

ModelFolder::~ModelFolder() = default;

std::string ModelFolder::folder_of(const config::Config& config) {
  return config.train.output_dir + (config.lora.use_peft ? "/adapter" : "/model");
}

std::size_t ModelFolder::shared_bytes(const config::Config& config) {
  if (config.parallel.tp_size == 1 || !config.leaves_model_folder()) return 0;
  std::size_t num_regions = 0;
  for (const parallel::PartUnits& part : model::make_architecture(config.model).parts) {
    for (const parallel::Unit& unit : part.units) {
      for (const parallel::Parameter& parameter : unit.parameters) {
        const auto bytes = checked_cast<std::uint64_t>(parameter.elements()) * size_of(DType::float32);
        num_regions += hub::SharedRegions::num_regions(bytes);
      }
    }
  }
  return hub::SharedRegions::memory_bytes(num_regions);
}

void ModelFolder::begin() {
  // 1. How the files hold the model, which rank 0 alone reads
  const std::vector<checkpoint::Entry> entries = state_.first_entries();
  const bool is_adapter = config_.lora.use_peft;
  std::string layout;
  world_.agree([&] {
    if (world_.rank() != 0) return;
    contents_ = is_adapter ? plan_adapter_contents(config_.model)
                           : plan_contents(config_.model, weight_type_of(entries.front()), max_length_);
    contents_.markup = markup_;
    layout = hub::to_json(contents_.layout);
  });
  world_.broadcast(layout, 0);
  contents_.layout = hub::file_layout_of_json(layout);
  plan_.emplace(plan_of(entries, config_.lora, contents_.layout));

  // 2. The folder
  world_.agree([&] {
    if (world_.rank() != 0) return;
    unfinished_ = std::make_unique<hub::NewFolder>(folder_, /*replaces=*/true);
    temporary_ = unfinished_->temporary();
    if (is_adapter) {
      write_adapter_companions(temporary_, contents_, config_, tensors_of(entries));
    } else {
      write_companions(temporary_, contents_);
    }
    write_weight_files(*plan_, temporary_);
  });
  world_.broadcast(temporary_, 0);

  // 3. Where ranks have columns of matrices, they write together
  if (config_.parallel.tp_size > 1 && !is_adapter) share_regions();
}

void ModelFolder::share_regions() {
  const std::size_t bytes = hub::SharedRegions::memory_bytes(*plan_);
  std::string path;
  account_.emplace(node_.rank() == 0 ? bytes : 0);
  if (node_.rank() == 0) {
    memory_ = io::NodeMemory::make(bytes);
    path = memory_ == nullptr ? "" : memory_->path();
  }
  node_.broadcast(path, 0);
  if (node_.rank() != 0 && !path.empty()) memory_ = io::NodeMemory::open(path, bytes);
  std::array<std::int64_t, 1> is_missing{memory_ == nullptr ? 1 : 0};
  node_.max(is_missing);
  if (node_.rank() == 0 && memory_ != nullptr) memory_->forget();
  if (is_missing[0] != 0) {
    account_.reset();
    memory_.reset();
  } else {
    regions_ = std::make_unique<hub::SharedRegions>(*plan_, std::span(memory_->data(), bytes), node_.size());
  }
}

void ModelFolder::write(const std::function<void(io::TensorSink& sink)>& give) {
  try {
    if (regions_ != nullptr) {
      hub::RegionCounter counter(*plan_, *regions_);
      give(counter);
      regions_->start();
    }
    hub::WeightsSink sink(*plan_, temporary_, regions_.get());
    give(sink);
    sink.finish();
  } catch (const std::exception& error) {
    if (regions_ != nullptr) regions_->fail(error.what());
    throw;
  }
  if (world_.rank() == 0) hub::copy_carried(*plan_, contents_.origin, temporary_);
}

void ModelFolder::abandon() {
  if (regions_ != nullptr) regions_->fail("another rank could not write its part of the checkpoint");
}

void ModelFolder::finish() {
  regions_.reset();
  account_.reset();
  memory_.reset();
  world_.agree([&] {
    if (world_.rank() != 0) return;
    hub::order_experts(*plan_, temporary_);
    unfinished_->finish();
    unfinished_.reset();
  });
  is_written_ = true;
  log_event(fmt::format("saved {} in {}", folder_, config_.lora.use_peft ? "PEFT's format" : "hub format"));
}

void ModelFolder::save(device::Device& device, device::Stream& stream) {
  begin();
  world_.agree([&] { write([&](io::TensorSink& sink) { checkpoint::save_entries(state_, sink, device, stream); }); });
  finish();
}

}  // namespace sft::apps
