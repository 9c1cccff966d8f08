#include "model/tokenizer/text_pipeline.h"

#include <cstring>

#include "model/tokenizer/unicode.h"

namespace surety::model {
namespace {

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  size_t at = 0;
  for (size_t hit; (hit = text.find(from, at)) != std::string_view::npos; at = hit + from.size()) {
    out += text.substr(at, hit - at);
    out += to;
  }
  return out += text.substr(at);
}

std::string ReplaceMatches(const Regex& regex, std::string_view text, std::string_view to) {
  std::string out;
  size_t at = 0;
  regex.ForEachMatch(text, [&](size_t begin, size_t end) {
    out += text.substr(at, begin - at);
    out += to;
    at = end;
  });
  return out += text.substr(at);
}

// Calls fn(character, its bytes) over valid UTF-8.
template <typename Fn>
void ForEachChar(std::string_view text, Fn&& fn) {
  for (size_t at = 0; at < text.size();) {
    char32_t c = 0;
    const int length = std::max(1, DecodeUtf8(text, at, c));
    fn(c, text.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length);
  }
}

std::string BertClean(std::string_view text) {
  std::string out;
  ForEachChar(text, [&](char32_t c, std::string_view bytes) {
    if (c == 0 || c == 0xFFFD) return;
    // Tab and line ends are spaces here; the other control characters go, even those that Unicode calls white space.
    if (c == '\t' || c == '\n' || c == '\r' || (IsWhitespace(c) && !IsControl(c))) {
      out += ' ';
    } else if (!IsControl(c)) {
      out += bytes;
    }
  });
  return out;
}

// The CJK blocks that BERT's own tokenizer sets apart.
bool IsIdeograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string SpaceIdeographs(std::string_view text) {
  std::string out;
  ForEachChar(text, [&](char32_t c, std::string_view bytes) {
    if (IsIdeograph(c)) {
      (out += ' ') += bytes;
      out += ' ';
    } else {
      out += bytes;
    }
  });
  return out;
}

std::string DropMarks(std::string_view text) {
  std::string out;
  ForEachChar(text, [&](char32_t c, std::string_view bytes) {
    if (!IsNonspacingMark(c)) out += bytes;
  });
  return out;
}

std::string ApplyCharsmap(const Charsmap& charsmap, std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    std::string_view replacement;
    if (const size_t n = charsmap.Match(text.substr(at), replacement); n > 0) {
      out += replacement;
      at += n;
    } else {
      const auto length = static_cast<size_t>(CharLength(text, at));
      out += text.substr(at, length);
      at += length;
    }
  }
  return out;
}

// The reference asks for the first key found in a grapheme of less than 6 bytes and lets it stand for the whole
// grapheme; otherwise for the first key found in each character.
std::string ApplyCharsmapByGrapheme(const Charsmap& charsmap, std::string_view text) {
  constexpr size_t kLongestGrapheme = 5;
  std::string out;
  for (size_t at = 0, end = 0; at < text.size(); at = end) {
    end = GraphemeEnd(text, at);
    std::string_view replacement;
    if (end - at <= kLongestGrapheme && charsmap.Match(text.substr(at, end - at), replacement, false) > 0) {
      out += replacement;
      continue;
    }
    ForEachChar(text.substr(at, end - at), [&](char32_t, std::string_view bytes) {
      out += charsmap.Match(bytes, replacement, false) > 0 ? replacement : bytes;
    });
  }
  return out;
}

// Words between characters that `separates` says are cut out (kDrop) or words of their own (kAlone).
enum class Cut { kNo, kDrop, kAlone };
template <typename Separates>
void SplitByChar(std::string_view text, Separates&& separates, FunctionRef<void(std::string_view)> fn) {
  size_t start = 0, at = 0;
  ForEachChar(text, [&](char32_t c, std::string_view bytes) {
    const Cut cut = separates(c);
    if (cut != Cut::kNo) {
      if (at > start) fn(text.substr(start, at - start));
      if (cut == Cut::kAlone) fn(bytes);
      start = at + bytes.size();
    }
    at += bytes.size();
  });
  if (text.size() > start) fn(text.substr(start));
}

