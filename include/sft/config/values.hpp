// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text <-> the value types of the configuration. read() throws std::invalid_argument whose message is what it expected;
// quotes, variables and ~ are those of quoting.hpp. write() is the exact inverse: read(write(x)) == x, bit for bit for
// doubles, in any environment.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sft/config/config.hpp"

namespace sft::config {

/// true, yes, on, t, y, 1 and false, no, off, f, n, 0, in capital letters or small ones; nothing for other texts.
[[nodiscard]] std::optional<bool> truth_of(const std::string& text);
/// none, null, no, false or nothing, in capital letters or small ones: ways to write that there is none.
[[nodiscard]] bool is_none(const std::string& text);
/// none or null, in capital letters or small ones: what Python's None becomes in files.
[[nodiscard]] bool is_null(const std::string& text);

void read(const std::string& text, bool& value);
void read(const std::string& text, int& value);
void read(const std::string& text, std::int64_t& value);
void read(const std::string& text, std::uint64_t& value);
void read(const std::string& text, double& value);
void read(const std::string& text, std::string& value);
void read(const std::string& text, std::vector<std::string>& value);   // separated by white space or commas
void read(const std::string& text, std::vector<int>& value);           // the same
void read(const std::string& text, std::vector<std::int64_t>& value);  // the same, from 0
void read(const std::string& text, ModuleNumbers& value);              // a JSON object of numbers; nothing: none
void read(const std::string& text, AdapterInit& value);                // a truth, gaussian, pissa, pissa_niter_N, olora
void read(const std::string& text, FourBitType& value);
void read(const std::string& text, Precision& value);
void read(const std::string& text, Fp8& value);
void read(const std::string& text, ActivationCheckpointing& value);  // also true (full) and false (none)
void read(const std::string& text, Offload& value);
void read(const std::string& text, ActivationPlace& value);
void read(const std::string& text, DType& value);          // float32 or bf16
void read(const std::string& text, OptimizerKind& value);  // also as transformers calls them: adamw_torch_fused ...
void read(const std::string& text, LrAdjustment& value);
void read(const std::string& text, Scheduler& value);
void read(const std::string& text, SchedulerKwargs& value);
void read(const std::string& text, BackendChoice& value);
void read(const std::string& text, CommChoice& value);
void read(const std::string& text, AttentionChoice& value);
void read(const std::string& text, SpMethod& value);
void read(const std::string& text, RowOrder& value);
void read(const std::string& text, EvalStrategy& value);  // no also as none or false
void read(const std::string& text, SaveStrategy& value);  // the same
void read(const std::string& text, EvalMetric& value);    // also with eval_ in front
void read(const std::string& text, NanPolicy& value);
void read(const std::string& text, std::vector<Reporter>& value);  // names of a list, or none
void read(const std::string& text, ExpertForm& value);
void read(const std::string& text, BlockNorms& value);
void read(const std::string& text, Activation& value);
void read(const std::string& text, ScoringFunc& value);
void read(const std::string& text, LossType& value);  // nll also as chunked_nll or none
void read(const std::string& text, RopeScaling& value);
void read(const std::string& text, StepRange& value);  // "3", "3-5" or none

/// The texts that a value can be, where it is one of a few.
[[nodiscard]] inline std::vector<std::string> choices(const auto&) { return {}; }
[[nodiscard]] std::vector<std::string> choices(bool);
[[nodiscard]] std::vector<std::string> choices(AdapterInit);
[[nodiscard]] std::vector<std::string> choices(FourBitType);
[[nodiscard]] std::vector<std::string> choices(Precision);
[[nodiscard]] std::vector<std::string> choices(Fp8);
[[nodiscard]] std::vector<std::string> choices(ActivationCheckpointing);
[[nodiscard]] std::vector<std::string> choices(Offload);
[[nodiscard]] std::vector<std::string> choices(ActivationPlace);
[[nodiscard]] std::vector<std::string> choices(DType);
[[nodiscard]] std::vector<std::string> choices(OptimizerKind);
[[nodiscard]] std::vector<std::string> choices(LrAdjustment);
[[nodiscard]] std::vector<std::string> choices(Scheduler);
[[nodiscard]] std::vector<std::string> choices(BackendChoice);
[[nodiscard]] std::vector<std::string> choices(CommChoice);
[[nodiscard]] std::vector<std::string> choices(AttentionChoice);
[[nodiscard]] std::vector<std::string> choices(SpMethod);
[[nodiscard]] std::vector<std::string> choices(RowOrder);
[[nodiscard]] std::vector<std::string> choices(EvalStrategy);
[[nodiscard]] std::vector<std::string> choices(SaveStrategy);
[[nodiscard]] std::vector<std::string> choices(EvalMetric);
[[nodiscard]] std::vector<std::string> choices(NanPolicy);
[[nodiscard]] std::vector<std::string> choices(ExpertForm);
[[nodiscard]] std::vector<std::string> choices(BlockNorms);
[[nodiscard]] std::vector<std::string> choices(Activation);
[[nodiscard]] std::vector<std::string> choices(ScoringFunc);
[[nodiscard]] std::vector<std::string> choices(LossType);

[[nodiscard]] std::string write(bool value);
[[nodiscard]] std::string write(int value);
[[nodiscard]] std::string write(std::int64_t value);
[[nodiscard]] std::string write(std::uint64_t value);
[[nodiscard]] std::string write(double value);
[[nodiscard]] std::string write(const std::string& value);
[[nodiscard]] std::string write(const std::vector<int>& value);
[[nodiscard]] std::string write(const std::vector<std::string>& value);
[[nodiscard]] std::string write(const std::vector<std::int64_t>& value);
[[nodiscard]] std::string write(const ModuleNumbers& value);
[[nodiscard]] std::string write(const AdapterInit& value);
[[nodiscard]] std::string write(FourBitType value);
[[nodiscard]] std::string write(Precision value);
[[nodiscard]] std::string write(Fp8 value);
[[nodiscard]] std::string write(ActivationCheckpointing value);
[[nodiscard]] std::string write(Offload value);
[[nodiscard]] std::string write(ActivationPlace value);
[[nodiscard]] std::string write(DType value);
[[nodiscard]] std::string write(OptimizerKind value);
[[nodiscard]] std::string write(LrAdjustment value);
[[nodiscard]] std::string write(Scheduler value);
[[nodiscard]] std::string write(const SchedulerKwargs& value);
[[nodiscard]] std::string write(BackendChoice value);
[[nodiscard]] std::string write(CommChoice value);
[[nodiscard]] std::string write(AttentionChoice value);
[[nodiscard]] std::string write(SpMethod value);
[[nodiscard]] std::string write(RowOrder value);
[[nodiscard]] std::string write(EvalStrategy value);
[[nodiscard]] std::string write(SaveStrategy value);
[[nodiscard]] std::string write(const std::vector<Reporter>& value);
[[nodiscard]] std::string write(EvalMetric value);
[[nodiscard]] std::string write(NanPolicy value);
[[nodiscard]] std::string write(ExpertForm value);
[[nodiscard]] std::string write(BlockNorms value);
[[nodiscard]] std::string write(Activation value);
[[nodiscard]] std::string write(ScoringFunc value);
[[nodiscard]] std::string write(LossType value);
[[nodiscard]] std::string write(const RopeScaling& value);
[[nodiscard]] std::string write(const StepRange& value);

}  // namespace sft::config
