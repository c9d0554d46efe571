// SPDX-License-Identifier: Apache-2.0
// Planned times of steps, held against what can be counted by hand.
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <string>
#include <utility>

#include "sft/model/flops.hpp"
#include "sft/planner/step_time.hpp"
#include "support/small_run.hpp"

namespace {

using namespace sft;
using namespace sft::planner;
using namespace sft::rank;
using namespace sft::simulator;

constexpr double endless = 1e30;

/// A machine on which nothing takes any time.
Hardware instant(int ranks_per_node = 64) {
  Hardware machine;
  machine.name = "instant";
  machine.kind = device::Kind::cuda;
  machine.ranks_per_node = ranks_per_node;
  machine.rates = {.products = {{1e-9, endless}},
                   .attention_forward_flops_per_s = endless,
                   .attention_backward_flops_per_s = endless,
                   .memory_bytes_per_s = endless,
                   .host_bytes_per_s = endless,
                   .launch_s = 0};
  machine.network = {.within = {endless, 0}, .between = {endless, 0}};
  machine.write_bytes_per_s = endless;
  return machine;
}

struct Run : test::SmallRun {
  Run() {
    config.parallel.dp_shard_size = 1;
    config.train.per_device_train_batch_size = 4;
    config.train.precision = config::Precision::fp32;
  }

  [[nodiscard]] StepTime time(const Hardware& hardware, device::Kind kind = device::Kind::cpu) const {
    const config::ValidConfig run = valid();
    return plan_step_time(run, rows::limits_of_full_rows(run->train.per_device_train_batch_size, row_tokens),
                          mesh::Place(run, 0), {.kind = kind}, hardware);
  }

