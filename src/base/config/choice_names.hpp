// SPDX-License-Identifier: Apache-2.0
#pragma once
// The words of keys that have a choice of some, and how they are read and written.

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "config/quoting.hpp"
#include "sft/config/config.hpp"
#include "sft/core/ensure.hpp"

namespace sft::config {

template <class Choice, std::size_t size>
using Names = std::array<std::pair<const char*, Choice>, size>;

inline constexpr Names<bool, 2> bool_names{{{"true", true}, {"false", false}}};
inline constexpr Names<bool, 12> bool_synonyms{{{"true", true},
                                                {"yes", true},
                                                {"on", true},
                                                {"t", true},
                                                {"y", true},
                                                {"1", true},
                                                {"false", false},
                                                {"no", false},
                                                {"off", false},
                                                {"f", false},
                                                {"n", false},
                                                {"0", false}}};
inline constexpr Names<Precision, 3> precision_names{
    {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"pure_bf16", Precision::pure_bf16}}};
inline constexpr Names<Fp8, 3> fp8_names{
    {{"none", Fp8::none}, {"tensorwise", Fp8::tensorwise}, {"blockwise", Fp8::blockwise}}};
inline constexpr Names<ActivationCheckpointing, 3> checkpointing_names{
    {{"none", ActivationCheckpointing::none},
     {"selective", ActivationCheckpointing::selective},
     {"full", ActivationCheckpointing::full}}};
inline constexpr Names<Offload, 3> offload_names{
    {{"none", Offload::none}, {"host", Offload::host}, {"nvme", Offload::nvme}}};
inline constexpr Names<ActivationPlace, 2> activation_place_names{
    {{"auto", ActivationPlace::automatic}, {"nvme", ActivationPlace::nvme}}};
inline constexpr Names<DType, 2> dtype_names{{{"float32", DType::float32}, {"bf16", DType::bf16}}};
inline constexpr Names<OptimizerKind, optimizer_names.size()> optimizer_choices = [] {
  Names<OptimizerKind, optimizer_names.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = {optimizer_names[i].name, optimizer_names[i].kind};
  return names;
}();
inline constexpr Names<LrAdjustment, 2> adjustment_names{
    {{"match_rms_adamw", LrAdjustment::match_rms_adamw}, {"original", LrAdjustment::original}}};
inline constexpr Names<Scheduler, 11> scheduler_names{
    {{"linear", Scheduler::linear},
     {"cosine", Scheduler::cosine},
     {"cosine_with_restarts", Scheduler::cosine_with_restarts},
     {"polynomial", Scheduler::polynomial},
     {"constant", Scheduler::constant},
     {"constant_with_warmup", Scheduler::constant_with_warmup},
     {"inverse_sqrt", Scheduler::inverse_sqrt},
     {"reduce_lr_on_plateau", Scheduler::reduce_lr_on_plateau},
     {"cosine_with_min_lr", Scheduler::cosine_with_min_lr},
     {"cosine_warmup_with_min_lr", Scheduler::cosine_warmup_with_min_lr},
     {"warmup_stable_decay", Scheduler::warmup_stable_decay}}};
inline constexpr Names<BackendChoice, 3> backend_names{
    {{"auto", BackendChoice::automatic}, {"cpu", BackendChoice::cpu}, {"cuda", BackendChoice::cuda}}};
inline constexpr Names<CommChoice, 4> comm_names{{{"auto", CommChoice::automatic},
                                                  {"nccl", CommChoice::nccl},
                                                  {"host", CommChoice::host},
                                                  {"mpi", CommChoice::mpi}}};
inline constexpr Names<AttentionChoice, 6> attention_names{{{"auto", AttentionChoice::automatic},
                                                            {"own", AttentionChoice::own},
                                                            {"hopper", AttentionChoice::hopper},
                                                            {"cudnn_forward", AttentionChoice::cudnn_forward},
                                                            {"cudnn", AttentionChoice::cudnn},
                                                            {"cudnn_unordered", AttentionChoice::cudnn_unordered}}};
inline constexpr Names<SpMethod, 5> sp_method_names{{{"ring", SpMethod::ring},
                                                     {"all_gather", SpMethod::all_gather},
                                                     {"ulysses", SpMethod::ulysses},
                                                     {"hybrid", SpMethod::hybrid},
                                                     {"auto", SpMethod::automatic}}};