// Cuts text into runs that match and runs that do not, then joins them as the behaviour says.
void SplitByPattern(const Regex& regex, const PreTokenizer& spec, std::string_view text,
                    FunctionRef<void(std::string_view)> fn) {
  using Behaviour = PreTokenizer::Behaviour;
  size_t pending = 0;  // start of the word being built
  size_t at = 0;       // end of what has been seen
  bool last_matched = false;
  const auto emit = [&](size_t begin, size_t end) {
    if (end > begin) fn(text.substr(begin, end - begin));
  };
  const auto run = [&](size_t begin, size_t end, bool matched) {
    if (begin == end) return;
    switch (spec.behaviour) {
      case Behaviour::kIsolated:
        emit(begin, end);
        break;
      case Behaviour::kRemoved:
        if (!matched) emit(begin, end);
        break;
      case Behaviour::kMergedWithPrevious:
        if (matched) {
          emit(pending, end);
          pending = end;
        } else {
          emit(pending, begin);
          pending = begin;
        }
        break;
      case Behaviour::kMergedWithNext:
        if (matched) {
          emit(pending, begin);
          pending = begin;
        } else {
          emit(pending, end);
          pending = end;
        }
        break;
      case Behaviour::kContiguous:
        if (begin > 0 && matched != last_matched) {
          emit(pending, begin);
          pending = begin;
        }
        break;
    }
    last_matched = matched;
  };
  regex.ForEachMatch(text, [&](size_t begin, size_t end) {
    run(at, begin, spec.invert);
    run(begin, end, !spec.invert);
    at = end;
  });
  run(at, text.size(), spec.invert);
  if (spec.behaviour != Behaviour::kIsolated && spec.behaviour != Behaviour::kRemoved) emit(pending, text.size());
}

}  // namespace

Result<Charsmap> Charsmap::Make(std::string_view blob) {
  Charsmap map;
  if (blob.empty()) return map;
  uint32_t trie_bytes = 0;
  if (blob.size() < 4) return Error(InvalidArgumentError("the precompiled charsmap has fewer than 4 bytes"));
  std::memcpy(&trie_bytes, blob.data(), 4);
  if (trie_bytes % 4 != 0 || trie_bytes > blob.size() - 4) {
    return Error(InvalidArgumentError("the precompiled charsmap states a trie of " + std::to_string(trie_bytes) +
                                      " bytes, but " + std::to_string(blob.size() - 4) + " follow"));
  }
  map.units_.resize(trie_bytes / 4);
  if (trie_bytes > 0) std::memcpy(map.units_.data(), blob.data() + 4, trie_bytes);
  map.strings_ = blob.substr(4 + trie_bytes);
  map.strings_ += '\0';
  return map;
}

size_t Charsmap::Match(std::string_view text, std::string_view& replacement, bool longest) const {
  const auto offset_of = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  size_t best = 0;
  if (units_.empty()) return 0;
  uint32_t at = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    if (byte == 0 || at >= units_.size()) break;
    const uint32_t unit = units_[at];
    if ((unit & ((1u << 31) | 0xFF)) != byte) break;
    at ^= offset_of(unit);
    if (((unit >> 8) & 1) == 0) continue;
    if (at >= units_.size()) break;
    const uint32_t start = units_[at] & 0x7FFFFFFF;
    if (start >= strings_.size()) break;
    replacement = strings_.c_str() + start;
    best = i + 1;
    if (!longest) break;
  }
  return best;
}

Result<TextPipeline> TextPipeline::Make(const TokenizerSpec& spec) {
  TextPipeline pipeline;
  for (const Normaliser& normaliser : spec.normalisers) {
    CompiledNormaliser compiled{normaliser.step, normaliser.pattern, normaliser.text, {}, {}};
    if (normaliser.step == Normaliser::Step::kReplaceRegex) {
      SURETY_ASSIGN_OR_RETURN(compiled.regex, Regex::Make(normaliser.pattern));
    }
    if (normaliser.step == Normaliser::Step::kCharsmap || normaliser.step == Normaliser::Step::kCharsmapByGrapheme) {
      SURETY_ASSIGN_OR_RETURN(compiled.charsmap, Charsmap::Make(normaliser.text));
    }
    pipeline.normalisers_.push_back(std::move(compiled));
  }
  for (const PreTokenizer& pre_tokenizer : spec.pre_tokenizers) {
    CompiledPreTokenizer compiled{pre_tokenizer, {}};
    if (pre_tokenizer.step == PreTokenizer::Step::kSplit) {
      SURETY_ASSIGN_OR_RETURN(compiled.regex, Regex::Make(pre_tokenizer.pattern));
    }
    pipeline.pre_tokenizers_.push_back(std::move(compiled));
  }
  return pipeline;
}

