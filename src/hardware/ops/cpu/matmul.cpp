// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/matmul.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>

#include "ops/cpu/onednn_matmul.hpp"
#include "ops/cpu/own_matmul.hpp"
#include "ops/product_key.hpp"
#include "ops/views/fp8.hpp"
#include "ops/views/tensor.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cpu {
namespace {

/// Largest tiles of a product in converted float32, (rows, depth) times (depth, columns). They stay in a second-level
/// cache of 2 MiB; each operand is read as often as the other has tiles, from farther away.
struct Float32Tiles {
  std::int64_t rows, columns, depth;

  /// Sums that fit into one tile leave each tile of b in place for all rows; longer ones are kept in larger tiles of c.
  static Float32Tiles of(std::int64_t k, int num_threads) {
    constexpr std::int64_t whole_depth = 512;
    const std::int64_t side = k <= whole_depth ? 256 : 512;
    return {.rows = side * num_threads, .columns = side, .depth = k <= whole_depth ? whole_depth : 128};
  }

  [[nodiscard]] std::int64_t num_floats() const { return (rows + columns) * depth + (rows + 1) * columns; }
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::memory::data_type type_of(DType dtype) {
  SFT_ENSURE(dtype == DType::float32 || dtype == DType::bf16, "matmul: float32 or bf16 expected");
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// The (rows, columns) matrix that `x` holds, after the transposition asked for.
dnnl::memory::desc desc_of(const ConstTensor& x, bool transpose) {
  const std::int64_t stride = std::max(x.stride0, x.shape[1]);
  return transpose ? dnnl::memory::desc({x.shape[1], x.shape[0]}, type_of(x.dtype), {1, stride})
                   : dnnl::memory::desc({x.shape[0], x.shape[1]}, type_of(x.dtype), {stride, 1});
}

/// Such a vector is read by oneDNN 3.7 as if its elements were neighbours.
bool is_column_with_gaps(const ConstTensor& x) { return x.shape[1] == 1 && x.shape[0] > 1 && x.stride0 > 1; }

/// The rows and columns of c, and the length of the sums.
struct Dims {
  std::int64_t m, n, k;
  explicit Dims(const Matmul& product)
      : m(product.c.shape[0]), n(product.c.shape[1]), k(product.a.shape[product.transpose_a ? 0 : 1]) {}
};

/// Rows [begin, begin + count) of op(x) when `rows`, else columns.
template <class Memory>
BasicTensor<Memory> piece_of(const BasicTensor<Memory>& x, bool rows, bool transpose, std::int64_t begin,
                             std::int64_t count) {
  return rows != transpose ? x.rows(begin, count) : x.columns(begin, count);
}

/// Of the tiles that `size` is cut into: `side`, and what is left.
std::vector<std::int64_t> tile_extents(std::int64_t size, std::int64_t side) {
  std::vector<std::int64_t> extents;
  if (size >= side) extents.push_back(side);
  if (size % side != 0) extents.push_back(size % side);
  return extents;
}

/// Of what is read: of bf16 operands, c may be float32.
bool has_one_dtype(const Matmul& product) {
  return product.bias.data == nullptr || product.bias.dtype == product.a.dtype;
}

bool is_float32(const Matmul& product) { return product.a.dtype == DType::float32 && has_one_dtype(product); }

MatmulArguments arguments_of(const Matmul& product) {
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  const Dims dims(product);
  const auto row_stride = [](const ConstTensor& x) { return std::max(x.stride0, x.shape[1]); };
  return {.a = a.data,
          .b = b.data,
          .a_row_stride = transpose_a ? 1 : row_stride(a),
          .a_column_stride = transpose_a ? row_stride(a) : 1,
          .b_row_stride = transpose_b ? 1 : row_stride(b),
          .b_column_stride = transpose_b ? row_stride(b) : 1,
          .bias = bias.data,
          .c = c.data,
          .c_stride = row_stride(c),
          .m = dims.m,
          .n = dims.n,
          .k = dims.k,
          .accumulate = accumulate,
          .has_bf16_operands = a.dtype == DType::bf16,
          .has_bf16_bias = bias.dtype == DType::bf16,
          .has_bf16_result = c.dtype == DType::bf16};
}

}  // namespace

std::size_t matmul_workspace_bytes(int num_threads) {
  // What oneDNN 2.6 asks for at most once products are halved, with its copies of operands that grow with k.
  constexpr std::size_t quarter_mebibyte = std::size_t{1} << 18;
  return quarter_mebibyte * (num_threads == 1 ? 8 : 11 * num_threads);
}

/// How to run a product of one shape: as a whole, in halves, or in converted float32 tiles.
class MatmulEngine::Plan {
 public:
  enum class Way { whole, halves, float32_tiles };

