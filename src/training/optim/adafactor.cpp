// SPDX-License-Identifier: Apache-2.0
#include "adafactor.hpp"

#include <algorithm>
#include <cmath>

#include "sft/core/ensure.hpp"
#include "sft/parallel/shard_reduction.hpp"

namespace sft::optim {

namespace {

std::vector<parallel::UnitIndex> units_of(const std::vector<FactoredWindow>& windows) {
  std::vector<parallel::UnitIndex> units;
  for (const FactoredWindow& window : windows) units.push_back(window.unit);
  return units;
}

StateArray master_array(const std::vector<FactoredWindow>& windows, const StateForm& form) {
  StateArray array{.dtype = master_dtype(form), .place = form.master_location, .windows = {}};
  for (const FactoredWindow& window : windows) array.windows.push_back(window.shard);
  return array;
}

/// Elements [begin, begin + rows * columns) of a flat tensor as a matrix.
Tensor matrix_at(const Tensor& flat, std::int64_t begin, const FactoredPart& part) {
  return flat.rows(begin, part.num_elements()).view({part.num_rows, part.num_columns});
}

void fill_zero_float64(ops::Backend& backend, const Tensor& x) {
  backend.run(ops::Fill{Tensor(x.data, DType::float32, {2 * x.num_elements()}), 0.0F});  // its bytes
}

}  // namespace

Adafactor::Adafactor(const config::Optimizer& keys, const parallel::ShardMap& shard_map, const StateForm& form)
    : keys_(keys),
      form_(form),
      plan_(shard_map),
      has_vectors_(!vectors_layout_.tensors(shard_map).empty()),
      windows_(plan_windows(shard_map, plan_, max_window_elements(form))),
      arrays_(units_of(windows_), master_array(windows_, form), {}) {
  SFT_ENSURE(form.moments == DType::float32, "means of rows and columns are float32");
}

void Adafactor::lay_out(device::Arena& arena, device::Arena& pinned) {
  arrays_.lay_out(arena, pinned);
  moments_ = take(arena, DType::float32, {plan_.num_moments()});
  sums_ = take(arena, DType::float64, {plan_.num_moments()});
  factors_ = take(arena, DType::float32, {plan_.num_moments()});
  squares_ = take(arena, DType::float64, {std::ssize(plan_.tensors)});
}

std::vector<StateEntry> Adafactor::state() {
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    return moments_.ndim == 0 ? Tensor() : moments_.rows(begin, count);
  };
  std::vector<StateEntry> entries;
  if (plan_.num_shared() > 0) {
    entries.push_back({"exp_avg_sq_row", part(0, plan_.num_rows), nullptr, &rows_layout_});
    entries.push_back({"exp_avg_sq_col", part(plan_.num_rows, plan_.num_columns), nullptr, &columns_layout_});
  }
  if (has_vectors_) {
    entries.push_back({"exp_avg_sq", part(plan_.num_shared(), plan_.num_vector_elements), nullptr, &vectors_layout_});
  }
  return entries;
}

std::size_t Adafactor::max_shared_bytes() const {
  const auto count = std::max<std::int64_t>(plan_.num_shared(), std::ssize(plan_.tensors));
  return count * sizeof(double);
}

void Adafactor::begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) {
  step_ = step;
  learning_rate_ = learning_rate;
  gradient_scale_ = gradient_scale;
  rounding_key_ = mix(form_.rounding_seed, static_cast<std::uint64_t>(step));
  read_ahead(order);
}

void Adafactor::share(const parallel::UnitStorage& storage, ops::Backend& backend) {
  SFT_ENSURE(reduction_ != nullptr, "Adafactor has what adds up over ranks");
  update_moments(storage, backend);
  add_squares(storage, backend);
}

