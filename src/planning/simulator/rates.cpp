// SPDX-License-Identifier: Apache-2.0
#include "sft/simulator/rates.hpp"

#include <algorithm>
#include <cmath>

#include "sft/core/ensure.hpp"

namespace sft::simulator {

namespace {

/// Of a curve by its logarithms; beyond the last point the value stays, and below the first as `below` says.
template <class Point>
double on_curve(const std::vector<Point>& curve, double Point::*at, double Point::*value, double where) {
  const auto found = std::ranges::find_if(curve, [&](const Point& point) { return point.*at >= where; });
  if (found == curve.end()) return curve.back().*value;
  if (found == curve.begin()) return curve.front().*value;
  const Point &above = *found, &below = *(found - 1);
  const double part = std::log(where / (below.*at)) / std::log(above.*at / (below.*at));
  return below.*value * std::pow(above.*value / (below.*value), part);
}

/// The side below `n` and how far it is from there to the next, by logarithms; ends stay.
struct Between {
  std::size_t below;
  double part;
};
Between between(const std::vector<double>& sides, std::int64_t n) {
  const double value = std::clamp(static_cast<double>(n), sides.front(), sides.back());
  std::size_t below = 0;
  while (below + 2 < sides.size() && sides[below + 1] <= value) ++below;
  return {below, std::log(value / sides[below]) / std::log(sides[below + 1] / sides[below])};
}

double attention_s(const Rates& rates, const std::vector<ProductRate>& curve, double flops_per_s, double num_flops,
                   double keys, double num_bytes) {
  if (num_flops == 0) return 0;
  if (curve.empty()) return rates.launch_s + std::max(num_flops / flops_per_s, num_bytes / rates.memory_bytes_per_s);
  return num_flops / on_curve(curve, &ProductRate::size, &ProductRate::flops_per_s, keys);
}

}  // namespace

double ProductGrid::rate(ProductForm form, std::int64_t m, std::int64_t n, std::int64_t k) const {
  const std::vector<double>& of_form = flops_per_s[static_cast<std::size_t>(form)];
  const Between i = between(sides, m), j = between(sides, n), l = between(sides, k);
  double logarithm = 0;
  for (const std::size_t corner : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
    const std::size_t di = corner & 1U, dj = corner >> 1U & 1U, dl = corner >> 2U;
    const double weight =
        (di == 1 ? i.part : 1 - i.part) * (dj == 1 ? j.part : 1 - j.part) * (dl == 1 ? l.part : 1 - l.part);
    if (weight == 0) continue;
    const std::size_t at = ((i.below + di) * sides.size() + j.below + dj) * sides.size() + l.below + dl;
    logarithm += weight * std::log(of_form[at]);
  }
  return std::exp(logarithm);
}

double Rates::product_flops_per_s(std::int64_t m, std::int64_t n, std::int64_t k) const {
  SFT_ENSURE(!products.empty(), "a device multiplies at some rate");
  const double size = std::cbrt(static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
  if (size < products.front().size) return products.front().flops_per_s * std::max(size, 1.0) / products.front().size;
  return on_curve(products, &ProductRate::size, &ProductRate::flops_per_s, size);
}

double Rates::products_s(ProductForm form, double count, std::int64_t m, std::int64_t n, std::int64_t k,
                         double num_bytes, double speedup) const {
  const double flops = count * 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (flops == 0) return 0;
  if (!product_grid.sides.empty()) return flops / (product_grid.rate(form, m, n, k) * speedup);
  return launch_s + std::max(flops / (product_flops_per_s(m, n, k) * speedup), num_bytes / memory_bytes_per_s);
}

double Rates::attention_forward_s(double num_flops, double keys, double num_bytes) const {
  return attention_s(*this, attention.forward, attention_forward_flops_per_s, num_flops, keys, num_bytes);
}

double Rates::attention_backward_s(double num_flops, double keys, double num_bytes) const {
  return attention_s(*this, attention.backward, attention_backward_flops_per_s, num_flops, keys, num_bytes);
}

double Rates::pass_s(ops::Pass pass, double num_bytes) const {
  const std::vector<PassRate>& curve = passes[static_cast<std::size_t>(pass)];
  if (curve.empty()) return launch_s + num_bytes / memory_bytes_per_s;
  return num_bytes / on_curve(curve, &PassRate::bytes, &PassRate::bytes_per_s, num_bytes);
}

Rates Rates::scaled(double factor) const {
  Rates all = *this;
  const auto scale_all = [factor](std::vector<ProductRate>& curve) {
    for (ProductRate& at : curve) at.flops_per_s *= factor;
  };
  scale_all(all.products);
  for (AttentionRates* rates :
       {&all.attention, &all.attention_cudnn, &all.attention_cudnn_unordered, &all.attention_hopper}) {
    scale_all(rates->forward);
    scale_all(rates->backward);
  }
  for (std::vector<double>& of_form : all.product_grid.flops_per_s) {
    for (double& rate : of_form) rate *= factor;
  }
  for (std::vector<PassRate>& curve : all.passes) {
    for (PassRate& at : curve) at.bytes_per_s *= factor;
  }
  all.attention_forward_flops_per_s *= factor;
  all.attention_backward_flops_per_s *= factor;
  all.memory_bytes_per_s *= factor;
  all.host_bytes_per_s *= factor;
  all.launch_s /= factor;
  all.host_launch_s /= factor;
  all.host_repeat_s /= factor;
  return all;
}

}  // namespace sft::simulator
