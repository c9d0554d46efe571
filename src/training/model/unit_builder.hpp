// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parameters of a model, as its layers declare them one after the other. Pure.

#include <string>
#include <vector>

#include "sft/model/architecture.hpp"
#include "sft/model/linear/adapter_names.hpp"
#include "sft/model/linear/parameters.hpp"

namespace sft::model {

/// Adds units to an architecture, and parameters to the last of them, and says where they went.
class UnitBuilder {
 public:
  /// Like make_architecture(); all references outlive it.
  UnitBuilder(Architecture& architecture, const config::Model& model, const IsTrainable& is_trainable,
              const config::Lora& lora, bool cuts_tokens, SentTiles sends_fp8);

  void begin(const std::string& name);
  /// The number of the last unit.
  [[nodiscard]] parallel::UnitIndex unit() const { return names_.last(); }

  /// A parameter in the part that is like `part`, whose units are empty; the part joins the list with its first
  /// parameter.
  parallel::ParameterGroup add(std::string name, const Shape& shape, const parallel::PartUnits& part);
  /// A parameter that is trained if IsTrainable says so, or if the run trains a copy of its module (Lora::saves).
  parallel::ParameterGroup matrix(std::string name, const Shape& shape);
  /// Such a parameter with the initial value `init`.
  parallel::ParameterGroup vector(std::string name, const Shape& shape, parallel::Init init);
  /// The weight of a norm of the residual stream.
  parallel::ParameterGroup norm(std::string name, std::int64_t size);
  /// A vector that is no parameter to train, and that ops read as float32.
  parallel::ParameterGroup constant(std::string name, std::int64_t size);

  /// `group` with the parameter that was added last, which ops use as one with it; that one where `group` is none.
  parallel::ParameterGroup fuse(parallel::ParameterGroup group, const parallel::ParameterGroup& last);
  /// The first parameter of a group of the last unit, for what the functions above leave as it is.
  [[nodiscard]] parallel::Parameter& parameter(const parallel::ParameterGroup& group);

  [[nodiscard]] bool is_trained(const std::string& name) const { return is_trainable_(name); }
  /// The initial value of weights of norms.
  [[nodiscard]] parallel::Init norm_init() const { return norm_init_; }
  [[nodiscard]] const config::Lora& lora() const { return lora_; }
  /// PartUnits::in_fp8 of what products in fp8 read.
  [[nodiscard]] SentTiles sends_fp8() const { return sends_fp8_; }

 private:
  [[nodiscard]] parallel::PartIndex part_like(const parallel::PartUnits& part);

  IndexedVector<parallel::PartIndex, parallel::PartUnits>& parts_;
  IndexedVector<parallel::UnitIndex, std::string> names_;  ///< of the units so far
  const IsTrainable& is_trainable_;
  const config::Lora& lora_;
  SentTiles sends_fp8_;
  parallel::TpSplit norm_split_;
  parallel::Init norm_init_;
};

}  // namespace sft::model