  explicit Plan(Way way) : way_(way) {}
  explicit Plan(const dnnl::matmul::primitive_desc& desc)
      : way_(Way::whole),
        matmul_(desc),
        a_(desc.src_desc(), engine(), DNNL_MEMORY_NONE),
        b_(desc.weights_desc(), engine(), DNNL_MEMORY_NONE),
        c_(desc.dst_desc(), engine(), DNNL_MEMORY_NONE),
        bias_(desc.bias_desc(), engine(), DNNL_MEMORY_NONE),
        scratch_(desc.scratchpad_desc(), engine(), DNNL_MEMORY_NONE),
        arguments_{{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}, {DNNL_ARG_SCRATCHPAD, scratch_}} {
    if (desc.bias_desc().get_size() > 0) arguments_.emplace(DNNL_ARG_BIAS, bias_);
  }

  [[nodiscard]] Way way() const { return way_; }

  void run(const Matmul& product, Tensor workspace) {
    a_.set_data_handle(handle_of(product.a.data));
    b_.set_data_handle(handle_of(product.b.data));
    c_.set_data_handle(product.c.data);
    scratch_.set_data_handle(workspace.data);
    if (product.bias.data != nullptr) bias_.set_data_handle(handle_of(product.bias.data));
    static thread_local const dnnl::stream stream(engine());
    matmul_.execute(stream, arguments_);
  }

