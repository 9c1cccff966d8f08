// Texts with a label each, from CSV with a header or from JSONL, for surety train-router.
//
// Threads: any; values. Errors: kInvalidArgument with path and line: an absent column (with those that are there), a
// row without text or label; those of csv_table.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace surety::cli {

struct LabelledText {
  std::string text, label;
  int line = 0;
};

struct LabelledColumns {
  std::string text = "text", label = "category";
};

// `path` decides the form: JSONL if it ends in .jsonl or .json, else CSV.
Result<std::vector<LabelledText>> ParseLabelledTexts(std::string_view contents, const std::string& path,
                                                     const LabelledColumns& columns);
Result<std::vector<LabelledText>> ReadLabelledTexts(FileSystem& files, const std::string& path,
                                                    const LabelledColumns& columns);
// SHA-256, hex, over all texts and labels in their order, each with its length in front.
std::string DigestOfTexts(const std::vector<LabelledText>& texts);

}  // namespace surety::cli