void Adafactor::update_moments(const parallel::UnitStorage& storage, ops::Backend& backend) const {
  fill_zero_float64(backend, sums_);
  for (const FactoredPart& part : plan_.parts) {
    const FactoredTensor& tensor = plan_.tensors[part.tensor];
    const bool is_vector = tensor.parameter->is_vector();
    if (!is_vector && !tensor.is_counted) continue;
    backend.run(ops::SumSquaresByDim{.x = matrix_at(storage.gradients(), part.begin, part),
                                     .scale = gradient_scale_,
                                     .rows = is_vector ? Tensor() : sums_.rows(part.row_begin, part.num_rows),
                                     .columns = sums_.rows(part.column_begin, part.num_columns)});
  }
  if (plan_.num_shared() > 0) reduction_->sum(sums_.rows(0, plan_.num_shared()));

  constexpr double decay_rate = -0.8, epsilon = 1e-30;
  const double beta2 = 1.0 - std::pow(static_cast<double>(step_), decay_rate);
  const auto update = [&](std::int64_t begin, std::int64_t size, std::int64_t count, bool by_mean) {
    backend.run(ops::MomentFactors{.moment = moments_.rows(begin, size),
                                   .sums = sums_.rows(begin, size),
                                   .factors = factors_.rows(begin, size),
                                   .count = count,
                                   .beta2 = beta2,
                                   .epsilon = epsilon,
                                   .by_mean = by_mean});
  };
  for (const FactoredTensor& tensor : plan_.tensors) {
    const parallel::Parameter& parameter = *tensor.parameter;
    if (parameter.is_vector()) continue;
    update(tensor.row_begin, parameter.rows, parameter.columns, true);
    update(tensor.column_begin, parameter.columns, parameter.rows, false);
  }
  update(plan_.num_shared(), plan_.num_vector_elements, 1, false);
}

void Adafactor::add_squares(const parallel::UnitStorage& storage, ops::Backend& backend) const {
  fill_zero_float64(backend, squares_);
  for (const FactoredPart& part : plan_.parts) {
    if (plan_.tensors[part.tensor].is_counted) backend.run(ops::AddDirectionSquares{update_of(part, storage)});
  }
  reduction_->sum(squares_);
}

ops::FactoredUpdate Adafactor::update_of(const FactoredPart& part, const parallel::UnitStorage& storage) const {
  constexpr double clip_threshold = 1.0;
  const parallel::Parameter& parameter = *plan_.tensors[part.tensor].parameter;
  const bool is_vector = parameter.is_vector();
  ops::FactoredUpdate update{.parameters = {},
                             .gradients = matrix_at(storage.gradients(), part.begin, part),
                             .row_factors = is_vector ? Tensor() : factors_.rows(part.row_begin, part.num_rows),
                             .column_factors = factors_.rows(part.column_begin, part.num_columns),
                             .squares = squares_.rows(static_cast<std::int64_t>(part.tensor), 1),
                             .copy = {},
                             .learning_rate = learning_rate_ * parameter.rate_factor,
                             .weight_decay = parameter.decays() ? keys_.weight_decay : 0.0,
                             .clip_threshold = clip_threshold,
                             .num_elements = parameter.elements(),
                             .gradient_scale = gradient_scale_,
                             .rounding = part.rounding};
  update.rounding.key = mix(rounding_key_, part.rounding.key);
  return update;
}

void Adafactor::step_unit(parallel::UnitIndex unit, const parallel::UnitStorage& storage, ops::Backend& backend) {
  arrays_.for_each_window(unit, [&](std::size_t number) {
    const FactoredWindow& window = windows_[number];
    const Tensor parameters = arrays_.master(number, storage), copy = storage.compute_copy();
    for (const FactoredPart& part : window.parts) {
      ops::FactoredUpdate update = update_of(part, storage);
      update.parameters = matrix_at(parameters, part.begin - window.shard.begin, part);
      if (!copy.empty()) update.copy = matrix_at(copy, part.begin, part);
      backend.run(ops::UpdateFactored{update});
    }
  });
}

void Adafactor::end_step(const parallel::UnitStorage& /*storage*/, ops::Backend& /*backend*/) { arrays_.end_step(); }

}  // namespace sft::optim