 private:
  Way way_;
  dnnl::matmul matmul_;
  dnnl::memory a_, b_, c_, bias_, scratch_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

std::unique_ptr<MatmulEngine::Plan> MatmulEngine::make_plan(const Matmul& product, std::size_t workspace_bytes) const {
  if (is_column_with_gaps(product.a) || is_column_with_gaps(product.b) || is_column_with_gaps(product.c)) {
    return std::make_unique<Plan>(Plan::Way::float32_tiles);  // whose operands have none
  }
  const auto a = desc_of(product.a, product.transpose_a), b = desc_of(product.b, product.transpose_b),
             c = desc_of(product.c, false);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (product.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  std::optional<dnnl::memory::desc> bias;
  if (product.bias.data != nullptr) {
    bias.emplace(dnnl::memory::dims{1, product.c.shape[1]}, type_of(product.bias.dtype), dnnl::memory::format_tag::ab);
  }
  const auto chosen = describe_matmul(engine(), a, b, bias ? &*bias : nullptr, c, attributes);
  const bool is_slow_bf16 =
      chosen && product.a.dtype == DType::bf16 &&
      (is_faster_in_float32(product, isa_) || std::string(chosen.impl_info_str()).starts_with("ref"));
  if (!chosen || is_slow_bf16) return std::make_unique<Plan>(Plan::Way::float32_tiles);
  if (chosen.scratchpad_desc().get_size() > workspace_bytes) {
    const Dims dims(product);
    SFT_ENSURE(std::max(dims.m, dims.n) > 1, "matmul: set_workspace first");
    return std::make_unique<Plan>(Plan::Way::halves);
  }
  return std::make_unique<Plan>(chosen);
}

MatmulEngine::MatmulEngine(Isa isa, std::int64_t max_kept) : isa_(isa), max_kept_(max_kept), kernels_(kernels_of(isa)) {
  dnnl::set_primitive_cache_capacity(0);  // plans_ is the cache; oneDNN's own would keep what it forgets
}
MatmulEngine::~MatmulEngine() = default;

std::size_t MatmulEngine::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = key.flags + 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(key.num_threads);
  for (const std::int64_t part : {key.m, key.n, key.k, key.a_stride, key.b_stride, key.c_stride}) {
    hash = (hash ^ static_cast<std::uint64_t>(part)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

bool MatmulEngine::Key::is_bf16() const { return (flags & flag_bf16) != 0; }

bool MatmulEngine::Key::has_gaps() const {
  return a_stride > ((flags & flag_transpose_a) != 0 ? m : k) || b_stride > ((flags & flag_transpose_b) != 0 ? k : n) ||
         c_stride > n;
}

MatmulEngine::Key MatmulEngine::key_of(const Matmul& product) {
  return {product.c.shape[0], product.c.shape[1],   product.a.shape[product.transpose_a ? 0 : 1],
          product.a.stride0,  product.b.stride0,    product.c.stride0,
          flags_of(product),  omp_get_max_threads()};
}

void MatmulEngine::run(const Matmul& product, Tensor workspace) {
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  SFT_ENSURE(a.ndim == 2 && b.ndim == 2 && c.ndim == 2, "matmul: matrices expected");
  SFT_ENSURE(a.shape[transpose_a ? 1 : 0] == c.shape[0], "matmul: shapes fit");
  SFT_ENSURE(b.shape[transpose_b ? 0 : 1] == c.shape[1], "matmul: shapes fit");
  SFT_ENSURE(a.shape[transpose_a ? 0 : 1] == b.shape[transpose_b ? 1 : 0], "matmul: shapes fit");
  SFT_ENSURE(a.dtype == b.dtype && (c.dtype == a.dtype || c.dtype == DType::float32), "matmul: dtypes fit");
  if (c.empty()) return;
  if (Dims(product).k == 0) {
    run_without_terms(product, workspace);
  } else if (is_small(product, workspace.size_bytes())) {
    run_small(product, workspace);
  } else {
    run_planned(product, workspace);
  }
}

void MatmulEngine::run_without_terms(const Matmul& product, Tensor workspace) {
  const Dims dims(product);
  const auto line_floats = std::int64_t{16};
  // Whatever dtype the workspace has: as many bytes as float32 takes, so that the rest is aligned.
  const Tensor floats(workspace.data, DType::float32,
                      {static_cast<std::int64_t>(workspace.size_bytes() / sizeof(float))});
  const Tensor zeros = floats.rows(0, round_up(std::max(dims.m, dims.n), line_floats));
  const Tensor rest = floats.rows(zeros.num_elements(), floats.num_elements() - zeros.num_elements());
  std::memset(zeros.data, 0, zeros.size_bytes());
  Matmul one_term = product;
  one_term.a = Tensor(zeros.data, product.a.dtype, {dims.m, 1});
  one_term.b = Tensor(zeros.data, product.a.dtype, {1, dims.n});
  one_term.transpose_a = one_term.transpose_b = false;
  run(one_term, rest);
}

void MatmulEngine::run_planned(const Matmul& product, Tensor workspace) {
  if (is_own(product, workspace.size_bytes(), isa_)) {
    run_own(product, workspace);
    return;
  }
  const Key key = key_of(product);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (std::ssize(plans_) >= max_kept_) plans_.clear();
    found = plans_.emplace(key, make_plan(product, workspace.size_bytes())).first;
  }
  switch (found->second->way()) {
    case Plan::Way::whole:
      found->second->run(product, workspace);
      break;
    case Plan::Way::halves:
      run_halves(product, workspace);
      break;
    case Plan::Way::float32_tiles:
      run_in_float32(product, workspace);
      break;
  }
}

bool MatmulEngine::is_faster_in_float32(const Matmul& product, Isa isa) {
  // So few rows or columns that reading and converting the other operand takes longer than the multiplications do.
  const std::int64_t few = isa == Isa::avx512_bf16 ? 32 : 4;
  const bool has_few_columns = product.c.shape[1] <= few,
             has_few_rows = product.transpose_a && product.c.shape[0] <= few;
  return !has_fast_bf16_products(isa) && !has_few_columns && !has_few_rows;
}

bool MatmulEngine::has_own_fp8_products(Isa isa) { return isa == Isa::amx || !has_fast_bf16_products(isa); }

bool MatmulEngine::is_small(const Matmul& product, std::size_t workspace_bytes) {
  const Dims dims(product);
  // A single row does not pay for the conversion of a large b.
  constexpr std::int64_t max_elements_for_row = std::int64_t{1} << 16;
  const bool is_row_by_large = dims.m == 1 && dims.n * dims.k > max_elements_for_row;
  return is_float32(product) && !is_row_by_large && dims.m * dims.n * dims.k < least_planned_multiplications &&
         dims.k * small_matmul_panel * sizeof(double) <= workspace_bytes;
}

void MatmulEngine::run_small(const Matmul& product, Tensor workspace) const {
  kernels_.small_matmul(arguments_of(product), static_cast<double*>(workspace.data));
}

bool MatmulEngine::is_own(const Matmul& product, std::size_t workspace_bytes, Isa isa) {
  const auto num_floats = static_cast<std::int64_t>(workspace_bytes / sizeof(float));
  const bool is_bf16_of_library =  // whose instructions take less time than copying in float32 does
      product.a.dtype == DType::bf16 && isa > Isa::avx2 && isa != Isa::amx && !is_faster_in_float32(product, isa);
  return has_own_products(isa, product.a.dtype) && !is_bf16_of_library &&
         num_floats >= least_scratch_floats(arguments_of(product), omp_get_max_threads());
}

void MatmulEngine::run_own(const Matmul& product, Tensor workspace) const {
  run_own_product(
      kernels_, arguments_of(product),
      {static_cast<float*>(workspace.data), static_cast<std::int64_t>(workspace.size_bytes() / sizeof(float))});
}

void MatmulEngine::run_halves(const Matmul& product, Tensor workspace) {
  const Dims dims(product);
  const bool split_rows = dims.m >= dims.n;
  const std::int64_t size = split_rows ? dims.m : dims.n;
  const std::int64_t half = round_up((size + 1) / 2, 64) < size ? round_up((size + 1) / 2, 64) : size / 2;
  for (const auto& [begin, count] : {std::pair{std::int64_t{0}, half}, std::pair{half, size - half}}) {
    Matmul part = product;
    part.c = piece_of(product.c, split_rows, false, begin, count);
    if (split_rows) {
      part.a = piece_of(product.a, true, product.transpose_a, begin, count);
    } else {
      part.b = piece_of(product.b, false, product.transpose_b, begin, count);
      if (product.bias.data != nullptr) part.bias = product.bias.rows(begin, count);
    }
    run(part, workspace);
  }
}

void MatmulEngine::run_in_float32(const Matmul& product, Tensor workspace) {
  const auto reader = [this](const ConstTensor& x, bool transpose) {
    return [this, x, transpose](const Tensor& to, const Part& part) {
      const ConstTensor rows = piece_of(x, true, transpose, part.row, part.num_rows);
      (transpose ? kernels_.copy_transposed : kernels_.copy)(
          view_of(to), view_of(piece_of(rows, false, transpose, part.column, part.num_columns)));
    };
  };
  run_tiles({.read_a = reader(product.a, product.transpose_a),
             .read_b = reader(product.b, product.transpose_b),
             .depth = Dims(product).k,
             .c = product.c,
             .accumulate = product.accumulate,
             .bias = product.bias},
            workspace);
}

void MatmulEngine::run_fp8(const Fp8Matmul& product, Tensor workspace) {
  ensure_fits(product);
  const ConstFp8View a = view_of(product.a), b = view_of(product.b);
  if (product.c.empty()) return;
  run_tiles({.read_a = [this, &a](const Tensor& to,
                                  const Part& part) { kernels_.read_fp8(view_of(to), a, part.row, part.column); },
             .read_b = [this, &b](const Tensor& to,
                                  const Part& part) { kernels_.read_fp8(view_of(to), b, part.column, part.row); },
             .depth = a.terms,
             .c = product.c,
             .accumulate = product.accumulate,
             .bias = product.bias,
             .tiles = has_fast_bf16_products(isa_) ? DType::bf16 : DType::float32,
             .transposed_b_tiles = true,
             .are_own = has_own_fp8_products(isa_)},
            workspace);
}

std::vector<Matmul> MatmulEngine::fp8_tiles(const Fp8Matmul& product) {
  const std::int64_t k = product.a.codes.shape[1];
  const auto sizes = Float32Tiles::of(k, omp_get_max_threads());
  std::vector<Matmul> tiles;
  const auto add = [&](std::int64_t rows, std::int64_t columns, std::int64_t depth, bool is_first) {
    Matmul tile;
    tile.a = Tensor(nullptr, DType::bf16, {rows, depth});
    tile.b = Tensor(nullptr, DType::bf16, {columns, depth});
    tile.c = product.c.dtype == DType::float32 ? product.c.rows(0, rows).columns(0, columns)
                                               : Tensor(nullptr, DType::float32, {rows, columns});
    tile.transpose_b = true;
    tile.accumulate = product.accumulate || !is_first;
    if (is_first && product.bias.data != nullptr) tile.bias = Tensor(tile.c.data, DType::float32, {columns});
    tiles.push_back(tile);
  };
  for (const std::int64_t rows : tile_extents(product.c.shape[0], sizes.rows)) {
    for (const std::int64_t columns : tile_extents(product.c.shape[1], sizes.columns)) {
      add(rows, columns, std::min(k, sizes.depth), /*is_first=*/true);
      for (const std::int64_t depth : tile_extents(k - std::min(k, sizes.depth), sizes.depth)) {
        add(rows, columns, depth, /*is_first=*/false);
      }
    }
  }
  return tiles;
}

void MatmulEngine::run_tiles(const TiledProduct& product, Tensor workspace) {
  const Tensor& c = product.c;
  const std::int64_t num_rows = c.shape[0], num_columns = c.shape[1], k = product.depth;
  const auto sizes = Float32Tiles::of(k, omp_get_max_threads());
  float* scratch = workspace.as<float>();
  const Tensor rest(scratch + sizes.num_floats(), DType::float32,
                    {static_cast<std::int64_t>(workspace.size_bytes() / sizeof(float)) - sizes.num_floats()});
  SFT_ENSURE(rest.shape[0] > 0, "matmul: set_workspace first");
  float* a_tile = scratch;
  float* b_tile = a_tile + sizes.rows * sizes.depth;
  float* c_tile = b_tile + sizes.columns * sizes.depth;
  float* bias_tile = c_tile + sizes.rows * sizes.columns;
  const auto tile_of = [&](float* memory, bool transposed, std::int64_t rows, std::int64_t columns) {
    return transposed ? Tensor(memory, product.tiles, {columns, rows}) : Tensor(memory, product.tiles, {rows, columns});
  };
  for (std::int64_t column = 0; column < num_columns; column += sizes.columns) {
    const std::int64_t columns = std::min(sizes.columns, num_columns - column);
    Matmul tile;
    tile.transpose_b = product.transposed_b_tiles;
    for (std::int64_t row = 0; row < num_rows; row += sizes.rows) {
      const std::int64_t rows = std::min(sizes.rows, num_rows - row);
      const Tensor target = c.rows(row, rows).columns(column, columns);
      const bool is_in_place = c.dtype == DType::float32 && !is_column_with_gaps(target);
      tile.c = is_in_place ? target : Tensor(c_tile, DType::float32, {rows, columns});
      tile.accumulate = product.accumulate;
      if (product.accumulate && !is_in_place) kernels_.copy(view_of(tile.c), view_of(ConstTensor(target)));
      if (product.bias.data != nullptr) {
        const Tensor of_columns(bias_tile, DType::float32, {1, columns});
        kernels_.copy(view_of(of_columns), view_of(product.bias.rows(column, columns).view({1, columns})));
        tile.bias = of_columns.view({columns});
      }
      for (std::int64_t begin = 0; begin < k; begin += sizes.depth) {
        const std::int64_t depth = std::min(sizes.depth, k - begin);
        const Tensor a = tile_of(a_tile, false, rows, depth);
        product.read_a(a, {.row = row, .num_rows = rows, .column = begin, .num_columns = depth});
        tile.a = a;
        if (row == 0 || k > sizes.depth) {
          const Tensor b = tile_of(b_tile, product.transposed_b_tiles, depth, columns);
          product.read_b(b, {.row = begin, .num_rows = depth, .column = column, .num_columns = columns});
          tile.b = b;
        }
        product.are_own ? run_own(tile, rest) : run_planned(tile, rest);
        tile.accumulate = true;
        tile.bias = {};
      }
      if (!is_in_place) kernels_.copy(view_of(target), view_of(ConstTensor(tile.c)));
    }
  }
}

}  // namespace sft::ops::cpu
