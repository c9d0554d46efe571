// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/fp8_matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/backends.hpp"
#include "ops/cuda/cublaslt_plan.hpp"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/kernels/run.hpp"
#include "ops/views/fp8.hpp"
#include "ops/views/tensor.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::ops::cuda {
namespace {

/// Shapes of products that are kept: some 200 bytes of host memory each. When there are more, all are forgotten.
constexpr std::size_t max_kept_fp8_products = 4096;

/// What the library wants of pointers and rows of c, and of lines that have scales of tiles.
constexpr std::int64_t vector_bytes = 16, line_multiple = 4;

/// Of the scratch memory: for a block of c in float32, and for scales of the lines of each operand.
constexpr std::int64_t c_bytes = std::int64_t{8} << 20, scale_bytes = std::int64_t{4} << 20;
constexpr std::int64_t float_bytes = sizeof(float);
/// Columns and terms of such blocks at most: so that a block of c has 256 rows, and there is room for the scales of
/// 2048 lines.
constexpr std::int64_t block_columns = 8192, block_terms = 65536;

std::int64_t round_up(std::int64_t size, std::int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % vector_bytes == 0; }

/// Whether the library writes c where it lies.
bool is_direct(const Tensor& c) {
  const std::int64_t multiple = vector_bytes / static_cast<std::int64_t>(size_of(c.dtype));
  return is_aligned(c.data) && c.shape[1] % multiple == 0 && row_stride(c) % multiple == 0;
}

cudaDataType type_of(const ConstFp8Matrix& x) { return x.format == Fp8Format::e5m2 ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3; }

// By their numbers in CUDA 12.9, for older headers do not have them. One scale for all is what is meant without them.
constexpr auto first_scale_mode = static_cast<cublasLtMatmulDescAttributes_t>(31),
               second_scale_mode = static_cast<cublasLtMatmulDescAttributes_t>(32);
std::int32_t scale_mode_of(Fp8Tiles tiles) {
  constexpr std::int32_t vectors_of_128 = 4, blocks_of_128 = 5;
  return tiles == Fp8Tiles::vectors ? vectors_of_128 : blocks_of_128;
}

std::int64_t num_tiles(std::int64_t size) { return (size + fp8_tile - 1) / fp8_tile; }

/// The scales in a row of those of blocks, over so many terms.
std::int64_t row_of_blocks(std::int64_t terms) { return fp8_scale_shape(Fp8Tiles::blocks, fp8_tile, terms)[1]; }

/// Lines [line, line + lines) and terms [term, term + terms) of a matrix, both from the begin of tiles on.
ConstFp8Matrix part_of(const ConstFp8Matrix& x, std::int64_t line, std::int64_t lines, std::int64_t term,
                       std::int64_t terms) {
  ConstFp8Matrix part = x;
  part.codes = x.codes.rows(line, lines).columns(term, terms);
  if (x.tiles == Fp8Tiles::vectors) {
    part.scales = x.scales.rows(term / fp8_tile, num_tiles(terms)).columns(line, lines);
  } else if (x.tiles == Fp8Tiles::blocks) {
    part.scales = x.scales.rows(line / fp8_tile, num_tiles(lines)).columns(term / fp8_tile, row_of_blocks(terms));
  }
  return part;
}

/// Whether the library reads the scales where they lie: row behind row, those of vectors of a multiple of lines.
bool has_scales(const ConstFp8Matrix& x) {
  if (x.tiles == Fp8Tiles::whole) return true;
  const bool has_gaps = x.scales.shape[0] > 1 && x.scales.stride0 != x.scales.shape[1];
  return !has_gaps && x.scales.shape[1] % line_multiple == 0 && is_aligned(x.scales.data);
}

/// The matrix with scales that the library reads for all of its lines, some of which have none as they do not count: a
/// copy in `memory` unless they are that already.
ConstFp8Matrix made_ready(ConstFp8Matrix x, std::byte* memory, cudaStream_t stream) {
  const bool has_lines = x.tiles != Fp8Tiles::vectors || x.scales.shape[1] == x.codes.shape[0];
  if (x.tiles == Fp8Tiles::whole || (has_lines && has_scales(x))) return x;
  const Tensor scales(memory, DType::float32,
                      {x.scales.shape[0], x.tiles == Fp8Tiles::vectors ? x.codes.shape[0] : x.scales.shape[1]});
  SFT_ENSURE(scales.size_bytes() <= static_cast<std::size_t>(scale_bytes), "fp8_matmul: scales of a block have room");
  cuda::run(Copy{scales.columns(0, x.scales.shape[1]), x.scales}, Context{stream, {}});
  x.scales = scales;
  return x;
}

/// What algorithms may use.
Preference preference_of(Workspace workspace) {
  constexpr auto alignment = static_cast<std::uint32_t>(vector_bytes);
  return Preference(std::array{alignment, alignment, alignment}, workspace);
}

}  // namespace

