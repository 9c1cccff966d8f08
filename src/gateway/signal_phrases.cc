#include "gateway/signal_phrases.h"

#include <algorithm>
#include <deque>
#include <set>

#include <fmt/format.h>

#include "gateway/word_folding.h"

namespace surety::gateway {

Result<SignalPhrases> SignalPhrases::Make(const std::map<std::string, std::vector<std::string>>& phrases_by_label) {
  SignalPhrases matcher;
  for (const auto& [label, phrases] : phrases_by_label) {
    matcher.labels_.push_back(label);
    for (const std::string& phrase : phrases) {
      const std::vector<std::string> words = FoldWords(phrase);
      if (words.empty()) return Error(InvalidArgumentError(fmt::format("the phrase \"{}\" has no word in it", phrase)));
      int node = 0;
      for (const std::string& word : words) {
        const int id = matcher.words_.try_emplace(word, static_cast<int>(matcher.words_.size())).first->second;
        const int fresh = static_cast<int>(matcher.nodes_.size());
        const auto [edge, added] = matcher.nodes_[node].next.try_emplace(id, fresh);
        node = edge->second;
        if (added) matcher.nodes_.emplace_back();
      }
      matcher.nodes_[node].labels.push_back(static_cast<int>(matcher.labels_.size()) - 1);
    }
  }
  std::deque<int> open;
  for (const auto& [word, child] : matcher.nodes_[0].next) open.push_back(child);
  while (!open.empty()) {   // by depth, so that what a node falls back to is complete
    const int node = open.front();
    open.pop_front();
    for (const auto& [word, child] : matcher.nodes_[node].next) {
      const int fail = matcher.Step(matcher.nodes_[node].fail, word);
      matcher.nodes_[child].fail = fail;
      auto& labels = matcher.nodes_[child].labels;
      labels.insert(labels.end(), matcher.nodes_[fail].labels.begin(), matcher.nodes_[fail].labels.end());
      std::ranges::sort(labels);
      labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
      open.push_back(child);
    }
  }
  return matcher;
}

int SignalPhrases::Step(int node, int word) const {
  for (;; node = nodes_[node].fail) {
    if (const auto edge = nodes_[node].next.find(word); edge != nodes_[node].next.end()) return edge->second;
    if (node == 0) return 0;
  }
}

std::vector<std::string> SignalPhrases::LabelsIn(std::span<const std::string> words) const {
  std::set<int> found;
  int node = 0;
  for (const std::string& word : words) {
    const auto known = words_.find(word);
    node = known == words_.end() ? 0 : Step(node, known->second);
    found.insert(nodes_[node].labels.begin(), nodes_[node].labels.end());
  }
  std::vector<std::string> labels;
  for (const int label : found) labels.push_back(labels_[label]);
  return labels;
}

}  // namespace surety::gateway