inline constexpr Names<RowOrder, 3> row_order_names{
    {{"auto", RowOrder::automatic}, {"trl", RowOrder::trl}, {"endless", RowOrder::endless}}};
inline constexpr Names<EvalStrategy, 3> eval_strategy_names{
    {{"no", EvalStrategy::no}, {"steps", EvalStrategy::steps}, {"epoch", EvalStrategy::epoch}}};
inline constexpr Names<Reporter, 6> reporter_names{{{"tensorboard", Reporter::tensorboard},
                                                    {"prometheus", Reporter::prometheus},
                                                    {"wandb", Reporter::wandb},
                                                    {"mlflow", Reporter::mlflow},
                                                    {"trackio", Reporter::trackio},
                                                    {"swanlab", Reporter::swanlab}}};
inline constexpr Names<SaveStrategy, 4> save_strategy_names{{{"no", SaveStrategy::no},
                                                             {"steps", SaveStrategy::steps},
                                                             {"epoch", SaveStrategy::epoch},
                                                             {"best", SaveStrategy::best}}};
inline constexpr Names<EvalMetric, 3> eval_metric_names{{{"loss", EvalMetric::loss},
                                                         {"mean_token_accuracy", EvalMetric::mean_token_accuracy},
                                                         {"entropy", EvalMetric::entropy}}};
inline constexpr Names<LoraInit, 5> lora_init_names{{{"true", LoraInit::zero_b},
                                                     {"false", LoraInit::linear},
                                                     {"gaussian", LoraInit::gaussian},
                                                     {"pissa", LoraInit::pissa},
                                                     {"olora", LoraInit::olora}}};
constexpr std::string_view pissa_iterations = "pissa_niter_";
inline constexpr Names<FourBitType, 2> four_bit_names{{{"nf4", FourBitType::nf4}, {"fp4", FourBitType::fp4}}};
inline constexpr Names<LossType, 2> loss_type_names{{{"nll", LossType::nll}, {"dft", LossType::dft}}};
inline constexpr Names<LossType, 4> loss_type_synonyms{
    {{"nll", LossType::nll}, {"dft", LossType::dft}, {"chunked_nll", LossType::nll}, {"none", LossType::nll}}};
inline constexpr Names<NanPolicy, 2> nan_policy_names{{{"stop", NanPolicy::stop}, {"skip", NanPolicy::skip}}};
inline constexpr Names<BlockNorms, 4> block_norms_names{{{"pre", BlockNorms::pre},
                                                         {"glm4", BlockNorms::glm4},
                                                         {"olmo2", BlockNorms::olmo2},
                                                         {"gemma2", BlockNorms::gemma2}}};
inline constexpr Names<Activation, 3> activation_names{
    {{"silu", Activation::silu}, {"gelu_pytorch_tanh", Activation::gelu_pytorch_tanh}, {"relu2", Activation::relu2}}};
inline constexpr Names<ScoringFunc, 2> scoring_names{
    {{"softmax", ScoringFunc::softmax}, {"sigmoid", ScoringFunc::sigmoid}}};
inline constexpr Names<ExpertForm, 2> expert_form_names{
    {{"swiglu", ExpertForm::swiglu}, {"gpt_oss", ExpertForm::gpt_oss}}};

template <class Choice, std::size_t size>
std::vector<std::string> texts_of(const Names<Choice, size>& names) {
  std::vector<std::string> texts;
  for (const auto& [name, choice] : names) texts.emplace_back(name);
  return texts;
}

template <class Choice, std::size_t size>
void read_choice(const std::string& written, Choice& value, const Names<Choice, size>& names) {
  const std::string text = unquoted(written);
  for (const auto& [name, choice] : names) {
    if (text != name) continue;
    value = choice;
    return;
  }
  throw std::invalid_argument(fmt::format("one of {}", fmt::join(texts_of(names), " | ")));
}

template <class Choice, std::size_t size>
std::string write_choice(Choice value, const Names<Choice, size>& names) {
  for (const auto& [name, choice] : names) {
    if (value == choice) return name;
  }
  SFT_ENSURE(false, "every choice has a name");
  return {};
}

}  // namespace sft::config