/// Rows and columns of c, and whether they are made in scratch memory; so many terms at a time.
struct Fp8MatmulEngine::Block {
  std::int64_t row, rows, column, columns, terms;
  bool in_scratch;
};

/// Rows, columns and terms of blocks, and whether all are made in scratch memory.
struct Fp8MatmulEngine::Steps {
  std::int64_t rows, columns, terms;
  bool in_scratch;
};

/// How to run products of one kind.
class Fp8MatmulEngine::Plan : public CublasltPlan {
 public:
  explicit Plan(const Fp8Matmul& product)
      : CublasltPlan(/*transpose_a=*/false, /*transpose_b=*/true, form_of_codes(product.a), form_of_codes(product.b),
                     form_of(product.c)) {
    if (product.a.tiles != Fp8Tiles::whole) {
      operation().set(first_scale_mode, scale_mode_of(product.b.tiles));
      operation().set(second_scale_mode, scale_mode_of(product.a.tiles));
    }
    set_scales(product);
  }

  void run(cublasLtHandle_t library, const Fp8Matmul& product, Workspace workspace, cudaStream_t stream) {
    set_scales(product);
    operation().set_bias(product.bias.data);
    multiply(
        library,
        {.a = product.a.codes.data, .b = product.b.codes.data, .c = product.c.data, .accumulate = product.accumulate},
        workspace, stream);
  }

 private:
  /// The terms of a sum with the zeros behind a line.
  static MatrixForm form_of_codes(const ConstFp8Matrix& x) {
    return {type_of(x), x.codes.shape[0], fp8_line_codes(x.codes.shape[1]), x.codes.stride0};
  }

  void set_scales(const Fp8Matmul& product) {
    operation().set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product.b.scales.data);
    operation().set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product.a.scales.data);
  }
};

Fp8MatmulEngine::Fp8MatmulEngine(cudaStream_t stream, const ProductLimits& limits, const MatmulAlgorithms* algorithms)
    : stream_(stream), limits_(limits), algorithms_(algorithms) {
  check(cublasLtCreate(&library_), "cublasLtCreate");
}

Fp8MatmulEngine::~Fp8MatmulEngine() {
  plans_.clear();
  cublasLtDestroy(library_);
}

Fp8MatmulEngine::Steps Fp8MatmulEngine::steps_of(const Fp8Matmul& product) const {
  const auto& [a, b, c, accumulate, bias] = product;
  const std::int64_t m = c.shape[0], n = c.shape[1], k = a.codes.shape[1], line_codes = fp8_line_codes(k);
  Steps steps{.rows = std::min({m, limits_.max_rows, limits_.max_span / line_codes, limits_.max_span / row_stride(c)}),
              .columns = std::min({n, limits_.max_rows, limits_.max_span / line_codes}),
              .terms = k,
              .in_scratch = !is_direct(c)};
  // Rows that scales of vectors do not come in are left to a block of their own.
  const bool has_odd_rows = a.tiles == Fp8Tiles::vectors && m % line_multiple != 0;
  if (has_odd_rows && m > line_multiple) steps.rows = std::min(steps.rows, m / line_multiple * line_multiple);
  const bool copies_scales = (a.tiles == Fp8Tiles::vectors && (steps.rows < m || !has_scales(a))) ||
                             (b.tiles == Fp8Tiles::vectors && (steps.columns < n || !has_scales(b)));
  if (copies_scales) {
    steps.terms = std::min(steps.terms, block_terms);
    const std::int64_t most = scale_bytes / float_bytes / num_tiles(steps.terms);
    steps.rows = std::min(steps.rows, most);
    steps.columns = std::min(steps.columns, most);
    // Sums of several blocks of terms are added up in float32.
    steps.in_scratch = steps.in_scratch || (steps.terms < k && c.dtype != DType::float32);
  }
  if (steps.in_scratch) {
    steps.columns = std::min(steps.columns, block_columns);
    steps.rows = std::min(steps.rows, c_bytes / float_bytes / (steps.columns + line_multiple));
  }
  // Blocks begin with tiles, and their rows as the library wants them.
  const auto cut = [](std::int64_t step, std::int64_t size, Fp8Tiles tiles, std::int64_t least) {
    const std::int64_t multiple = tiles == Fp8Tiles::blocks ? fp8_tile : least;
    return step < size ? std::max(step / multiple, std::int64_t{1}) * multiple : step;
  };
  steps.rows = cut(steps.rows, m, a.tiles, line_multiple);
  steps.columns = cut(steps.columns, n, b.tiles, vector_bytes);
  return steps;
}

