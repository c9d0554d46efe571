// SPDX-License-Identifier: Apache-2.0
// Where the optimizer's state lies does not change a bit of a run, nor of what it saves; and bf16 state repeats to the
// bit and follows float32.

#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/device/factory.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(state_forms)

namespace {

using namespace sft;
using config::Offload;
using config::Precision;
using test::session;

constexpr std::int64_t max_length = 48;
constexpr std::int64_t num_steps = 6;

const std::vector<test::Layout> layouts{{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 1, 2}, {2, 1, 2, 1}, {1, 2, 1, 2}};

/// Keeps a hash of the bytes that it is given, by tensor and place.
class RecordingSink final : public io::TensorSink {
 public:
  void write(const std::string& name, const io::Rectangle& where, DType dtype, const void* values) override {
    const std::string place = name + "@" + std::to_string(where.row_begin) + "," + std::to_string(where.column_begin);
    const std::size_t num_bytes = static_cast<std::size_t>(where.num_elements()) * size_of(dtype);
    parts[place] = std::hash<std::string_view>()({static_cast<const char*>(values), num_bytes});
  }
  std::map<std::string, std::size_t> parts;
};

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, std::size_t> saved;  ///< hashes of what this rank saved
  std::size_t ledger_bytes = 0, optimizer_bytes = 0, gradient_bytes = 0;

  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.losses == b.losses && a.norms == b.norms && a.saved == b.saved;
  }
};

/// Trains a few steps and saves. Collective over the mesh.
Outcome run(const config::Config& config, const mesh::Layout& layout, std::int64_t steps = num_steps) {
  const test::Mesh mesh(session().world(), layout, config.model);
  const std::unique_ptr<device::Device> own_device = device::make_device(device::Kind::cpu);
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  Outcome outcome;
  const std::int64_t num_rows = config.train.gradient_accumulation_steps * mesh.place.data_size();
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::vector<rows::Row> rows =
        test::make_awkward_rows(num_rows, max_length, static_cast<std::uint64_t>(step % 3));
    const train::StepResult result = fixture.step(rows, step, 3e-3);
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.grad_norm);
  }
  RecordingSink sink;
  checkpoint::save_entries(fixture.engine().state(), sink, *own_device, fixture.engine().stream());
  outcome.saved = std::move(sink.parts);
  outcome.ledger_bytes = fixture.ledger().total_bytes() - fixture.ledger().bytes(device::Label::process);
  outcome.optimizer_bytes = fixture.ledger().bytes(device::Label::optimizer);
  outcome.gradient_bytes = fixture.ledger().bytes(device::Label::gradients);
  return outcome;
}

config::Config base_config() {
  config::Config config;
  config.model = test::small_qwen2();
  config.train.per_device_train_batch_size = 1;
  config.train.gradient_accumulation_steps = 2;
  config.optimizer.weight_decay = 0.1;
  return config;
}

void for_each_layout(const std::function<void(const mesh::Layout&)>& visit) {
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() == session().world().size()) {
      BOOST_TEST_CONTEXT(layout.describe()) visit(layout);
    }
  }
}

