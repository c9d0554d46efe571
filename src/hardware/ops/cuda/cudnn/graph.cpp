// SPDX-License-Identifier: Apache-2.0
// The one source that includes cuDNN's frontend (71,000 lines of headers): it writes attention as the graph of matrix
// products and elementwise operations that cuDNN's engines recognise.
#include "ops/cuda/cudnn/graph.hpp"

#include <cudnn_frontend.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace sft::ops::cuda::cudnn {

namespace {

namespace fe = cudnn_frontend;
using TensorPointer = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Numbers by which a call names the tensors of a graph.
enum Uid : std::int64_t {
  q_uid = 1,
  k_uid,
  v_uid,
  out_uid,
  lse_uid,
  dout_uid,
  dq_uid,
  dk_uid,
  dv_uid,
  q_lengths_uid,
  kv_lengths_uid,
  offsets_of = 100  ///< the offsets of tensor i are tensor 100 + i
};

void require(fe::error_t status, const char* what) {
  if (status.is_good()) return;
  const std::string message = status.get_message();  // several lines, of which the first says it
  throw Refusal(std::string(what) + ": " + message.substr(0, message.find('\n')));
}

/// Deterministic gradients of queries in order, whose memory grows with the tokens, in place of those whose memory
/// grows with their square: versions that have both take this from the environment.
void choose_linear_workspace() {
  static std::once_flag once;
  std::call_once(once, [] { setenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", "0", /*overwrite=*/1); });
}

}  // namespace

/// The frontend's graph while it is being written.
class Graph::Parts {
 public:
  Parts(const Library& library, const GraphShape& shape) : shape_(shape) {
    choose_linear_workspace();
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    graph_.set_sm_version(library.compute_capability_);
    if (library.absent_) {
      const std::string& properties = library.absent_->properties;
      device_ = std::make_shared<fe::DeviceProperties>();
      require(device_->deserialize({properties.begin(), properties.end()}), "the properties of a GPU");
      graph_.set_device_properties(device_);
    }
  }

  void compile(cudnnHandle_t handle) {
    if (shape_.is_backward()) {
      add_backward();
    } else {
      add_forward();
    }
    require(graph_.validate(), "the graph");
    require(graph_.build_operation_graph(handle), "its operations");
    require(graph_.create_execution_plans({fe::HeurMode_t::A}), "its plans");
    require(graph_.check_support(), "support");
    require(graph_.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE), "compilation");
  }

  fe::graph::Graph& graph() { return graph_; }

 private:
  TensorPointer offsets(Uid uid) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name("offsets")
                             .set_uid(offsets_of + uid)
                             .set_dim({shape_.documents + 1, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT64));
  }
  TensorPointer lengths(Uid uid) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name("lengths")
                             .set_uid(uid)
                             .set_dim({shape_.documents, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT32));
  }
  /// Says that `x` is (rows, heads, columns) of packed documents.
  void describe(fe::graph::Tensor_attributes& x, Uid uid, std::int64_t heads, std::int64_t columns, std::int64_t row,
                fe::DataType_t type = fe::DataType_t::BFLOAT16) {
    const bool is_of_keys = uid == k_uid || uid == v_uid || uid == dk_uid || uid == dv_uid;
    const std::int64_t longest = is_of_keys && shape_.longest_keys > 0 ? shape_.longest_keys : shape_.longest;
    x.set_uid(uid)
        .set_dim({shape_.documents, heads, longest, columns})
        .set_stride({longest * row, columns, row, 1})
        .set_data_type(type)
        .set_ragged_offset(offsets(uid));
  }
  TensorPointer input(const char* name, Uid uid, std::int64_t heads, std::int64_t columns, std::int64_t row,
                      fe::DataType_t type = fe::DataType_t::BFLOAT16) {
    fe::graph::Tensor_attributes x;
    x.set_name(name);
    describe(x, uid, heads, columns, row, type);
    return graph_.tensor(x);
  }
  void output(const TensorPointer& x, Uid uid, std::int64_t heads, std::int64_t columns, std::int64_t row,
              fe::DataType_t type = fe::DataType_t::BFLOAT16) {
    x->set_output(true);
    describe(*x, uid, heads, columns, row, type);
  }

  template <class Attributes>
  Attributes& masked(Attributes& attributes) {
    attributes.set_attn_scale(shape_.scale)
        .set_padding_mask(true)
        .set_seq_len_q(lengths(q_lengths_uid))
        .set_seq_len_kv(lengths(kv_lengths_uid));
    if (shape_.is_rectangle()) return attributes;
    attributes.set_diagonal_alignment(shape_.is_tail ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                                     : fe::DiagonalAlignment_t::TOP_LEFT);
    attributes.set_diagonal_band_right_bound(0);
    if (shape_.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(shape_.window));
    return attributes;
  }

  void add_forward() {
    const GraphShape& s = shape_;
    const TensorPointer q = input("q", q_uid, s.q_heads, s.head_dim, s.q_row);
    const TensorPointer k = input("k", k_uid, s.kv_heads, s.head_dim, s.k_row);
    const TensorPointer v = input("v", v_uid, s.kv_heads, s.head_dim, s.v_row);
    fe::graph::SDPA_attributes attributes;
    attributes.set_name("attention").set_generate_stats(true);
    attributes.set_implementation(fe::AttentionImplementation_t::COMPOSITE);
    const auto [out, lse] = graph_.sdpa(q, k, v, masked(attributes));
    output(out, out_uid, s.q_heads, s.head_dim, s.out_row,
           s.float32_out ? fe::DataType_t::FLOAT : fe::DataType_t::BFLOAT16);
    output(lse, lse_uid, s.q_heads, 1, s.q_heads, fe::DataType_t::FLOAT);
  }

  void add_backward() {
    const GraphShape& s = shape_;
    const TensorPointer q = input("q", q_uid, s.q_heads, s.head_dim, s.q_row);
    const TensorPointer k = input("k", k_uid, s.kv_heads, s.head_dim, s.k_row);
    const TensorPointer v = input("v", v_uid, s.kv_heads, s.head_dim, s.v_row);
    const TensorPointer out = input("out", out_uid, s.q_heads, s.head_dim, s.out_row);
    const TensorPointer dout = input("dout", dout_uid, s.q_heads, s.head_dim, s.dout_row);
    const TensorPointer lse = input("lse", lse_uid, s.q_heads, 1, s.q_heads, fe::DataType_t::FLOAT);
    fe::graph::SDPA_backward_attributes attributes;
    attributes.set_name("attention_backward").set_deterministic_algorithm(s.in_order);
    attributes.set_max_total_seq_len_q(s.tokens).set_max_total_seq_len_kv(s.key_tokens);
    const auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, out, dout, lse, masked(attributes));
    output(dq, dq_uid, s.q_heads, s.head_dim, s.dq_row);
    output(dk, dk_uid, s.kv_heads, s.head_dim, s.dk_row);
    output(dv, dv_uid, s.kv_heads, s.head_dim, s.dv_row);
  }

  GraphShape shape_;
  std::shared_ptr<fe::DeviceProperties> device_;
  fe::graph::Graph graph_;
};