template <class Visit>
void Fp8MatmulEngine::for_each_block(const Fp8Matmul& product, const Visit& visit) const {
  ensure_fits(product);
  if (product.c.empty()) return;
  const std::int64_t m = product.c.shape[0], n = product.c.shape[1];
  const Steps steps = steps_of(product);
  for (std::int64_t row = 0; row < m; row += steps.rows) {
    const std::int64_t rows = std::min(steps.rows, m - row);
    const bool is_odd = product.a.tiles == Fp8Tiles::vectors && rows % line_multiple != 0;
    for (std::int64_t column = 0; column < n; column += steps.columns) {
      visit(Block{.row = row,
                  .rows = rows,
                  .column = column,
                  .columns = std::min(steps.columns, n - column),
                  .terms = steps.terms,
                  .in_scratch = steps.in_scratch || is_odd});
    }
  }
}

Tensor Fp8MatmulEngine::place_of(const Fp8Matmul& product, const Block& block, void* room) {
  const auto& [row, rows, column, columns, terms, in_scratch] = block;
  if (!in_scratch) return product.c.rows(row, rows).columns(column, columns);
  const Tensor place(room, DType::float32, {round_up(rows, line_multiple), round_up(columns, line_multiple)});
  SFT_ENSURE(place.size_bytes() <= static_cast<std::size_t>(c_bytes), "fp8_matmul: a block has room");
  return place;
}

bool Fp8MatmulEngine::is_bias_of_product(const Fp8Matmul& product, const Block& block) {
  if (product.bias.data == nullptr || product.bias.dtype != DType::bf16) return false;
  const bool is_whole_sum = block.terms == product.a.codes.shape[1];
  return is_aligned(product.bias.rows(block.column, block.columns).data) && !block.in_scratch && is_whole_sum;
}

Fp8Matmul Fp8MatmulEngine::part_of_block(const Fp8Matmul& product, const Block& block, const Tensor& place,
                                         std::int64_t term) {
  const auto& [row, rows, column, columns, terms, in_scratch] = block;
  const std::int64_t count = std::min(terms, product.a.codes.shape[1] - term);
  Fp8Matmul part{.a = part_of(product.a, row, rows, term, count),
                 .b = part_of(product.b, column, columns, term, count),
                 .c = place,
                 .accumulate = product.accumulate || term > 0};
  part.a.codes.shape[0] = place.shape[0];
  part.b.codes.shape[0] = place.shape[1];
  if (is_bias_of_product(product, block)) part.bias = product.bias.rows(column, columns);
  return part;
}

std::set<Fp8ProductKey> Fp8MatmulEngine::parts_of(const Fp8Matmul& product) const {
  std::set<Fp8ProductKey> keys;
  for_each_block(product, [&](const Block& block) {
    const Tensor place = place_of(product, block, nullptr);
    for (std::int64_t term = 0; term < product.a.codes.shape[1]; term += block.terms) {
      keys.insert(key_of(part_of_block(product, block, place, term)));
    }
  });
  return keys;
}

