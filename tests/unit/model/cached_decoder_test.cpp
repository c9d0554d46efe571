// SPDX-License-Identifier: Apache-2.0
#include "sft/model/cached_decoder.hpp"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "sft/model/sublayer.hpp"

namespace sft::model {

namespace {

constexpr std::int64_t max_tokens = 16, hidden = 32;

/// A layer that leaves a state of one form, whatever the length of the text is.
class Recurrent final : public Sublayer {
 public:
  [[nodiscard]] std::vector<SublayerTensor> tensors(const Sizes& /*sizes*/,
                                                    const ActivationPolicy& /*policy*/) const override {
    return {};
  }
  void forward(const Context& /*context*/, SublayerTensors& /*own*/, BlockScratch& /*scratch*/) const override {}
  void backward(const Context& /*context*/, SublayerTensors& /*own*/, BlockScratch& /*scratch*/,
                const std::function<void()>& /*start_normed*/) const override {}
  [[nodiscard]] std::vector<SublayerTensor> text_state(const Sizes& sizes, std::int64_t /*most*/) const override {
    return {{.name = "state",
             .lifetime = Lifetime::input,
             .tensor = form_of(sizes.compute, {sizes.hidden, sizes.hidden}),
             .rows_of_token = 0}};
  }
};

config::Model small() {
  config::Model m;
  m.hidden_size = hidden;
  m.num_hidden_layers = 3;
  m.num_attention_heads = 2;
  m.num_key_value_heads = 1;
  m.head_dim = 16;
  m.intermediate_size = 48;
  m.vocab_size = 64;
  return m;
}

CachedDecoderBuffers buffers_of(const config::Model& m, const DecoderParameters& parameters) {
  return {m,
          parameters,
          {.tokens = 4,
           .hidden = hidden,
           .vocab = m.vocab_size,
           .vocab_begin = 0,
           .max_vocab = m.vocab_size,
           .compute = DType::float32,
           .partial = DType::float32},
          max_tokens};
}

std::size_t cache_bytes(CachedDecoderBuffers buffers) {
  device::Arena cache, workspace;
  buffers.lay_out(cache, workspace);
  return cache.used_bytes();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cached_decoder)

BOOST_AUTO_TEST_CASE(a_text_is_cut_where_all_layers_keep_rows_of_tokens) {
  const config::Model m = small();
  DecoderParameters parameters = make_architecture(m).parameters;
  const CachedDecoderBuffers keys_alone = buffers_of(m, parameters);
  BOOST_TEST(keys_alone.can_cut_text());
  parameters.blocks[1].sublayers.front().layer = std::make_shared<Recurrent>();
  const CachedDecoderBuffers with_state = buffers_of(m, parameters);
  BOOST_TEST(!with_state.can_cut_text());
  const std::size_t of_keys = cache_bytes(keys_alone) / 3, of_state = hidden * hidden * sizeof(float);
  BOOST_TEST(cache_bytes(with_state) == 2 * of_keys + of_state);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::model