Graph::Graph(Library& library, const GraphShape& shape)
    : library_(library), parts_(std::make_unique<Parts>(library, shape)) {
  parts_->compile(static_cast<cudnnHandle_t>(library.handle_));
}

Graph::Graph(Library& library, const GraphShape& shape, const std::vector<std::uint8_t>& serialized)
    : library_(library), parts_(std::make_unique<Parts>(library, shape)) {
  try {
    fe::graph::Graph& graph = parts_->graph();
    const auto handle = static_cast<cudnnHandle_t>(library.handle_);
    require(handle != nullptr
                ? graph.deserialize(handle, serialized, /*enforce_precompiled=*/false, /*run_warmup=*/false)
                : graph.deserialize(serialized, /*enforce_precompiled=*/false),
            "a stored graph");
  } catch (const Refusal&) {
    throw;
  } catch (const std::exception& error) {  // of the frontend's reader of JSON
    throw Refusal(std::string("a stored graph: ") + error.what());
  }
}

Graph::~Graph() = default;

std::vector<std::uint8_t> Graph::serialize() const {
  std::vector<std::uint8_t> bytes;
  require(parts_->graph().serialize(bytes), "a graph to store");
  return bytes;
}

std::size_t Graph::workspace_bytes() const {
  std::int64_t bytes = 0;
  require(parts_->graph().get_workspace_size(bytes), "the workspace");
  return static_cast<std::size_t>(bytes);
}

void Graph::run(const GraphCall& call, void* workspace) const {
  // The frontend's map has no pointers to const; what a graph only reads stays as it is.
  const auto at = [](const void* memory) { return const_cast<void*>(memory); };
  std::unordered_map<std::int64_t, void*> memory = {
      {q_uid, at(call.q)},
      {k_uid, at(call.k)},
      {v_uid, at(call.v)},
      {out_uid, call.out},
      {lse_uid, call.lse},
      {q_lengths_uid, at(call.lengths)},
      {kv_lengths_uid, at(call.key_lengths)},
      {offsets_of + q_uid, at(call.q_offsets)},
      {offsets_of + k_uid, at(call.k_offsets)},
      {offsets_of + v_uid, at(call.v_offsets)},
      {offsets_of + out_uid, at(call.out_offsets)},
      {offsets_of + lse_uid, at(call.lse_offsets)},
  };
  if (call.dout != nullptr) {
    memory.insert({{dout_uid, at(call.dout)},
                   {dq_uid, call.dq},
                   {dk_uid, call.dk},
                   {dv_uid, call.dv},
                   {offsets_of + dout_uid, at(call.dout_offsets)},
                   {offsets_of + dq_uid, at(call.dq_offsets)},
                   {offsets_of + dk_uid, at(call.dk_offsets)},
                   {offsets_of + dv_uid, at(call.dv_offsets)}});
  }
  require(parts_->graph().execute(static_cast<cudnnHandle_t>(library_.handle_), memory, workspace), "execution");
}

}  // namespace sft::ops::cuda::cudnn
