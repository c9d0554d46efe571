// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models and data sets of the hub that are not in its cache yet.

#include <string>

namespace sft::apps {

/// Whether the text is ORG/NAME, and no path.
[[nodiscard]] bool is_hub_name(const std::string& text);

/// Whether HF_HUB_OFFLINE forbids the network.
[[nodiscard]] bool is_hub_offline();

/// Sees that hub::find_model_folder finds the model: what is neither a folder nor in the cache, and could be a name of
/// the hub, is downloaded by postprocess/fetch.py, which says what it does. Nothing is downloaded with
/// HF_HUB_OFFLINE=1. Throws a data Error that has the reason and the command where it is not there then.
void fetch_model(const std::string& name, const std::string& revision);

/// The same for the files of a data set, which hub::find_dataset_folder finds.
void fetch_dataset(const std::string& name);

}  // namespace sft::apps
