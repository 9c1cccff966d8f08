// Which labels' phrases occur in a text: all phrases at once, in one pass over its words.
//
// A phrase occurs where its words, folded as word_folding.h says, stand one after another in the folded text: whole
// words only, whatever stands between them that is no word. Negations are not understood: "no dispute" has "dispute".
// Threads: immutable after Make. Errors: kInvalidArgument for a phrase without a word, quoting it.
// Source: Aho and Corasick, "Efficient string matching", CACM 18 (1975), over words instead of characters.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"

namespace surety::gateway {

class SignalPhrases {
 public:
  static Result<SignalPhrases> Make(const std::map<std::string, std::vector<std::string>>& phrases_by_label);
  // Labels whose phrases occur, sorted, each once. `words`: by FoldWords.
  std::vector<std::string> LabelsIn(std::span<const std::string> words) const;

 private:
  struct Node {
    std::map<int, int> next;      // by word
    int fail = 0;                 // the longest proper suffix that begins a phrase
    std::vector<int> labels;      // of phrases that end here, those of its suffixes too
  };
  int Step(int node, int word) const;

  std::vector<std::string> labels_;
  std::unordered_map<std::string, int> words_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace surety::gateway
