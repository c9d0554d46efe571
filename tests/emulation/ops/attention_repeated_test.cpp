// SPDX-License-Identifier: Apache-2.0
// Attention in chains of launches that are repeated: a chain has the documents of the plan that is there when it runs,
// and every bit of launches that are made one by one.

#include <memory>
#include <string>
#include <vector>

#include "emulation/cudnn/layer.hpp"
#include "sft/device/launch_tape.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(attention_repeated)

namespace {

constexpr std::int64_t num_tokens = 300;
constexpr Heads heads{2, 1, 16};

/// What a micro-batch computes: both passes; the forward pass alone; the same, but the second layer has no window.
enum class Work { passes, forward, forward_exchanged };

/// Two layers, the second of which has a window, on a stream with a tape and on one without.
class Layers {
 public:
  explicit Layers(DType compute) {
    layers_.emplace_back(heads, num_tokens, 1, Layout{}, compute);
    layers_.emplace_back(heads, num_tokens, 2, Layout{}, compute);
    const Shapes shapes{.tokens = num_tokens,
                        .hidden = 64,
                        .q_heads = heads.num,
                        .kv_heads = heads.num_kv,
                        .head_dim = heads.dim,
                        .mlp = 64,
                        .vocab = 64};
    AttentionNeeds needs{.num_kinds = 2, .repeats = true};
    if (is_of_library(tested_attention())) {
      needs.library = {.tokens = num_tokens,
                       .q_heads = heads.num,
                       .kv_heads = heads.num_kv,
                       .head_dim = heads.dim,
                       .has_backward = true};
    }
    const std::size_t bytes = workspace_bytes(device::Kind::cuda, 1, shapes, needs);
    for (Half* const half : {&plain_, &repeated_}) {
      half->workspace = device_->allocate(bytes);
      half->backend = make_backend(*device_, *half->stream, tested_attention());
      if (half == &repeated_) half->backend = make_repeated_backend(std::move(half->backend));
      half->backend->set_workspace(Tensor(half->workspace.get(), DType::bf16, {static_cast<std::int64_t>(bytes / 2)}));
    }
  }

  /// What these documents, which begin at a row, make of the same numbers, once with the tape and once without.
  void compare(const std::string& what, const std::vector<std::int64_t>& lengths, std::int64_t begin = 0,
               Work work = Work::passes) {
    const Result expected = run(plain_, lengths, begin, work);
    BOOST_TEST((run(repeated_, lengths, begin, work) == expected), what);
  }
  /// Since the last call of this.
  device::LaunchTape::Counts new_counts() {
    const device::LaunchTape::Counts before = counts_;
    counts_ = repeated_.stream->tape()->counts();
    return {.plain = counts_.plain - before.plain,
            .repeated = counts_.repeated - before.repeated,
            .recordings = counts_.recordings - before.recordings,
            .chains = counts_.chains - before.chains};
  }

 private:
  using Result = std::vector<std::vector<std::byte>>;
  struct Half {
    explicit Half(device::Device& device) : stream(device.make_stream()) {}
    ~Half() { stream->synchronize(); }
    Half(const Half&) = delete;
    Half& operator=(const Half&) = delete;

    std::unique_ptr<device::Stream> stream;
    device::Device::Block workspace;
    std::unique_ptr<Backend> backend;
    std::unique_ptr<AttentionPlan> full, windowed;  ///< of the last documents, until others come
  };

  Result run(Half& half, const std::vector<std::int64_t>& lengths, std::int64_t begin, Work work) {
    constexpr std::int64_t window = 40;
    std::vector<Operand> operands = operands_of(layers_[0], true);
    for (const Operand& operand : operands_of(layers_[1], true)) operands.push_back(operand);
    return run_on_gpu(operands, [&](Backend& other, auto of) {
      other.stream().synchronize();
      half.full.reset();
      half.windowed.reset();
      device::defer_launches(half.stream->tape(), [&] {
        half.full = half.backend->plan_attention(documents_of(lengths, begin), num_tokens, num_tokens);
        half.windowed = half.backend->plan_attention(documents_of(lengths, begin, window), num_tokens, num_tokens);
        const bool is_exchanged = work == Work::forward_exchanged;
        layers_[is_exchanged ? 1 : 0].forward(*half.backend, of, *half.full);
        layers_[is_exchanged ? 0 : 1].forward(*half.backend, of, *half.windowed);
        if (work != Work::passes) return;
        layers_[1].backward(*half.backend, of, *half.windowed);
        layers_[0].backward(*half.backend, of, *half.full);
      });
      half.stream->synchronize();
    });
  }

  std::vector<Layer> layers_;
  std::unique_ptr<device::Device> device_ = device::make_device(device::Kind::cuda);
  Half plain_{*device_}, repeated_{*device_};
  device::LaunchTape::Counts counts_;
};

/// Of each layer one in the forward pass, and delta and another in the backward pass.
constexpr std::int64_t num_calls = 6;

}  // namespace

BOOST_AUTO_TEST_CASE(documents_of_other_lengths_are_repeated) {
  using Lengths = std::vector<std::int64_t>;
  for (const DType compute : attention_dtypes()) {
    Layers layers(compute);
    // A library learns which lists it is asked for from the first micro-batch, and a chain is recorded the second time.
    for (const Lengths& first : {Lengths{100, 110, 90}, {100, 100, 100}, {128, 90, 82}}) layers.compare("first", first);
    BOOST_TEST(layers.new_counts().recordings == 1);
    for (const Lengths& later : {Lengths{75, 75, 75, 75}, {90, 127, 83}, {128, 128, 43, 1}}) {
      layers.compare(text_of(compute) + ", first document of " + std::to_string(later[0]), later);
      const device::LaunchTape::Counts counts = layers.new_counts();
      BOOST_TEST(counts.chains == 1);
      BOOST_TEST(counts.repeated == num_calls);
      BOOST_TEST(counts.plain == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(other_tensors_make_another_chain) {
  for (const DType compute : attention_dtypes()) {
    Layers layers(compute);
    const std::vector<std::int64_t> lengths{100, 110, 90};
    for (int i = 0; i < 3; ++i) layers.compare("first", lengths, 0, Work::forward);
    (void)layers.new_counts();
    layers.compare(text_of(compute) + ", exchanged", lengths, 0, Work::forward_exchanged);
    BOOST_TEST(layers.new_counts().chains == 0);
  }
}

// So many, or elsewhere in the rows, that other blocks of threads are launched, or other lists read.
BOOST_AUTO_TEST_CASE(other_documents_make_another_chain) {
  for (const DType compute : attention_dtypes()) {
    Layers layers(compute);
    const std::vector<std::int64_t> two{140, 150}, many(20, 14);
    for (int i = 0; i < 3; ++i) layers.compare("two", two);
    (void)layers.new_counts();
    layers.compare(text_of(compute) + ", twenty", many);
    BOOST_TEST(layers.new_counts().plain == num_calls);
    // For kernels of this program like two; a library has another graph for them, of lists at the same places.
    layers.compare(text_of(compute) + ", four", {70, 80, 75, 65});
    (void)layers.new_counts();
    layers.compare(text_of(compute) + ", two again", two);
    BOOST_TEST(layers.new_counts().plain == 0);
    layers.compare(text_of(compute) + ", two later", two, 5);
    layers.compare(text_of(compute) + ", two still later", two, 10);
    layers.compare(text_of(compute) + ", twenty again", many, 20);
    layers.compare(text_of(compute) + ", two at last", two);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