  [[nodiscard]] double num_tokens() const { return 4.0 * row_tokens; }
  static constexpr std::int64_t row_tokens = 64;
};

const auto nearly = boost::test_tools::tolerance(1e-9);

double waited_for(const StepTime& time, const std::string& what) {
  for (const Exposed& wait : time.exposed) {
    if (wait.what == what) return wait.seconds;
  }
  return 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(step_time)

BOOST_AUTO_TEST_CASE(products_take_six_operations_a_weight_and_token) {
  Run run;
  Hardware machine = instant();
  machine.rates.products = {{1e-9, 1e9}};
  const double flops = 6.0 * static_cast<double>(model::weight_counts(run.config.model).of_token) * run.num_tokens();
  BOOST_TEST(run.time(machine).step_s == flops / 1e9, nearly);
  BOOST_TEST(run.time(machine).exposed.empty());
  run.config.train.gradient_accumulation_steps = 7;
  BOOST_TEST(run.time(machine).step_s == 7 * flops / 1e9, nearly);
}

BOOST_AUTO_TEST_CASE(kinds_of_ops_add_up_to_the_time_of_ops) {
  using simulator::OpKind;
  using simulator::ProductForm;
  Run run;
  run.config.train.gradient_accumulation_steps = 3;
  Hardware machine = instant();
  machine.rates.products = {{1e-9, 1e9}};
  const double products_s = run.time(machine).step_s;
  machine.rates.attention_forward_flops_per_s = 4e8;
  const double forward_s = run.time(machine).step_s - products_s;
  machine.rates.attention_backward_flops_per_s = 5e8;
  machine.rates.memory_bytes_per_s = 1e9;
  for (const int tp_size : {1, 2}) {
    for (const device::Kind kind : {device::Kind::cpu, device::Kind::cuda}) {
      machine.rates.overlaps = kind == device::Kind::cuda;
      run.config.parallel.tp_size = tp_size;
      machine.network.within.bytes_per_s = 1e8;
      const StepTime time = run.time(machine, kind);
      BOOST_TEST(std::accumulate(time.op_times.begin(), time.op_times.end(), 0.0) == time.ops_s, nearly);
      const auto product_s = [&](ProductForm form) { return time.op_times[OpKind(form).index()]; };
      const double forward_products_s = product_s(ProductForm::second);
      BOOST_TEST(forward_products_s >= products_s / tp_size / 3);  // and the bytes that some touch
      BOOST_TEST(product_s(ProductForm::none) >= products_s / tp_size / 3);
      BOOST_TEST(product_s(ProductForm::first) >= products_s / tp_size / 3);
      const double attention_s = time.op_times[OpKind::attention_forward().index()];
      BOOST_TEST(attention_s >= forward_s / tp_size * (1 - 1e-9));
      // 10 D a pair and head rather than 4, at 5e8 rather than 4e8
      BOOST_TEST(time.op_times[OpKind::attention_backward().index()] == 2 * attention_s, nearly);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_a_step_spends_on_ops_is_told_by_shares) {
  using simulator::OpKind;
  StepTime time{.step_s = 10, .ops_s = 9, .exposed = {}};
  time.op_times[OpKind(simulator::ProductForm::first).index()] = 2;
  time.op_times[OpKind::fp8_product().index()] = 1;
  time.op_times[OpKind::attention_backward().index()] = 5;
  time.op_times[OpKind(ops::Pass::rope).index()] = 0.96;
  time.op_times[OpKind(ops::Pass::copy).index()] = 0.04;
  BOOST_TEST(describe_ops(time) == "attention 50 %, products 30 %, norms and rotations 10 %");
  const auto named = named_op_times(time);
  BOOST_TEST(named.size() == 5U);
  BOOST_TEST(named.front().first == "products_weight_gradient");
  BOOST_TEST(named.back().first == "rope");
  BOOST_TEST(describe_ops({}).empty());
}

// Nothing takes the GPU any time: a step is what its ops take the host.
BOOST_AUTO_TEST_CASE(a_gpu_waits_for_its_host) {
  Run run;
  run.config.train.gradient_accumulation_steps = 4;
  run.config.device.cuda_graphs = false;
  Hardware machine = instant();
  machine.rates.host_launch_s = 1.0;
  const StepTime plain = run.time(machine, device::Kind::cuda);
  BOOST_TEST(plain.step_s > 4.0 * 2 * 15);  // micro-batches, blocks, ops of a block at least
  BOOST_TEST(waited_for(plain, "host") + waited_for(plain, "optimizer") == plain.step_s, nearly);
  run.config.device.cuda_graphs = true;
  const StepTime repeated = run.time(machine, device::Kind::cuda);
  BOOST_TEST(repeated.step_s < plain.step_s / 2);
  // Each of them takes as long as a launch of its own, and there are the launches of chains, too.
  machine.rates.host_repeat_s = 1.0;
  BOOST_TEST(run.time(machine, device::Kind::cuda).step_s > plain.step_s);
}

// Chains reach across attention: a micro-batch that waits for nothing is launched twice, around the last step of the
// loss, however many blocks there are. A library's attention over the keys of other ranks is in no chain.
BOOST_AUTO_TEST_CASE(attention_ends_no_chain) {
  Run run;
  run.config.device.cuda_graphs = true;
  Hardware machine = instant();
  machine.rates.host_launch_s = 1.0;
  const auto micro_batch_s = [&](int num_layers) {
    run.config.model.num_hidden_layers = num_layers;
    const auto step_s = [&](int micro_batches) {
      run.config.train.gradient_accumulation_steps = micro_batches;
      return run.time(machine, device::Kind::cuda).step_s;
    };
    return step_s(5) - step_s(4);
  };
  BOOST_TEST(micro_batch_s(2) == 3, nearly);
  BOOST_TEST(micro_batch_s(6) == 3, nearly);
  run.config.parallel.sp_size = 2;
  run.config.parallel.sp_method = config::SpMethod::ring;
  run.config.train.per_device_train_batch_size = 1;  // a row that both ranks have a part of
  run.config.train.precision = config::Precision::bf16;
  const double own_s = micro_batch_s(2);
  run.config.device.attention = config::AttentionChoice::cudnn;
  BOOST_TEST(micro_batch_s(2) == own_s + 2, nearly);  // the forward pass of two blocks
}

BOOST_AUTO_TEST_CASE(products_in_fp8_take_as_many_operations) {
  Run run;
  Hardware machine = instant();
  machine.rates.products = {{1e-9, 1e9}};
  const double products_s = run.time(machine).step_s;
  const config::Model& m = run.config.model;
  const double head_s = 6.0 * static_cast<double>(m.hidden_size * m.vocab_size) * run.num_tokens() / 1e9;
  for (const config::Fp8 fp8 : {config::Fp8::tensorwise, config::Fp8::blockwise}) {
    run.config.train.fp8 = fp8;
    machine.rates.fp8_speedup = 1;
    BOOST_TEST(run.time(machine).step_s == products_s, nearly);
    machine.rates.fp8_speedup = 2;
    BOOST_TEST(run.time(machine).step_s == head_s + (products_s - head_s) / 2, nearly);
  }
  run.config.train.fp8 = config::Fp8::tensorwise;
}

/// What rounding for the products of layers (columns, columns_in) moves. Each of the three products of one rounds two
/// operands, but the gradient of the output is rounded for two.
struct Rounded {
  double elements = 0, of_gradients = 0, num_operands = 0, num_gradients = 0;

  void add_layer(double tokens, double columns, double columns_in) {
    elements += 2 * (columns * columns_in + tokens * (columns + columns_in));
    num_operands += 6;
    of_gradients += tokens * columns;
    num_gradients += 1;
  }
  void add_forward_pass(double tokens, double columns, double columns_in) {
    elements += columns_in * (tokens + columns);
    num_operands += 2;
  }
  /// Read twice as float32, written as a byte, read as a byte in place of float32 by the product. Their scales are
  /// written, and read twice. Of gradients the second product only reads codes and a scale.
  [[nodiscard]] double bytes() const {
    return elements * (2 * 4 + 1 + 1 - 4) - of_gradients * 2 * 4 + (num_operands * 3 - num_gradients) * 4;
  }
};

BOOST_AUTO_TEST_CASE(rounding_to_fp8_takes_the_bytes_it_moves) {
  for (const bool has_experts : {false, true}) {
    Run run;
    config::Model& m = run.config.model;
    if (has_experts) {
      m.num_experts = 4;
      m.num_experts_per_tok = 2;
      m.moe_intermediate_size = m.intermediate_size;
    }
    Hardware machine = instant();
    machine.rates.memory_bytes_per_s = 1e9;
    const double plain_s = run.time(machine).step_s;
    run.config.train.fp8 = config::Fp8::tensorwise;
    const double q_columns = static_cast<double>(m.num_attention_heads * m.head_dim),
                 kv_columns = static_cast<double>(m.num_key_value_heads * m.head_dim),
                 hidden = static_cast<double>(m.hidden_size), mlp = static_cast<double>(m.intermediate_size);
    Rounded rounded;
    rounded.add_layer(run.num_tokens(), q_columns + 2 * kv_columns, hidden);
    rounded.add_layer(run.num_tokens(), hidden, q_columns);
    const int num_mlps = has_experts ? 4 : 1;
    const double tokens = has_experts ? run.num_tokens() / 2 : run.num_tokens();
    for (int i = 0; i < num_mlps; ++i) {
      rounded.add_layer(tokens, 2 * mlp, hidden);
      rounded.add_layer(tokens, hidden, mlp);
      if (has_experts)
        rounded.add_forward_pass(tokens, hidden, mlp);  // again, for the gradient of the router's weights
    }
    const double bytes = static_cast<double>(m.num_hidden_layers) * rounded.bytes();
    BOOST_TEST(run.time(machine).step_s - plain_s == bytes / 1e9, boost::test_tools::tolerance(1e-6));
  }
}

// A processor has them behind the backward pass, a GPU under the next forward pass, where all but the first unit's
// hide.
BOOST_AUTO_TEST_CASE(updates_hide_under_the_next_forward_pass) {
  Run run;
  Hardware machine = instant();
  machine.rates.products = {{1e-9, 1e9}};
  const double products_s = run.time(machine).step_s;
  const auto pass = [&](ops::Pass which) -> auto& { return machine.rates.passes[static_cast<std::size_t>(which)]; };
  pass(ops::Pass::update) = {{1, 1e10}};
  const double update_s = run.time(machine).step_s - products_s;
  BOOST_TEST(update_s > 0);
  const StepTime beside = run.time(machine, device::Kind::cuda);
  BOOST_TEST(beside.step_s < products_s + 0.7 * update_s);
  BOOST_TEST(beside.step_s > products_s);
  BOOST_TEST(waited_for(beside, "optimizer") == beside.step_s - products_s, nearly);

  // Products that need the memory all the time leave it to nobody.
  pass(ops::Pass::copy) = {{1, 1e7}};
  pass(ops::Pass::update).clear();
  const double slow_s = run.time(machine, device::Kind::cuda).step_s;
  pass(ops::Pass::update) = {{1, 1e10}};
  const double shared_s = run.time(machine, device::Kind::cuda).step_s;
  BOOST_TEST(shared_s - slow_s >= 0.99 * update_s);
}

BOOST_AUTO_TEST_CASE(norms_hide_under_the_backward_pass) {
  Run run;
  Hardware machine = instant();
  machine.rates.products = {{1e-9, 1e9}};
  const double products_s = run.time(machine).step_s;
  machine.rates.passes[static_cast<std::size_t>(ops::Pass::sum_squares)] = {{1, 1e10}};
  const double behind_s = run.time(machine).step_s;
  BOOST_TEST(behind_s > products_s);
  const StepTime beside = run.time(machine, device::Kind::cuda);
  BOOST_TEST(beside.step_s - products_s < 0.7 * (behind_s - products_s));
}

// Without clipping and accumulation a unit is stepped as soon as its gradient is there: while the compute stream would
// wait for the gradients of those before it.
BOOST_AUTO_TEST_CASE(early_updates_lie_under_the_backward_pass) {
  Run run;
  run.config.parallel.dp_shard_size = 4;
  run.config.optimizer.max_grad_norm = 0.0;
  Hardware machine = instant();
  machine.network.measured = {{"reduce_scatter_add", {1, 4}, {{1, 1e-9}, {1e9, 1.0}}}};
  const double bare_s = run.time(machine).step_s;
  machine.rates.passes[static_cast<std::size_t>(ops::Pass::update)] = {{1, 1e10}};
  const double early_s = run.time(machine).step_s;
  run.config.train.nan_policy = config::NanPolicy::skip;  // all of them behind the pass
  const double late_s = run.time(machine).step_s;
  BOOST_TEST(early_s > bare_s);
  BOOST_TEST(early_s - bare_s < 0.7 * (late_s - bare_s));
}

BOOST_AUTO_TEST_CASE(recomputation_takes_the_forward_pass_of_blocks_again) {
  Run run;
  Hardware machine = instant();
  machine.rates.products = {{1e-9, 1e9}};
  const config::Model& m = run.config.model;
  const auto head = static_cast<double>(m.hidden_size * m.vocab_size);
  const double blocks = static_cast<double>(model::weight_counts(m).of_token) - head;
  const double without_s = run.time(machine).step_s;
  run.config.train.activation_checkpointing = config::ActivationCheckpointing::full;
  const double added_s = run.time(machine).step_s - without_s;
  BOOST_TEST(added_s > 0);
  BOOST_TEST(added_s <= 2 * blocks * run.num_tokens() / 1e9 * (1 + 1e-9));
}

BOOST_AUTO_TEST_CASE(attention_takes_what_each_query_sees) {
  Run run;
  Hardware machine = instant();
  machine.rates.attention_forward_flops_per_s = 1e9;
  const double pairs = 4 * 64 * 65 / 2.0, head_elements = 8 * 32, layers = 2;
  const double forward_s = run.time(machine).step_s;
  BOOST_TEST(forward_s == layers * 4 * pairs * head_elements / 1e9, nearly);
  machine.rates.attention_backward_flops_per_s = 1e9;
  BOOST_TEST(run.time(machine).step_s - forward_s == layers * 10 * pairs * head_elements / 1e9, nearly);
  run.config.model.sliding_window = 16;
  const double hidden = 4 * 48 * 49 / 2.0;
  BOOST_TEST(run.time(machine).step_s == layers * 14 * (pairs - hidden) * head_elements / 1e9, nearly);
}

BOOST_AUTO_TEST_CASE(attention_is_as_fast_as_what_the_run_names) {
  using config::AttentionChoice;
  Run run;
  run.config.train.precision = config::Precision::bf16;
  Hardware machine = instant();
  machine.rates.attention_forward_flops_per_s = machine.rates.attention_backward_flops_per_s = 1e9;
  machine.rates.attention_cudnn = {.forward = {{1, 4e9}}, .backward = {{1, 2e9}}};
  machine.rates.attention_cudnn_unordered.backward = {{1, 10e9}};
  machine.rates.attention_hopper = {.forward = {{1, 8e9}}, .backward = {{1, 5e9}}};
  const double pairs = 4 * 64 * 65 / 2.0, operations = 2 * pairs * 8 * 32;  // of two layers
  const auto step_s = [&](AttentionChoice choice) {
    run.config.device.attention = choice;
    return run.time(machine, device::Kind::cuda).step_s;
  };
  BOOST_TEST(step_s(AttentionChoice::automatic) == operations * (4 + 10) / 1e9, nearly);
  BOOST_TEST(step_s(AttentionChoice::own) == operations * (4 + 10) / 1e9, nearly);
  BOOST_TEST(step_s(AttentionChoice::cudnn_forward) == operations * (4 / 4e9 + 10 / 1e9), nearly);
  BOOST_TEST(step_s(AttentionChoice::cudnn) == operations * (4 / 4e9 + 10 / 2e9), nearly);
  BOOST_TEST(step_s(AttentionChoice::cudnn_unordered) == operations * (4 / 4e9 + 10 / 10e9), nearly);
  BOOST_TEST(step_s(AttentionChoice::hopper) == operations * (4 / 8e9 + 10 / 5e9), nearly);
  // Whatever the keys or heads that go between ranks, both passes are the library's.
  run.config.train.per_device_train_batch_size = 1;
  const auto check = [&](int sp_size, config::SpMethod method, int ulysses_size) {
    run.config.parallel.sp_size = sp_size;
    run.config.parallel.sp_method = method;
    run.config.parallel.ulysses_size = ulysses_size;
    const double own_s = step_s(AttentionChoice::own);
    BOOST_TEST(step_s(AttentionChoice::cudnn) == own_s * (1 + 5) / (4 + 10), nearly);
    BOOST_TEST(step_s(AttentionChoice::cudnn_forward) == own_s * (1 + 10) / (4 + 10), nearly);
    BOOST_TEST(step_s(AttentionChoice::cudnn_unordered) == own_s * (1 + 1) / (4 + 10), nearly);
  };
  check(2, config::SpMethod::ring, 0);
  check(4, config::SpMethod::hybrid, 2);
  check(2, config::SpMethod::ulysses, 0);
  check(2, config::SpMethod::hybrid, 2);
  check(2, config::SpMethod::all_gather, 0);
  machine.rates.attention_cudnn = machine.rates.attention_cudnn_unordered = {};
  BOOST_TEST(step_s(AttentionChoice::cudnn) == step_s(AttentionChoice::own), nearly);
  BOOST_TEST(step_s(AttentionChoice::cudnn_unordered) == step_s(AttentionChoice::own), nearly);
}

BOOST_AUTO_TEST_CASE(tensor_parallel_ranks_share_products_and_wait_for_sums) {
  Run run;
  Hardware machine = instant();
  machine.rates.products = {{1e-9, 1e9}};
  const double alone_s = run.time(machine).step_s;
  run.config.parallel.tp_size = 2;
  BOOST_TEST(run.time(machine).step_s == alone_s / 2, nearly);
  machine.network.within.bytes_per_s = 1e6;
  const StepTime slow = run.time(machine);
  BOOST_TEST(slow.step_s > alone_s);
  BOOST_TEST(waited_for(slow, "tp") > 0.5 * (slow.step_s - alone_s / 2));
  BOOST_TEST(slow.exposed_s() + slow.ops_s == slow.step_s, nearly);
}

BOOST_AUTO_TEST_CASE(gathers_are_hidden_where_products_take_longer) {
  Run run;
  run.config.parallel.dp_shard_size = 4;
  Hardware machine = instant();
  machine.network.within.bytes_per_s = 1e9;
  const StepTime bare = run.time(machine);  // nothing to hide behind
  BOOST_TEST(waited_for(bare, "gathers") > 0);
  BOOST_TEST(bare.ops_s < 1e-9 * bare.step_s);
  machine.rates.products = {{1e-9, 1e9}};
  const StepTime slow_products = run.time(machine);
  BOOST_TEST(slow_products.exposed_s() < 0.5 * bare.exposed_s());
  BOOST_TEST(slow_products.step_s < slow_products.ops_s + bare.step_s);
  machine.rates.overlaps = false;  // as processors do it: everything is told as exposed
  const StepTime one_by_one = run.time(machine);
  BOOST_TEST(one_by_one.step_s == one_by_one.ops_s + one_by_one.exposed_s(), nearly);
  BOOST_TEST(one_by_one.step_s > slow_products.step_s);
}

BOOST_AUTO_TEST_CASE(ranks_on_several_nodes_wait_for_the_network) {
  Run run;
  run.config.parallel.dp_shard_size = 4;
  Hardware machine = instant(4);
  machine.network.between.bytes_per_s = 1e9;
  BOOST_TEST(run.time(machine).step_s < 1e-6);
  machine.ranks_per_node = 2;
  const double two_nodes_s = run.time(machine).step_s;
  machine.ranks_per_node = 1;
  const double four_nodes_s = run.time(machine).step_s;
  BOOST_TEST(four_nodes_s == 2 * two_nodes_s, boost::test_tools::tolerance(1e-6));  // half as many links
}

BOOST_AUTO_TEST_CASE(accumulation_repeats_the_middle_micro_batch) {
  Run run;
  run.config.parallel.dp_shard_size = 2;
  run.config.parallel.sp_size = 2;
  Hardware machine = instant();
  machine.rates.products = {{1e-9, 1e10}};
  machine.network.within.bytes_per_s = 1e9;
  const auto step_s = [&](int micro_batches) {
    run.config.train.gradient_accumulation_steps = micro_batches;
    return run.time(machine).step_s;
  };
  const double three = step_s(3), four = step_s(4), twenty = step_s(20);
  BOOST_TEST(four > three);
  BOOST_TEST(twenty - three == 17 * (four - three), boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(threads_of_ranks_talk_where_they_compute_too) {
  Run run;
  run.config.parallel.dp_replicate_size = 2;
  Hardware machine = instant();
  machine.network.measured = {{"all_reduce", {1, 2}, {{1, 1.0}, {1e15, 1.0 + 1e-9}}}};
  const auto step_s = [&](int micro_batches) {
    run.config.train.gradient_accumulation_steps = micro_batches;
    return run.time(machine).step_s;
  };
  const double one = step_s(1), two = step_s(2);
  machine.rates.overlaps = false;
  BOOST_TEST(step_s(1) >= one + 2 - 1e-6);                    // counts, and whether all go on
  BOOST_TEST(step_s(2) - step_s(1) >= two - one + 1 - 1e-6);  // this for each micro-batch
}

BOOST_AUTO_TEST_CASE(ranks_that_share_cores_wait_at_sums_of_tp) {
  Run run;
  run.config.parallel.tp_size = 2;
  Hardware machine = instant();
  machine.rates.overlaps = false;
  machine.rates.products = {{1e-9, 1e9}};
  const StepTime alone = run.time(machine);
  BOOST_TEST(alone.step_s == alone.ops_s, nearly);
  machine.network.waits = {{"all_reduce", {1, 2}, {{1e-6, 1e-6}}}};  // as long as they compute
  const StepTime shared = run.time(machine);
  BOOST_TEST(shared.ops_s == alone.ops_s, nearly);
  BOOST_TEST(shared.step_s > 1.5 * alone.step_s);
  BOOST_TEST(shared.step_s <= 2 * alone.step_s * (1 + 1e-9));
  BOOST_TEST(shared.exposed_s() == shared.step_s - shared.ops_s, nearly);
}

BOOST_AUTO_TEST_CASE(activations_in_files_take_the_time_of_the_disk_beside_the_math) {
  Run run;
  run.config.model.num_hidden_layers = 5;
  run.config.train.activation_checkpointing = config::ActivationCheckpointing::full;
  run.config.train.activation_offload = true;
  run.config.train.offload_folder = "disk";
  constexpr int ranks_per_node = 4;
  Hardware machine = instant(ranks_per_node);
  machine.write_bytes_per_s = 1e9;
  BOOST_TEST(run.time(machine, device::Kind::cuda).step_s < 1e-15);  // in the memory of the node
  run.config.train.activation_offload_to = config::ActivationPlace::nvme;
  // All blocks but two leave and come back, each with the stream before it and its norm's factors.
  const double bytes = 3 * run.num_tokens() * static_cast<double>(4 * run.config.model.hidden_size + 4);
  const double disk_s = 2 * bytes * ranks_per_node / 1e9;
  const StepTime alone = run.time(machine, device::Kind::cuda);
  BOOST_TEST(alone.step_s == disk_s, nearly);
  BOOST_TEST(waited_for(alone, "activations in") > 0.0);

  machine.rates.products = {{1e-9, 1e6}};  // a block takes longer than its activations
  const StepTime beside = run.time(machine, device::Kind::cuda);
  run.config.train.activation_offload_to = config::ActivationPlace::automatic;
  BOOST_TEST(beside.step_s == run.time(machine, device::Kind::cuda).step_s, nearly);
  BOOST_TEST(waited_for(beside, "activations in") == 0.0);
}

BOOST_AUTO_TEST_CASE(mfu_counts_the_operations_of_the_model) {
  const Run run;
  Hardware machine = instant();
  machine.rates.products = {{1e-9, 1e9}};
  BOOST_TEST(run.time(machine).mfu(machine) == 0.0);
  machine.peak_flops_per_s = 1e9;
  machine.ranks_per_node = 1;
  const double squares = 4 * 64 * 64.0, attention = 6.0 * 2 * 8 * 32 * squares;
  const StepTime time = run.time(machine);
  BOOST_TEST(time.model_flops == time.step_s * 1e9 + attention, nearly);
  BOOST_TEST(time.mfu(machine) == 1 + attention / (time.step_s * 1e9), nearly);
}

BOOST_AUTO_TEST_SUITE_END()
