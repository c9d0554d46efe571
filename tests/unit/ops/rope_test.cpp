// SPDX-License-Identifier: Apache-2.0
#include "unit/ops/naive.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {
namespace {

/// Positions, frequencies and their table for head_dim.
struct Rotary {
  Owned positions, frequencies, cosine, sine;

  Rotary(TestBackend& backend, std::int64_t rows, std::int64_t head_dim)
      : positions(Owned(DType::int32, {rows}).uniform(1, 0, 40000)),
        frequencies(DType::float64, {head_dim / 2}),
        cosine(DType::float32, {rows, head_dim / 2}),
        sine(DType::float32, {rows, head_dim / 2}) {
    for (std::int64_t j = 0; j < head_dim / 2; ++j) {
      set(*frequencies, j, 0, std::pow(10000.0, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim)));
    }
    backend->run(WriteRopeTable{*cosine, *sine, *positions, *frequencies, {}});
  }
  [[nodiscard]] naive::Values rope(const naive::Values& x, std::int64_t num_heads, double direction) const {
    return naive::rope(x, read(*positions), read(*frequencies), num_heads, direction);
  }
};

/// Heads inside a wider row, as q and k are in the fused projection.
Tensor heads_of(const Owned& storage, std::int64_t num_heads, std::int64_t head_dim) {
  return storage->columns(head_dim, num_heads * head_dim).view({storage->shape[0], num_heads, head_dim});
}

constexpr float epsilon = 1e-6f;

}  // namespace

BOOST_AUTO_TEST_SUITE(rope)

BOOST_AUTO_TEST_CASE(table_holds_cosine_and_sine_to_the_last_digits) {
  on_every_backend([](TestBackend& backend) {
    const Rotary rotary(backend, 600, 64);
    double worst = 0.0;
    for (std::int64_t t = 0; t < 600; ++t) {
      for (std::int64_t j = 0; j < 32; ++j) {
        const double angle = get(*rotary.positions, t, 0) * get(*rotary.frequencies, j, 0);
        worst = std::max(worst, std::abs(get(*rotary.cosine, t, j) - std::cos(angle)));
        worst = std::max(worst, std::abs(get(*rotary.sine, t, j) - std::sin(angle)));
      }
    }
    BOOST_TEST(worst < 1.5e-7, backend.name());
  });
}

