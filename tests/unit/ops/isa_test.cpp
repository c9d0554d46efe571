// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "ops/cpu/isa.hpp"
#include "ops/cpu/planning.hpp"

namespace sft::ops::cpu {

BOOST_AUTO_TEST_SUITE(processor)

BOOST_AUTO_TEST_CASE(names_of_onednn_limit_the_kernels) {
  for (const char* name : {"SSE41", "AVX", "sse41"}) BOOST_CHECK(isa_limit(name) == Isa::baseline);
  for (const char* name : {"AVX2", "AVX2_VNNI", "avx2"}) BOOST_CHECK(isa_limit(name) == Isa::avx2);
  for (const char* name : {"AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_MIC"}) {
    BOOST_CHECK(isa_limit(name) == Isa::avx512);
  }
  for (const char* name : {"AVX512_CORE_BF16", "AVX512_CORE_FP16", "AVX10_1_512", "avx512_core_bf16"}) {
    BOOST_CHECK(isa_limit(name) == Isa::avx512_bf16);
  }
  for (const char* name : {"AVX512_CORE_AMX", "AVX10_1_512_AMX", "ALL", "DEFAULT", "", "unheard of"}) {
    BOOST_CHECK(isa_limit(name) == Isa::amx);
  }
  BOOST_CHECK(isa_limit(nullptr) == Isa::amx);
}

BOOST_AUTO_TEST_CASE(the_limit_of_the_environment_holds) {
  BOOST_CHECK(best_isa() <= isa_limit(std::getenv("ONEDNN_MAX_CPU_ISA")));
}

BOOST_AUTO_TEST_CASE(bf16_products_are_fast_where_the_processor_has_instructions_for_them) {
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) BOOST_CHECK(!has_fast_bf16_products(isa));
  BOOST_CHECK(has_fast_bf16_products(Isa::amx));
}

BOOST_AUTO_TEST_CASE(attention_of_bf16_takes_the_fast_products) {
  for (const Isa isa : {Isa::avx512_bf16, Isa::amx}) {
    if (isa > best_isa()) continue;
    const Kernels &kernels = kernels_of(isa), &in_float32 = kernels_of(Isa::avx512);
    BOOST_TEST((kernels.attention_forward != in_float32.attention_forward) == has_fast_bf16_products(isa));
    BOOST_TEST((kernels.attention_backward != in_float32.attention_backward) == has_fast_bf16_products(isa));
  }
}

BOOST_AUTO_TEST_CASE(memory_for_copies_of_operands_is_planned_where_products_take_it) {
  const Shapes shapes{.tokens = 512, .hidden = 512, .mlp = 2048, .vocab = 8192};
  for (const Isa isa : {Isa::avx2, Isa::avx512}) BOOST_TEST(product_copies_bytes(isa, 4, shapes) == 0U);
  const std::size_t one_thread = product_copies_bytes(Isa::baseline, 1, shapes);
  BOOST_TEST(one_thread == (8192 + 384) * 192 * sizeof(float) + (1U << 20U));
  BOOST_TEST(product_copies_bytes(Isa::baseline, 4, shapes) < 2 * one_thread);  // they share the rows
  Shapes bf16 = shapes;
  bf16.compute = DType::bf16;  // in tiles
  BOOST_TEST(product_copies_bytes(Isa::baseline, 1, bf16) < one_thread / 3);
}

BOOST_AUTO_TEST_CASE(the_best_kernels_can_be_entered) {  // on lesser processors too: ops_test_Nehalem
  BOOST_CHECK(kernels_of(best_isa()).small_matmul != nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::cpu