std::string TextPipeline::Normalise(std::string_view piece, PieceAt at) const {
  std::string text(piece);
  for (const CompiledNormaliser& n : normalisers_) {
    using Step = Normaliser::Step;
    switch (n.step) {
      case Step::kPrepend:
        if (!text.empty() && at != PieceAt::kContinues) text.insert(0, n.text);
        break;
      case Step::kReplace:
        text = ReplaceAll(text, n.pattern, n.text);
        break;
      case Step::kReplaceRegex:
        text = ReplaceMatches(n.regex, text, n.text);
        break;
      case Step::kNfc:
        text = model::Normalise(text, NormalForm::kNfc);
        break;
      case Step::kNfd:
        text = model::Normalise(text, NormalForm::kNfd);
        break;
      case Step::kNfkc:
        text = model::Normalise(text, NormalForm::kNfkc);
        break;
      case Step::kNfkd:
        text = model::Normalise(text, NormalForm::kNfkd);
        break;
      case Step::kLowercase:
        text = Lowercase(text);
        break;
      case Step::kStripAccents:
        text = DropMarks(text);
        break;
      case Step::kStripLeft:
        text = std::string(StripSpaces(text, true, false));
        break;
      case Step::kStripRight:
        text = std::string(StripSpaces(text, false, true));
        break;
      case Step::kBertClean:
        text = BertClean(text);
        break;
      case Step::kBertChinese:
        text = SpaceIdeographs(text);
        break;
      case Step::kCharsmap:
        text = ApplyCharsmap(n.charsmap, text);
        break;
      case Step::kCharsmapByGrapheme:
        text = ApplyCharsmapByGrapheme(n.charsmap, text);
        break;
    }
  }
  return text;
}

void TextPipeline::PreTokenise(std::string_view piece, PieceAt at, FunctionRef<void(std::string_view)> fn) const {
  if (!piece.empty()) Apply(0, piece, at, fn);
}

void TextPipeline::Apply(size_t step, std::string_view piece, PieceAt at,
                         FunctionRef<void(std::string_view)> fn) const {
  if (step == pre_tokenizers_.size()) {
    fn(piece);
    return;
  }
  const auto next = [&](std::string_view word) {
    Apply(step + 1, word, word.data() == piece.data() ? at : PieceAt::kBehind, fn);
  };
  const PreTokenizer& spec = pre_tokenizers_[step].spec;
  using Step = PreTokenizer::Step;
  switch (spec.step) {
    case Step::kSplit:
      SplitByPattern(pre_tokenizers_[step].regex, spec, piece, next);
      return;
    case Step::kDigits:
      SplitByChar(
          piece, [](char32_t c) { return IsDigit(c) ? Cut::kAlone : Cut::kNo; }, next);
      return;
    case Step::kDigitRuns: {
      static const Regex runs = *Regex::Make("\\p{N}+");
      SplitByPattern(runs, {.step = Step::kSplit, .pattern = {}}, piece, next);
      return;
    }
    case Step::kPunctuation:
    case Step::kBert:
    case Step::kWhitespaceSplit: {
      const bool drop = spec.step != Step::kPunctuation, alone = spec.step != Step::kWhitespaceSplit;
      const auto cut = [drop, alone](char32_t c) {
        if (drop && IsWhitespace(c)) return Cut::kDrop;
        const bool ascii =
            (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
        return alone && (ascii || IsPunctuation(c)) ? Cut::kAlone : Cut::kNo;
      };
      SplitByChar(piece, cut, next);
      return;
    }
    case Step::kByteLevel:
      if (spec.prefix_space && piece[0] != ' ' && at != PieceAt::kContinues) {
        next(" " + std::string(piece));
      } else {
        next(piece);
      }
      return;
    case Step::kMetaspace: {
      std::string text = ReplaceAll(piece, " ", kMetaspaceText);
      const bool wanted = (spec.prepend == PreTokenizer::Prepend::kAlways && at != PieceAt::kContinues) ||
                          (spec.prepend == PreTokenizer::Prepend::kFirst && at == PieceAt::kStart);
      if (wanted && !text.starts_with(kMetaspaceText)) text.insert(0, kMetaspaceText);
      if (!spec.split) {
        next(text);
        return;
      }
      for (size_t start = 0; start < text.size();) {
        const size_t end = std::min(text.size(), text.find(kMetaspaceText, start + 1));
        next(std::string_view(text).substr(start, end - start));
        start = end;
      }
      return;
    }
  }
}

}  // namespace surety::model