BOOST_AUTO_TEST_CASE(table_is_scaled) {
  on_every_backend([](TestBackend& backend) {
    const Rotary rotary(backend, 70, 24);
    const Owned cosine(DType::float32, {70, 12}), sine(DType::float32, {70, 12});
    backend->run(WriteRopeTable{*cosine, *sine, *rotary.positions, *rotary.frequencies, {.factor = 1.5f}});
    for (std::int64_t t = 0; t < 70; ++t) {
      for (std::int64_t j = 0; j < 12; ++j) {
        BOOST_TEST(get(*cosine, t, j) == static_cast<double>(1.5f * static_cast<float>(get(*rotary.cosine, t, j))));
        BOOST_TEST(get(*sine, t, j) == static_cast<double>(1.5f * static_cast<float>(get(*rotary.sine, t, j))));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(table_grows_with_the_position) {
  on_every_backend([](TestBackend& backend) {
    const Rotary rotary(backend, 70, 24);  // positions up to 40000
    const Owned cosine(DType::float32, {70, 12}), sine(DType::float32, {70, 12});
    const std::int64_t length = 7000;
    backend->run(WriteRopeTable{
        *cosine, *sine, *rotary.positions, *rotary.frequencies, {.factor = 1.5f, .beta = 0.25f, .length = length}});
    for (std::int64_t t = 0; t < 70; ++t) {
      const double growth = 1.5 * (1.0 + 0.25 * std::log(1.0 + std::floor(get(*rotary.positions, t, 0) / 7000.0)));
      for (std::int64_t j = 0; j < 12; ++j) {
        BOOST_TEST(std::abs(get(*cosine, t, j) - growth * get(*rotary.cosine, t, j)) < 3e-7, backend.name());
        BOOST_TEST(std::abs(get(*sine, t, j) - growth * get(*rotary.sine, t, j)) < 3e-7, backend.name());
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(forward_out_of_place_and_in_place_and_backward) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [rows, num_heads, head_dim] : {std::tuple{1, 1, 8}, {9, 3, 6}, {130, 2, 64}}) {
      const Rotary rotary(backend, rows, head_dim);
      const Owned storage = Owned(dtype, {rows, (num_heads + 2) * head_dim}).normal(2);
      const Owned out_storage(dtype, {rows, (num_heads + 2) * head_dim});
      const Tensor in = heads_of(storage, num_heads, head_dim), out = heads_of(out_storage, num_heads, head_dim);
      const naive::Values expected = rotary.rope(read(in), num_heads, 1.0);
      backend->run(RopeForward{out, in, {*rotary.cosine, *rotary.sine}});
      check_close(out, expected, tolerance_of(dtype), label);
      backend->run(RopeForward{in, in, {*rotary.cosine, *rotary.sine}});
      BOOST_TEST((read(in) == read(out)), label);

      const Owned dout_storage = Owned(dtype, {rows, (num_heads + 2) * head_dim}).normal(3);
      const Tensor dout = heads_of(dout_storage, num_heads, head_dim);
      const naive::Values expected_din = rotary.rope(read(dout), num_heads, -1.0);
      backend->run(RopeBackward{out, dout, {*rotary.cosine, *rotary.sine}});
      check_close(out, expected_din, tolerance_of(dtype), label);
      BOOST_TEST(std::isnan(get(*out_storage, rows - 1, 0)));
      backend->run(RopeBackward{dout, dout, {*rotary.cosine, *rotary.sine}});
      BOOST_TEST((read(dout) == read(out)), label);
    }
  });
}

BOOST_AUTO_TEST_CASE(the_first_dims_of_heads_alone) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [rows, num_heads, head_dim, turned] :
         {std::tuple{1, 1, 8, 2}, {9, 3, 6, 4}, {130, 2, 64, 48}, {33, 5, 96, 32}}) {
      const Rotary rotary(backend, rows, turned);
      const Owned storage = Owned(dtype, {rows, (num_heads + 2) * head_dim}).normal(2);
      const Tensor heads = heads_of(storage, num_heads, head_dim);
      const naive::Values before = read(heads);
      naive::Values part;
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (i % static_cast<std::size_t>(head_dim) < static_cast<std::size_t>(turned)) part.push_back(before[i]);
      }
      for (const double direction : {1.0, -1.0}) {
        const naive::Values rotated = rotary.rope(part, num_heads, direction);
        naive::Values expected = before;
        std::size_t next = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          if (i % static_cast<std::size_t>(head_dim) < static_cast<std::size_t>(turned)) expected[i] = rotated[next++];
        }
        const Owned copy(dtype, {rows, (num_heads + 2) * head_dim});
        backend->run(Copy{*copy, *storage});
        const Tensor in_place = heads_of(copy, num_heads, head_dim);
        if (direction > 0) {
          backend->run(RopeForward{in_place, in_place, {*rotary.cosine, *rotary.sine}});
        } else {
          backend->run(RopeBackward{in_place, in_place, {*rotary.cosine, *rotary.sine}});
        }
        check_close(in_place, expected, tolerance_of(dtype), label);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(norm_of_every_head_before_the_rotation) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [rows, num_heads, head_dim] : {std::tuple{1, 1, 8}, {9, 3, 6}, {130, 2, 128}}) {
      const Rotary rotary(backend, rows, head_dim);
      const Owned storage = Owned(dtype, {rows, (num_heads + 2) * head_dim}).normal(2);
      const Owned out_storage(dtype, {rows, (num_heads + 2) * head_dim});
      const Tensor in = heads_of(storage, num_heads, head_dim), out = heads_of(out_storage, num_heads, head_dim);
      const Owned weight = Owned(dtype, {head_dim}).normal(4), rstd(DType::float32, {rows, num_heads});
      const naive::Norm norm = naive::rms_norm(read(in), read(*weight), epsilon);
      backend->run(NormRopeForward{.out = out,
                                   .rstd = *rstd,
                                   .in = in,
                                   .weight = *weight,
                                   .table = {*rotary.cosine, *rotary.sine},
                                   .epsilon = epsilon});
      check_close(out, rotary.rope(norm.y, num_heads, 1.0), tolerance_of(dtype), label);
      check_close(*rstd, norm.rstd, 1e-6, label);

      const Owned dout_storage = Owned(dtype, {rows, (num_heads + 2) * head_dim}).normal(3);
      const Tensor dout = heads_of(dout_storage, num_heads, head_dim);
      const Owned dweight = Owned(DType::float32, {head_dim}).normal(5);
      naive::NormGradient expected =
          naive::rms_norm_backward(rotary.rope(read(dout), num_heads, -1.0), read(in), norm.rstd, read(*weight));
      const std::vector<double> before = read(*dweight);
      for (std::size_t c = 0; c < before.size(); ++c) expected.dweight[c] += before[c];
      backend->run(NormRopeBackward{.din = out,
                                    .dweight = *dweight,
                                    .dout = dout,
                                    .in = in,
                                    .rstd = *rstd,
                                    .weight = *weight,
                                    .table = {*rotary.cosine, *rotary.sine}});
      check_close(out, expected.dx, 2 * tolerance_of(dtype), label);
      check_close(*dweight, expected.dweight, 1e-5, label);
      backend->run(NormRopeBackward{.din = dout,
                                    .dweight = *dweight,
                                    .dout = dout,
                                    .in = in,
                                    .rstd = *rstd,
                                    .weight = *weight,
                                    .table = {*rotary.cosine, *rotary.sine}});
      BOOST_TEST((read(dout) == read(out)), label);
    }
  });
}

BOOST_AUTO_TEST_CASE(norm_of_every_head_alone) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [rows, num_heads, head_dim] : {std::tuple{1, 1, 8}, {9, 3, 6}, {130, 2, 128}}) {
      const Owned storage = Owned(dtype, {rows, (num_heads + 2) * head_dim}).normal(2);
      const Owned out_storage(dtype, {rows, (num_heads + 2) * head_dim});
      const Tensor in = heads_of(storage, num_heads, head_dim), out = heads_of(out_storage, num_heads, head_dim);
      const Owned weight = Owned(dtype, {head_dim}).normal(4), rstd(DType::float32, {rows, num_heads});
      const naive::Norm norm = naive::rms_norm(read(in), read(*weight), epsilon);
      backend->run(
          NormRopeForward{.out = out, .rstd = *rstd, .in = in, .weight = *weight, .table = {}, .epsilon = epsilon});
      check_close(out, norm.y, tolerance_of(dtype), label);
      check_close(*rstd, norm.rstd, 1e-6, label);

      const Owned dout_storage = Owned(dtype, {rows, (num_heads + 2) * head_dim}).normal(3);
      const Tensor dout = heads_of(dout_storage, num_heads, head_dim);
      const Owned dweight = Owned(DType::float32, {head_dim}).normal(5);
      naive::NormGradient expected = naive::rms_norm_backward(read(dout), read(in), norm.rstd, read(*weight));
      const std::vector<double> before = read(*dweight);
      for (std::size_t c = 0; c < before.size(); ++c) expected.dweight[c] += before[c];
      backend->run(NormRopeBackward{
          .din = out, .dweight = *dweight, .dout = dout, .in = in, .rstd = *rstd, .weight = *weight, .table = {}});
      check_close(out, expected.dx, 2 * tolerance_of(dtype), label);
      check_close(*dweight, expected.dweight, 1e-5, label);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