template <class Multiply>
void Fp8MatmulEngine::run_parts(const Fp8Matmul& product, Workspace workspace, const Multiply& multiply) const {
  // Also where nothing is made there: so the library works in as much for all products of a kind, whose plan is one.
  constexpr auto room_bytes = static_cast<std::size_t>(c_bytes + 2 * scale_bytes);
  SFT_ENSURE(workspace.num_bytes > room_bytes, "fp8_matmul: set_workspace first");
  const Workspace rest{workspace.data, workspace.num_bytes - room_bytes};
  std::byte* const room = static_cast<std::byte*>(workspace.data) + rest.num_bytes;
  for_each_block(product, [&](const Block& block) {
    const auto& [row, rows, column, columns, terms, in_scratch] = block;
    const Tensor place = place_of(product, block, room), result = place.rows(0, rows).columns(0, columns),
                 c = product.c.rows(row, rows).columns(column, columns);
    if (in_scratch && product.accumulate) cuda::run(Copy{result, c}, Context{stream_, {}});
    for (std::int64_t term = 0; term < product.a.codes.shape[1]; term += terms) {
      Fp8Matmul part = part_of_block(product, block, place, term);
      part.a = made_ready(part.a, room + c_bytes, stream_);
      part.b = made_ready(part.b, room + c_bytes + scale_bytes, stream_);
      multiply(part, rest);
    }
    if (product.bias.data != nullptr && !is_bias_of_product(product, block)) {
      add_bias(view_of(result), {product.bias.rows(column, columns).data, product.bias.dtype == DType::bf16}, stream_);
    }
    if (in_scratch) cuda::run(Copy{c, result}, Context{stream_, {}});
  });
}

void Fp8MatmulEngine::run(const Fp8Matmul& product, Workspace workspace) {
  run_parts(product, workspace, [this](const Fp8Matmul& part, Workspace rest) { multiply(part, rest); });
}

std::map<std::string, ProductTiming> Fp8MatmulEngine::time(const Fp8Matmul& product, Workspace workspace,
                                                           const MatmulAlgorithms& known) const {
  std::map<std::string, ProductTiming> timings;
  run_parts(product, workspace, [&](const Fp8Matmul& part, Workspace rest) {
    const std::string name = key_of(part).text();
    if (known.find(name) != nullptr || timings.contains(name)) return;
    const std::unique_ptr<Plan> plan = first_plan(part, rest);
    const auto run = [&] { plan->run(library_, part, rest, stream_); };
    timings.emplace(name, time_proposals(*plan, library_, preference_of(rest), part.bias.data, run, stream_));
  });
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return timings;
}

std::unique_ptr<Fp8MatmulEngine::Plan> Fp8MatmulEngine::first_plan(const Fp8Matmul& product,
                                                                   Workspace workspace) const {
  auto plan = std::make_unique<Plan>(product);
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto proposed = plan->propose(library_, preference_of(workspace), product.bias.data, 1, &status);
  if (proposed.empty()) {
    throw Error(ExitStatus::failure, "cuBLASLt has no algorithm for a product of 8-bit floats",
                fmt::format("{} x {} x {}, {}", product.c.shape[0], product.c.shape[1], product.a.codes.shape[1],
                            cublasLtGetStatusString(status)),
                "use a newer CUDA toolkit and driver, set train.fp8 = none, or report this shape");
  }
  plan->take(proposed.front(), product.bias.data != nullptr);
  return plan;
}

std::unique_ptr<Fp8MatmulEngine::Plan> Fp8MatmulEngine::make_plan(const Fp8Matmul& product, const Fp8ProductKey& key,
                                                                  Workspace workspace) const {
  const auto* const listed = algorithms_ != nullptr ? algorithms_->find(key.text()) : nullptr;
  if (listed != nullptr) {
    auto plan = std::make_unique<Plan>(product);
    const bool is_taken = plan->take_if_fits(library_, *listed, product.bias.data, workspace);
    if (is_taken && plan->adds_bias() == key.has_bias) return plan;
  }
  return first_plan(product, workspace);
}

void Fp8MatmulEngine::multiply(const Fp8Matmul& product, Workspace workspace) {
  const Fp8ProductKey key = key_of(product);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (plans_.size() >= max_kept_fp8_products) plans_.clear();
    found = plans_.emplace(key, make_plan(product, key, workspace)).first;
  }
  found->second->run(library_, product, workspace, stream_);
}

}  // namespace sft::ops::cuda

namespace sft::ops {

void require_fp8_tiles() {
  constexpr std::size_t major = 10000, minor = 100, least = 12 * major + 9 * minor;
  const std::size_t found = cublasLtGetVersion();
  if (found >= least) return;
  throw_config_error(
      "products of 8-bit floats with scales of tiles (train.fp8 = blockwise) cannot be computed",
      fmt::format("they begin with cuBLAS 12.9, and {}.{} is loaded", found / major, found % major / minor),
      "use a newer CUDA toolkit, set train.fp8 = tensorwise, or leave it out");
}

}  // namespace sft::ops
