#include "ops/cpu/matmul.hpp"

#include <omp.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "ops/cpu/view.hpp"
#include "sft/core/error.hpp"

namespace sft::ops::cpu {
namespace {

/// Tiles of the products in converted float32.
constexpr std::int64_t tile_rows = 256, tile_columns = 256, tile_depth = 512;
constexpr std::int64_t tile_floats = (tile_rows + tile_columns) * tile_depth + (tile_rows + 1) * tile_columns;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::memory::data_type type_of(DType dtype) {
  ensure(dtype == DType::float32 || dtype == DType::bf16, "matmul: float32 or bf16 expected");
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// The (rows, columns) matrix that `x` holds, after the transposition asked for.
dnnl::memory::desc desc_of(const Tensor& x, bool transpose) {
  const std::int64_t stride = std::max(x.stride0, x.shape[1]);
  return transpose ? dnnl::memory::desc({x.shape[1], x.shape[0]}, type_of(x.dtype), {1, stride})
                   : dnnl::memory::desc({x.shape[0], x.shape[1]}, type_of(x.dtype), {stride, 1});
}

}  // namespace

std::size_t matmul_workspace_bytes(int num_threads) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  return 2 * mebibyte + static_cast<std::size_t>(num_threads) * (mebibyte + mebibyte / 2);
}

/// A generated product and the memory objects it runs on.
class MatmulEngine::Primitive {
 public:
  /// Null where oneDNN has no fast product of these types.
  static std::unique_ptr<Primitive> make(const Matmul& product, std::size_t workspace_bytes) {
    const auto a = desc_of(product.a, product.transpose_a), b = desc_of(product.b, product.transpose_b),
               c = desc_of(product.c, false);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (product.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    dnnl::matmul::desc desc(a, b, c);
    if (product.bias.data != nullptr) {
      const dnnl::memory::desc bias({1, product.c.shape[1]}, type_of(product.bias.dtype), dnnl::memory::format_tag::ab);
      desc = dnnl::matmul::desc(a, b, bias, c);
    }
    const dnnl::matmul::primitive_desc chosen(desc, attributes, engine(), true);
    if (!chosen) return nullptr;
    if (product.a.dtype == DType::bf16 && std::string(chosen.impl_info_str()).starts_with("ref")) return nullptr;
    ensure(chosen.scratchpad_desc().get_size() <= workspace_bytes, "matmul: scratch of oneDNN exceeds the workspace");
    return std::unique_ptr<Primitive>(new Primitive(chosen));
  }

  void run(const Matmul& product, Tensor workspace) {
    a_.set_data_handle(product.a.data);
    b_.set_data_handle(product.b.data);
    c_.set_data_handle(product.c.data);
    scratch_.set_data_handle(workspace.data);
    if (product.bias.data != nullptr) bias_.set_data_handle(product.bias.data);
    static const dnnl::stream stream(engine());
    matmul_.execute(stream, arguments_);
  }

 private:
  explicit Primitive(const dnnl::matmul::primitive_desc& desc)
      : matmul_(desc),
        a_(desc.src_desc(), engine(), DNNL_MEMORY_NONE),
        b_(desc.weights_desc(), engine(), DNNL_MEMORY_NONE),
        c_(desc.dst_desc(), engine(), DNNL_MEMORY_NONE),
        bias_(desc.bias_desc(), engine(), DNNL_MEMORY_NONE),
        scratch_(desc.scratchpad_desc(), engine(), DNNL_MEMORY_NONE),
        arguments_{{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}, {DNNL_ARG_SCRATCHPAD, scratch_}} {
    if (desc.bias_desc().get_size() > 0) arguments_.emplace(DNNL_ARG_BIAS, bias_);
  }

  dnnl::matmul matmul_;
  dnnl::memory a_, b_, c_, bias_, scratch_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

MatmulEngine::MatmulEngine(const Kernels& kernels) : kernels_(kernels) {}
MatmulEngine::~MatmulEngine() = default;

std::size_t MatmulEngine::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = key.flags + 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(key.num_threads);
  for (const std::int64_t part : {key.m, key.n, key.k, key.a_stride, key.b_stride, key.c_stride}) {
    hash = (hash ^ static_cast<std::uint64_t>(part)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return static_cast<std::size_t>(hash);
}

MatmulEngine::Key MatmulEngine::key_of(const Matmul& product) {
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  const auto bit = [](bool set, int position) { return static_cast<std::uint32_t>(set) << position; };
  const std::uint32_t flags = bit(transpose_a, 0) | bit(transpose_b, 1) | bit(accumulate, 2) |
                              bit(bias.data != nullptr, 3) | bit(a.dtype == DType::bf16, 4) |
                              bit(c.dtype == DType::bf16, 5) | bit(bias.dtype == DType::bf16, 6);
  return {c.shape[0], c.shape[1], a.shape[transpose_a ? 0 : 1], a.stride0, b.stride0,
          c.stride0,  flags,      omp_get_max_threads()};
}

void MatmulEngine::run(const Matmul& product, Tensor workspace) {
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  ensure(a.ndim == 2 && b.ndim == 2 && c.ndim == 2, "matmul: matrices expected");
  ensure(a.shape[transpose_a ? 1 : 0] == c.shape[0] && b.shape[transpose_b ? 0 : 1] == c.shape[1] &&
             a.shape[transpose_a ? 0 : 1] == b.shape[transpose_b ? 1 : 0],
         "matmul: shapes do not fit");
  ensure(a.dtype == b.dtype && (c.dtype == a.dtype || c.dtype == DType::float32), "matmul: dtypes do not fit");
  if (c.empty()) return;
  const Key key = key_of(product);
  auto found = primitives_.find(key);
  if (found == primitives_.end()) {
    found = primitives_.emplace(key, Primitive::make(product, workspace.size_bytes())).first;
  }
  if (found->second != nullptr) {
    found->second->run(product, workspace);
  } else {
    run_in_float32(product, workspace);
  }
}

void MatmulEngine::run_in_float32(const Matmul& product, Tensor workspace) {
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  const std::int64_t depth = a.shape[transpose_a ? 0 : 1];
  float* scratch = workspace.as<float>();
  const Tensor rest(scratch + tile_floats, DType::float32,
                    {static_cast<std::int64_t>(workspace.size_bytes() / sizeof(float)) - tile_floats});
  const auto piece = [](const Tensor& x, std::int64_t row, std::int64_t rows, std::int64_t column,
                        std::int64_t columns) { return x.rows(row, rows).columns(column, columns); };
  const auto convert = [&](float* to, const Tensor& from) {
    const Tensor converted(to, DType::float32, {from.shape[0], from.shape[1]});
    kernels_.copy(view_of(converted), view_of(from));
    return converted;
  };
  float* a_tile = scratch;
  float* b_tile = a_tile + tile_rows * tile_depth;
  float* c_tile = b_tile + tile_columns * tile_depth;
  float* bias_tile = c_tile + tile_rows * tile_columns;
  for (std::int64_t row = 0; row < c.shape[0]; row += tile_rows) {
    const std::int64_t rows = std::min(tile_rows, c.shape[0] - row);
    for (std::int64_t column = 0; column < c.shape[1]; column += tile_columns) {
      const std::int64_t columns = std::min(tile_columns, c.shape[1] - column);
      const Tensor target = piece(c, row, rows, column, columns);
      Matmul tile{.a = {},
                  .b = {},
                  .c = Tensor(c_tile, DType::float32, {rows, columns}),
                  .transpose_a = transpose_a,
                  .transpose_b = transpose_b,
                  .accumulate = accumulate};
      if (accumulate) convert(c_tile, target);
      if (bias.data != nullptr) {
        tile.bias = convert(bias_tile, bias.view({1, bias.shape[0]}).columns(column, columns)).view({columns});
      }
      for (std::int64_t begin = 0; begin < depth; begin += tile_depth) {
        const std::int64_t size = std::min(tile_depth, depth - begin);
        tile.a = convert(a_tile, transpose_a ? piece(a, begin, size, row, rows) : piece(a, row, rows, begin, size));
        tile.b = convert(b_tile,
                         transpose_b ? piece(b, column, columns, begin, size) : piece(b, begin, size, column, columns));
        run(tile, rest);
        tile.accumulate = true;
        tile.bias = {};
      }
      kernels_.copy(view_of(target), view_of(tile.c));
    }
  }
}

}  // namespace sft::ops::cpu
