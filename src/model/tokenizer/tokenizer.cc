#include "model/tokenizer/tokenizer.h"

#include <algorithm>

#include "model/tokenizer/text_pipeline.h"
#include "model/tokenizer/text_table.h"
#include "model/tokenizer/token_matcher.h"
#include "model/tokenizer/unicode.h"
#include "model/tokenizer/word_model.h"

namespace surety::model {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string ReplaceAllIn(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The spacing rules that WordPiece decoders apply to each piece.
std::string CleanUpSpaces(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = ReplaceAllIn(std::move(text), from, to);
  return text;
}

constexpr size_t kMaxTextBytes = size_t{1} << 31;  // a TextTable counts in 32 bits

class TokenizerImpl final : public Tokenizer {
 public:
  explicit TokenizerImpl(TokenizerSpec spec) : spec_(std::move(spec)) {}

  Status Build() {
    if (spec_.tokens.empty()) return InvalidArgumentError("the vocabulary is empty");
    size_t text_bytes = 0;
    for (const std::string& token : spec_.tokens) text_bytes += token.size() + 1;
    if (text_bytes > kMaxTextBytes) {
      return InvalidArgumentError("the vocabulary's texts have " + std::to_string(text_bytes) + " bytes; at most " +
                                  std::to_string(kMaxTextBytes) + " are possible");
    }
    SURETY_RETURN_IF_ERROR(CheckIds());
    SURETY_ASSIGN_OR_RETURN(pipeline_, TextPipeline::Make(spec_));
    switch (spec_.kind) {
      case TokenizerKind::kByteBpe:
      case TokenizerKind::kCharBpe: {
        SURETY_ASSIGN_OR_RETURN(model_, MakeRankedBpe(spec_));
        break;
      }
      case TokenizerKind::kSentencePieceBpe: {
        SURETY_ASSIGN_OR_RETURN(model_, MakeScoredBpe(spec_));
        break;
      }
      case TokenizerKind::kUnigram: {
        SURETY_ASSIGN_OR_RETURN(model_, MakeUnigram(spec_));
        break;
      }
      case TokenizerKind::kWordPiece: {
        SURETY_ASSIGN_OR_RETURN(model_, MakeWordPiece(spec_));
        break;
      }
    }
    control_.assign(spec_.tokens.size(), false);
    std::vector<bool> is_added(spec_.tokens.size(), false);
    for (const AddedToken& token : spec_.added) {
      is_added[static_cast<size_t>(token.id)] = true;
      if (token.special) control_[static_cast<size_t>(token.id)] = true;
      (token.normalised && !token.special ? normalised_matcher_ : raw_matcher_).Add(token);
    }
    MakeTokenBytes(is_added);
    // The working tables hold what is needed; the merges' text alone would take tens of megabytes.
    spec_.merges = {};
    spec_.scores = {};
    return OkStatus();
  }

  std::vector<TokenId> Encode(std::span<const TextSegment> segments, const EncodeOptions& options) const override {
    std::string text;
    std::vector<std::pair<size_t, size_t>> trusted;  // byte ranges, joined where they touch
    for (const TextSegment& segment : segments) {
      if (segment.trusted && !segment.text.empty()) {
        if (!trusted.empty() && trusted.back().second == text.size()) {
          trusted.back().second += segment.text.size();
        } else {
          trusted.emplace_back(text.size(), text.size() + segment.text.size());
        }
      }
      text += segment.text;
    }
    std::vector<TokenId> ids;
    ids.reserve(text.size() / 3 + 4);
    if (options.add_special) ids = spec_.prefix;
    EncodeText(text, trusted, options.continues ? PieceAt::kContinues : PieceAt::kStart, ids);
    if (options.add_special) ids.insert(ids.end(), spec_.suffix.begin(), spec_.suffix.end());
    return ids;
  }

  std::string_view TokenBytes(TokenId id) const override {
    return IsControl(id) ? std::string_view() : bytes_[static_cast<size_t>(id)];
  }
  std::string_view TokenText(TokenId id) const override {
    return IsControl(id) ? std::string_view(spec_.tokens[static_cast<size_t>(id)])
                         : bytes_[static_cast<size_t>(id)];
  }
  bool IsControl(TokenId id) const override { return control_[static_cast<size_t>(id)]; }
  bool StripsLeadingSpace() const override {
    return spec_.strip_leading_space || spec_.decoding == Decoding::kWordPiece;
  }
  const TokenizerSpec& spec() const override { return spec_; }
  bool IsEndOfText(TokenId id) const override {
    return id == spec_.eos ||
           std::find(spec_.end_of_turn.begin(), spec_.end_of_turn.end(), id) != spec_.end_of_turn.end();
  }

 private:
  Status CheckIds() const {
    const auto n = static_cast<TokenId>(spec_.tokens.size());
    const auto check = [n](std::string_view what, TokenId id, TokenId lowest) {
      if (id >= lowest && id < n) return OkStatus();
      return InvalidArgumentError(std::string(what) + " is " + std::to_string(id) +
                                  ", but the vocabulary has ids 0 to " + std::to_string(n - 1));
    };
    SURETY_RETURN_IF_ERROR(check("the BOS id", spec_.bos, -1));
    SURETY_RETURN_IF_ERROR(check("the EOS id", spec_.eos, -1));
    SURETY_RETURN_IF_ERROR(check("the unknown token's id", spec_.unk, -1));
    SURETY_RETURN_IF_ERROR(check("the padding id", spec_.pad, -1));
    for (TokenId id : spec_.end_of_turn) SURETY_RETURN_IF_ERROR(check("an end-of-turn id", id, 0));
    for (TokenId id : spec_.prefix) SURETY_RETURN_IF_ERROR(check("an id put before the text", id, 0));
    for (TokenId id : spec_.suffix) SURETY_RETURN_IF_ERROR(check("an id put after the text", id, 0));
    for (const AddedToken& token : spec_.added) {
      SURETY_RETURN_IF_ERROR(check("the id of added token '" + token.text + "'", token.id, 0));
    }
    return OkStatus();
  }

  void MakeTokenBytes(const std::vector<bool>& is_added) {
    std::string out;
    for (size_t i = 0; i < spec_.tokens.size(); ++i) {
      const std::string& token = spec_.tokens[i];
      const bool is_byte =
          !spec_.byte_tokens.empty() ? spec_.byte_tokens[i] : spec_.byte_fallback && ByteOfToken(token) >= 0;
      switch (spec_.decoding) {
        case Decoding::kByteLevel:
          if (is_added[i] || !LettersToBytes(token, out)) out = token;
          break;
        case Decoding::kSentencePiece:
          if (is_byte) {
            out.assign(1, static_cast<char>(ByteOfToken(token)));
          } else {
            out = ReplaceAllIn(token, kMetaspaceText, " ");
          }
          break;
        case Decoding::kWordPiece:
          out = token.starts_with(spec_.continuing_prefix) && !spec_.continuing_prefix.empty()
                    ? token.substr(spec_.continuing_prefix.size())
                    : " " + token;
          if (spec_.clean_up_spaces) out = CleanUpSpaces(std::move(out));
          break;
        case Decoding::kPlain:
          out = token;
          break;
      }
      bytes_.Add(out);
    }
    bytes_.Finish();
  }

  // Cuts special and other added tokens out of raw text, encodes what lies between.
  void EncodeText(std::string_view text, const std::vector<std::pair<size_t, size_t>>& trusted,
                  PieceAt begin, std::vector<TokenId>& ids) const {
    size_t start = 0;
    size_t range = 0;
    const auto accept = [&](size_t at) {
      return [&, at](const AddedToken& token, size_t end) {
        if (token.single_word && !StandsAlone(text, at, end)) return false;
        if (!token.special) return true;
        return range < trusted.size() && at >= trusted[range].first && end <= trusted[range].second;
      };
    };
    for (size_t at = 0; at < text.size() && !raw_matcher_.empty();) {
      while (range < trusted.size() && trusted[range].second <= at) ++range;
      const AddedToken* token = raw_matcher_.MayStart(text[at]) ? raw_matcher_.Match(text, at, accept(at)) : nullptr;
      if (token == nullptr) {
        ++at;
        continue;
      }
      size_t piece_end = at;
      at += token->text.size();
      if (token->lstrip) {
        piece_end = start + StripSpaces(text.substr(start, piece_end - start), false, true).size();
      }
      if (token->rstrip) {
        at = text.size() - StripSpaces(text.substr(at), true, false).size();
      }
      EncodePiece(text.substr(start, piece_end - start), start == 0 ? begin : PieceAt::kBehind, ids);
      ids.push_back(token->id);
      start = at;
    }
    EncodePiece(text.substr(start), start == 0 ? begin : PieceAt::kBehind, ids);
  }

  static bool StandsAlone(std::string_view text, size_t begin, size_t end) {
    char32_t c = 0;
    if (end < text.size() && DecodeUtf8(text, end, c) > 0 && IsWordChar(c)) return false;
    if (begin == 0) return true;
    size_t before = begin - 1;
    while (before > 0 && (static_cast<uint8_t>(text[before]) & 0xC0) == 0x80) --before;
    return !(DecodeUtf8(text, before, c) > 0 && IsWordChar(c));
  }

  // A piece without special tokens. Bytes that are not UTF-8: words of their own where the model takes bytes.
  void EncodePiece(std::string_view piece, PieceAt place, std::vector<TokenId>& ids) const {
    if (piece.empty()) return;
    if (IsValidUtf8(piece)) {
      EncodeValid(piece, place, ids);
      return;
    }
    if (spec_.kind != TokenizerKind::kByteBpe) {
      EncodeValid(ReplaceInvalidUtf8(piece), place, ids);
      return;
    }
    size_t start = 0;
    char32_t c;
    for (size_t at = 0; at < piece.size();) {
      const int length = DecodeUtf8(piece, at, c);
      if (length == 0) {
        EncodeValid(piece.substr(start, at - start), start == 0 ? place : PieceAt::kBehind, ids);
        model_->Encode(piece.substr(at, 1), ids);
        start = ++at;
      } else {
        at += static_cast<size_t>(length);
      }
    }
    EncodeValid(piece.substr(start), start == 0 ? place : PieceAt::kBehind, ids);
  }

  void EncodeValid(std::string_view piece, PieceAt place, std::vector<TokenId>& ids) const {
    if (piece.empty()) return;
    const std::string text = pipeline_.Normalise(piece, place);
    const auto encode_words = [&](std::string_view part, PieceAt part_at) {
      pipeline_.PreTokenise(part, part_at, [&](std::string_view word) { model_->Encode(word, ids); });
    };
    size_t start = 0;
    for (size_t at = 0; at < text.size() && !normalised_matcher_.empty();) {
      const auto accept = [&](const AddedToken& token, size_t end) {
        return !token.single_word || StandsAlone(text, at, end);
      };
      const AddedToken* token =
          normalised_matcher_.MayStart(text[at]) ? normalised_matcher_.Match(text, at, accept) : nullptr;
      if (token == nullptr) {
        ++at;
        continue;
      }
      encode_words(std::string_view(text).substr(start, at - start), start == 0 ? place : PieceAt::kBehind);
      ids.push_back(token->id);
      start = at += token->text.size();
    }
    encode_words(std::string_view(text).substr(start), start == 0 ? place : PieceAt::kBehind);
  }

  TokenizerSpec spec_;
  TextPipeline pipeline_;
  std::unique_ptr<WordModel> model_;
  TokenMatcher raw_matcher_, normalised_matcher_;
  std::vector<bool> control_;
  TextTable bytes_;
};

}  // namespace

std::string_view NameOf(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::kByteBpe:
      return "byte-level BPE";
    case TokenizerKind::kCharBpe:
      return "BPE";
    case TokenizerKind::kSentencePieceBpe:
      return "SentencePiece BPE";
    case TokenizerKind::kUnigram:
      return "unigram";
    case TokenizerKind::kWordPiece:
      return "WordPiece";
  }
  return "?";
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Make(TokenizerSpec spec) {
  const std::string source = spec.source;
  auto tokenizer = std::make_unique<TokenizerImpl>(std::move(spec));
  if (const Status status = tokenizer->Build(); !status.ok())
    return Error(status.WithContext("tokenizer (" + source + ")"));
  return tokenizer;
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, bool trusted, const EncodeOptions& options) const {
  const TextSegment segment = {std::string(text), trusted};
  return Encode({&segment, 1}, options);
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool show_control) const {
  IncrementalDecoder decoder(*this, show_control);
  std::string text;
  for (TokenId id : ids) text += decoder.Push(id);
  return text += decoder.Finish();
}

std::string IncrementalDecoder::Push(TokenId id) {
  if (tokenizer_.IsControl(id) && !show_control_) return {};
  std::string_view bytes = tokenizer_.IsControl(id) ? tokenizer_.TokenText(id) : tokenizer_.TokenBytes(id);
  const bool starts_text = first_ && !bytes.empty();
  if (starts_text) first_ = false;
  if (starts_text && tokenizer_.StripsLeadingSpace() && bytes.starts_with(' ')) bytes.remove_prefix(1);
  held_ += bytes;
  const size_t unfinished = UnfinishedTail(held_);
  std::string text = ReplaceInvalidUtf8(std::string_view(held_).substr(0, held_.size() - unfinished));
  held_.erase(0, held_.size() - unfinished);
  return text;
}

std::string IncrementalDecoder::Finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacement);
}

}  // namespace surety::model
