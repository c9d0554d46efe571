// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_rows.hpp"

namespace sft::config {

std::vector<ForeignRow> foreign_rows_of_prepare() {
  const char* const omit = "leave it out";
  const char* const files = "sft-prepare reads files of records";
  const char* const fetch =
      "download it with `postprocess/fetch.py dataset NAME --output FILE.jsonl` and give --input FILE.jsonl";
  return {
      {"max_seq_length model_max_length", {{"*", "max_length=*"}}, "", ""},
      {"tokenizer_name tokenizer_name_or_path", {{"none", ""}, {"*", "tokenizer=*"}}, "", ""},
      {"data_files train_file", {{"*", "input=*"}}, "", ""},
      {"train_files", nothing, "its name is input", "give --input FILE, once for each"},
      {"strategy", {{"*", "packing_strategy=*"}}, "", ""},
      {"test_split_size", {{"none", ""}, {"*", "eval_split=*"}}, "", ""},
      {"padding_free", either, "padding is never computed", omit},
      {"eval_packing", only_none, "each call packs its files in one way",
       "prepare the files for evaluation in a call of their own, with --packing true or false"},
      {"dataset_kwargs", only_none, "records of token ids are taken as they are without it",
       "leave it out; --packing false --max_length none keeps their lengths, too"},
      {"dataset_batch_size",
       {{"1000", ""}, {"none", ""}},
       "documents are packed in blocks of 1000, as TRL 1.16 does it",
       "leave it out, or give --packing_scope all"},
      {"dataset_streaming streaming", either,
       "records pass through memory one by one anyway, and rows are in random order unless data.shuffle = false",
       "write true or false"},
      {"dataset_name dataset_path path name", nothing, files, fetch},
      {"dataset_train_split", {{"*", "split=*"}}, "", ""},
      {"dataset_config_name", {{"none", ""}, {"*", "dataset_config=*"}}, "", ""},
      {"dataset_test_split revision", nothing, files,
       "give --split NAME with --input FOLDER; `postprocess/fetch.py dataset NAME --revision NAME` downloads another"},
      {"datasets dataset train_dataset data_dir eval_dataset", nothing, files,
       "give --input FILE, once for each; --input_weight mixes them"},
      {"fraction", nothing, "several inputs are mixed by weights", "give --input_weight, once for each --input"},
      {"columns", nothing, "the fields of a record are known by their names",
       "give --dataset_text_field for plain text"},
      {"num_of_sequences chars_per_token", anything, "rows are always full", omit},
      {"formatting_func processing_class data_collator", nothing, "records have one of the shapes in --help",
       "write such records, or the text itself with a field text"},
      {"trust_remote_code", either, "no foreign code is run", omit},
      {"output_dir", nothing, "the folder of a run is another than that of its data", "write --output FOLDER"},
      {"tools", nothing, "tools are a field of a record", "write them into the records"},
  };
}

}  // namespace sft::config