/// As if the process might take that much more memory and no byte beyond.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t more_bytes) {
    ::getrlimit(RLIMIT_DATA, &former_);
    const rlimit limit = {data_bytes() + more_bytes, former_.rlim_max};
    ::setrlimit(RLIMIT_DATA, &limit);
  }
  ~MemoryLimit() { ::setrlimit(RLIMIT_DATA, &former_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  static std::size_t data_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      std::size_t kib = 0;
      if (word == "VmData:" && status >> kib) return kib * 1024;
    }
    return 0;
  }
  rlimit former_{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(files_change_no_bit) {
  const test::TemporaryFolder folder;
  struct Form {
    Precision precision;
    DType moments;
    bool offloads_moments, offloads_weights;
  };
  const std::vector<Form> forms{{Precision::fp32, DType::float32, true, false},
                                {Precision::bf16, DType::float32, false, true},
                                {Precision::bf16, DType::float32, true, true},
                                {Precision::bf16, DType::bf16, true, true},
                                {Precision::pure_bf16, DType::bf16, true, false}};
  for_each_layout([&](const mesh::Layout& layout) {
    for (const Form& form : forms) {
      config::Config config = base_config();
      config.train.precision = form.precision;
      config.optimizer.moments_dtype = form.moments;
      const Outcome in_memory = run(config, layout);
      config.train.offload_folder = folder.path();
      if (form.offloads_moments) config.train.offload_optimizer = Offload::nvme;
      if (form.offloads_weights) config.train.offload_parameters = Offload::nvme;
      const Outcome in_files = run(config, layout);
      BOOST_TEST((in_files == in_memory), "form " << &form - forms.data());
      BOOST_TEST((run(config, layout) == in_files), "form " << &form - forms.data() << ", again");
    }
  });
}

BOOST_AUTO_TEST_CASE(files_change_no_bit_of_any_optimizer) {
  const test::TemporaryFolder folder;
  for_each_layout([&](const mesh::Layout& layout) {
    for (const config::OptimizerKind optim :
         {config::OptimizerKind::adamw_8bit, config::OptimizerKind::adafactor, config::OptimizerKind::lion,
          config::OptimizerKind::muon, config::OptimizerKind::sgd}) {
      struct Form {
        Precision precision;
        bool use_peft;  ///< matrices of blocks alone are trained
      };
      for (const Form form : {Form{Precision::bf16, false}, {Precision::pure_bf16, false}, {Precision::bf16, true}}) {
        config::Config config = base_config();
        config.lora.use_peft = form.use_peft;
        config.optimizer.optim = optim;
        const bool has_codes = optim == config::OptimizerKind::adamw_8bit;
        if (has_codes) config.model.intermediate_size = 192;  // matrices of 30 blocks
        const bool is_float32 = has_codes || optim == config::OptimizerKind::adafactor;
        config.optimizer.moments_dtype = is_float32 ? DType::float32 : DType::bf16;
        config.train.precision = form.precision;
        const Outcome in_memory = run(config, layout);
        config.train.offload_folder = folder.path();
        config.train.offload_optimizer = Offload::nvme;
        if (form.precision == Precision::bf16) config.train.offload_parameters = Offload::nvme;
        BOOST_TEST((run(config, layout) == in_memory), config::write(optim) << (form.use_peft ? ", adapters" : ""));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(steps_under_the_backward_pass_change_no_bit) {
  const test::TemporaryFolder folder;
  for_each_layout([&](const mesh::Layout& layout) {
    for (const std::int64_t accumulation : {1, 3}) {
      config::Config config = base_config();
      config.optimizer.max_grad_norm = 0.0;
      config.train.gradient_accumulation_steps = accumulation;
      const Outcome in_memory = run(config, layout);
      config.train.offload_folder = folder.path();
      config.train.offload_optimizer = config.train.offload_parameters = Offload::nvme;
      BOOST_TEST((run(config, layout) == in_memory), accumulation << " micro-batches");
    }
  });
}

// nan_policy = skip, which has to know of all gradients first, keeps them to the end of the step.
BOOST_AUTO_TEST_CASE(gradients_that_leave_change_no_bit) {
  struct Form {
    Precision precision;
    int zero_stage;
    config::OptimizerKind optim = config::OptimizerKind::adamw_torch;
    bool use_peft = false, is_tied = false;
  };
  using config::OptimizerKind;
  const std::vector<Form> forms{{Precision::fp32, 3},
                                {Precision::bf16, 3},
                                {.precision = Precision::bf16, .zero_stage = 3, .is_tied = true},
                                {Precision::pure_bf16, 2},
                                {Precision::bf16, 1, OptimizerKind::lion},
                                {Precision::fp32, 0, OptimizerKind::sgd},
                                {.precision = Precision::bf16, .zero_stage = 3, .use_peft = true},
                                {Precision::bf16, 3, OptimizerKind::adamw_8bit},
                                {Precision::bf16, 3, OptimizerKind::muon}};
  for_each_layout([&](const mesh::Layout& layout) {
    for (const Form& form : forms) {
      config::Config config = base_config();
      config.model.num_hidden_layers = 5;
      config.model.intermediate_size = 192;
      config.model.tie_word_embeddings = form.is_tied;
      config.lora.use_peft = form.use_peft;
      config.parallel.zero_stage = form.zero_stage;
      config.train.precision = form.precision;
      config.train.gradient_accumulation_steps = 1;
      config.optimizer.optim = form.optim;
      config.optimizer.max_grad_norm = 0.0;
      config.train.nan_policy = config::NanPolicy::skip;
      const Outcome kept = run(config, layout);
      config.train.nan_policy = config::NanPolicy::stop;
      const Outcome left = run(config, layout);
      BOOST_TEST_CONTEXT("form " << &form - forms.data()) {
        BOOST_TEST((left == kept));
        const bool leaves = layout[Axis::tp] == 1 && form.optim != OptimizerKind::muon &&
                            (form.optim != OptimizerKind::adamw_8bit || layout.size() == 1);
        BOOST_TEST((left.gradient_bytes < kept.gradient_bytes) == leaves);
      }
    }
  });
}

// Which come behind it, where there is no clipping to wait for either.
BOOST_AUTO_TEST_CASE(steps_that_need_other_ranks_come_behind_the_backward_pass) {
  const test::TemporaryFolder folder;
  for_each_layout([&](const mesh::Layout& layout) {
    for (const config::OptimizerKind optim :
         {config::OptimizerKind::adamw_8bit, config::OptimizerKind::adafactor, config::OptimizerKind::muon}) {
      config::Config config = base_config();
      config.optimizer.optim = optim;
      config.optimizer.max_grad_norm = 0.0;
      config.model.intermediate_size = 192;
      const Outcome in_memory = run(config, layout);
      config.train.offload_folder = folder.path();
      config.train.offload_optimizer = Offload::nvme;
      config.train.offload_parameters = Offload::nvme;
      BOOST_TEST((run(config, layout) == in_memory), config::write(optim));
    }
  });
}

BOOST_AUTO_TEST_CASE(host_memory_is_that_of_the_cpu) {
  for_each_layout([&](const mesh::Layout& layout) {
    config::Config config = base_config();
    const Outcome none = run(config, layout);
    config.train.offload_optimizer = config.train.offload_parameters = Offload::host;
    BOOST_TEST((run(config, layout) == none));
  });
}

BOOST_AUTO_TEST_CASE(bf16_state_follows_float32) {
  for_each_layout([&](const mesh::Layout& layout) {
    constexpr std::int64_t steps = 30;
    config::Config config = base_config();
    const Outcome exact = run(config, layout, steps);
    const auto mean_of = [&](const Outcome& outcome) {
      return std::accumulate(outcome.losses.begin(), outcome.losses.end(), 0.0) / steps;
    };
    // Relative, of the mean loss over all steps; a single one goes up and down by more.
    const auto distance_of = [&](const Outcome& outcome) {
      double worst = 0.0;
      for (std::size_t i = 0; i < exact.losses.size(); ++i) {
        worst = std::max(worst, std::abs(outcome.losses[i] / exact.losses[i] - 1));
      }
      BOOST_TEST(worst < 0.05);
      return std::abs(mean_of(outcome) / mean_of(exact) - 1);
    };
    config.optimizer.moments_dtype = DType::bf16;
    const Outcome bf16_moments = run(config, layout, steps);
    BOOST_TEST(bf16_moments.optimizer_bytes <= exact.optimizer_bytes / 2 + 2 * device::Arena::alignment_bytes);
    config.train.precision = Precision::pure_bf16;
    const Outcome pure_bf16 = run(config, layout, steps);
    BOOST_TEST_MESSAGE("bf16 moments " << distance_of(bf16_moments) << ", pure bf16 " << distance_of(pure_bf16));
    BOOST_TEST(distance_of(bf16_moments) < 0.01);
    BOOST_TEST(distance_of(pure_bf16) < 0.01);
    BOOST_TEST(exact.losses.back() < 0.95 * exact.losses.front());  // there was something to learn
  });
}

BOOST_AUTO_TEST_CASE(moments_in_8_bits_follow_float32) {
  for_each_layout([&](const mesh::Layout& layout) {
    constexpr std::int64_t steps = 30;
    config::Config config = base_config();
    config.model.intermediate_size = 960;  // most of the model is matrices of 150 blocks
    const Outcome exact = run(config, layout, steps);
    config.optimizer.optim = config::OptimizerKind::adamw_8bit;
    const Outcome in_8_bits = run(config, layout, steps);
    const auto mean_of = [&](const Outcome& outcome) {
      return std::accumulate(outcome.losses.begin(), outcome.losses.end(), 0.0) / steps;
    };
    const double distance = std::abs(mean_of(in_8_bits) / mean_of(exact) - 1);
    BOOST_TEST_MESSAGE("moments in 8 bits " << distance << ", bytes " << in_8_bits.optimizer_bytes << " for "
                                            << exact.optimizer_bytes);
    BOOST_TEST(distance < 0.01);
    BOOST_TEST((in_8_bits.losses != exact.losses));
    BOOST_TEST(exact.losses.back() < 0.95 * exact.losses.front());  // there was something to learn
    BOOST_TEST(in_8_bits.optimizer_bytes < exact.optimizer_bytes * 2 / 5);
  });
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_in_memory_trains_from_files) {
  if (session().world().size() > 1) return;
  const test::TemporaryFolder folder;
  config::Config config = base_config();
  config.model.hidden_size = 256;
  config.model.num_hidden_layers = 20;
  config.model.intermediate_size = 1024;
  config.model.num_attention_heads = config.model.num_key_value_heads = 4;
  config.model.head_dim = 64;
  // The limit also holds for the machine code that oneDNN makes for every number of tokens: few of them.
  config.train.gradient_accumulation_steps = 1;
  const Outcome in_memory = run(config, {}, 2);
  const std::size_t allowed_bytes = in_memory.ledger_bytes * 8 / 10;
  const MemoryLimit limit(allowed_bytes);
  BOOST_CHECK_THROW((void)run(config, {}, 2), Error);
  config.train.offload_optimizer = config.train.offload_parameters = Offload::nvme;
  config.train.offload_folder = folder.path();
  const Outcome in_files = run(config, {}, 2);
  BOOST_TEST((in_files == in_memory));
  BOOST_TEST(in_files.ledger_bytes < allowed_bytes);
}

BOOST_AUTO_TEST_SUITE_END()
