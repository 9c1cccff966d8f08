// TokenizerSpec from GGUF metadata.
#include <algorithm>
#include <string>

#include "model/tokenizer/pattern_scan.h"
#include "model/tokenizer/tokenizer_loaders.h"
#include "model/tokenizer/unicode.h"
#include "model/tokenizer/word_model.h"

namespace surety::model {
namespace {

// GGUF's token classes.
enum TokenClass { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

constexpr const char* kDeepSeekCjkPattern =
    "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+";
constexpr const char* kDeepSeekPattern =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kTekkenPattern =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

PreTokenizer Split(const char* pattern) { return {.step = PreTokenizer::Step::kSplit, .pattern = pattern}; }

class GgufTokenizerReader {
 public:
  explicit GgufTokenizerReader(const GgufFile& file) : file_(file) {}

  Result<TokenizerSpec> Read() {
    SURETY_ASSIGN_OR_RETURN(const std::string_view model, file_.String(Key("model")));
    spec_.source = "gguf " + std::string(model);
    SURETY_RETURN_IF_ERROR(ReadTokens());
    SURETY_RETURN_IF_ERROR(ReadIds());
    if (model == "gpt2") {
      SURETY_RETURN_IF_ERROR(ReadByteBpe());
    } else if (model == "llama") {
      SURETY_RETURN_IF_ERROR(ReadSentencePiece(TokenizerKind::kSentencePieceBpe));
    } else if (model == "t5") {
      SURETY_RETURN_IF_ERROR(ReadSentencePiece(TokenizerKind::kUnigram));
    } else if (model == "bert") {
      SURETY_RETURN_IF_ERROR(ReadWordPiece());
    } else {
      return Error(UnimplementedError("tokenizer.ggml.model is '" + std::string(model) +
                                      "'; known are gpt2, llama, t5 and bert"));
    }
    AddTokens();
    SURETY_RETURN_IF_ERROR(ReadAffixes());
    return std::move(spec_);
  }

 private:
  static std::string Key(const char* name) { return std::string("tokenizer.ggml.") + name; }

  Status ReadTokens() {
    SURETY_ASSIGN_OR_RETURN(const GgufArray* tokens, file_.Array(Key("tokens")));
    for (const GgufScalar& value : tokens->Values()) {
      const auto* text = std::get_if<std::string_view>(&value);
      if (text == nullptr) return InvalidArgumentError("tokenizer.ggml.tokens must be an array of strings");
      spec_.tokens.emplace_back(*text);
    }
    classes_.assign(spec_.tokens.size(), kNormal);
    if (file_.Find(Key("token_type")) == nullptr) return OkStatus();
    SURETY_ASSIGN_OR_RETURN(const GgufArray* types, file_.Array(Key("token_type")));
    if (types->size != spec_.tokens.size()) {
      return InvalidArgumentError("tokenizer.ggml.token_type has " + std::to_string(types->size) +
                                  " entries, but there are " + std::to_string(spec_.tokens.size()) + " tokens");
    }
    const std::vector<GgufScalar> type_of = types->Values();
    for (size_t i = 0; i < classes_.size(); ++i) {
      classes_[i] = static_cast<int>(Integer(type_of[i]));
      if (classes_[i] == kByte && ByteOfToken(spec_.tokens[i]) < 0) {
        return InvalidArgumentError("token " + std::to_string(i) + " '" + spec_.tokens[i] +
                                    "' is marked as a byte, but is not of the form <0xHH>");
      }
    }
    return OkStatus();
  }

  static int64_t Integer(const GgufScalar& value) {
    if (const auto* u = std::get_if<uint64_t>(&value)) return static_cast<int64_t>(*u);
    if (const auto* i = std::get_if<int64_t>(&value)) return *i;
    return -1;
  }

  Status ReadId(const char* name, TokenId& id) {
    if (file_.Find(Key(name)) == nullptr) return OkStatus();
    SURETY_ASSIGN_OR_RETURN(const int64_t value, file_.Int(Key(name)));
    if (value < 0 || value >= static_cast<int64_t>(spec_.tokens.size())) {
      return InvalidArgumentError(Key(name) + " is " + std::to_string(value) + ", but the vocabulary has ids 0 to " +
                                  std::to_string(spec_.tokens.size() - 1));
    }
    id = static_cast<TokenId>(value);
    return OkStatus();
  }

  Status ReadIds() {
    SURETY_RETURN_IF_ERROR(ReadId("bos_token_id", spec_.bos));
    SURETY_RETURN_IF_ERROR(ReadId("eos_token_id", spec_.eos));
    SURETY_RETURN_IF_ERROR(ReadId("unknown_token_id", spec_.unk));
    SURETY_RETURN_IF_ERROR(ReadId("padding_token_id", spec_.pad));
    for (const char* name : {"eot_token_id", "eom_token_id"}) {
      TokenId id = -1;
      SURETY_RETURN_IF_ERROR(ReadId(name, id));
      if (id >= 0) spec_.end_of_turn.push_back(id);
    }
    // Control tokens by which published templates end a turn, for files that name only one end.
    for (size_t i = 0; i < spec_.tokens.size(); ++i) {
      if (classes_[i] != kControl) continue;
      for (const char* name :
           {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end_of_text|>", "<|endoftext|>", "<|end|>"}) {
        if (spec_.tokens[i] == name) spec_.end_of_turn.push_back(static_cast<TokenId>(i));
      }
    }
    return OkStatus();
  }

  // The names that converters give to published pipelines; each stands for the normaliser too.
  Status SetPreTokenizers(const std::string& pre) {
    const auto is = [&pre](std::initializer_list<const char*> names) {
      return std::find(names.begin(), names.end(), pre) != names.end();
    };
    const PreTokenizer digits = {.step = PreTokenizer::Step::kDigits, .pattern = {}};
    if (pre == "qwen2") {
      spec_.normalisers.push_back({Normaliser::Step::kNfc, {}, {}});
      spec_.pre_tokenizers = {Split(kQwen2Pattern)};
    } else if (is({"llama-bpe", "llama3", "llama-v3"})) {
      spec_.pre_tokenizers = {Split(kLlama3Pattern)};
      spec_.ignore_merges = true;
    } else if (is({"smollm", "starcoder", "refact", "command-r", "codeshell"})) {
      spec_.pre_tokenizers = {digits, Split(kGpt2Pattern)};
    } else if (pre == "deepseek-v3") {
      spec_.pre_tokenizers = {Split("\\p{N}{1,3}"), Split(kDeepSeekCjkPattern), Split(kDeepSeekPattern)};
    } else if (pre == "tekken") {
      spec_.pre_tokenizers = {Split(kTekkenPattern)};
      spec_.ignore_merges = true;
    } else if (is({"gpt-2", "phi-2", "default"})) {
      spec_.pre_tokenizers = {Split(kGpt2Pattern)};
    } else {
      return UnimplementedError(
          "tokenizer.ggml.pre is '" + pre +
          "'; known are gpt-2, llama-bpe, qwen2, smollm, starcoder, command-r, deepseek-v3, tekken "
          "and default");
    }
    return OkStatus();
  }

  Status ReadByteBpe() {
    spec_.kind = TokenizerKind::kByteBpe;
    spec_.decoding = Decoding::kByteLevel;
    std::string pre = "default";
    if (file_.Find(Key("pre")) != nullptr) {
      SURETY_ASSIGN_OR_RETURN(const std::string_view name, file_.String(Key("pre")));
      pre = name;
    }
    spec_.source += "/" + pre;
    SURETY_RETURN_IF_ERROR(SetPreTokenizers(pre));
    SURETY_ASSIGN_OR_RETURN(const GgufArray* merges, file_.Array(Key("merges")));
    const std::vector<GgufScalar> pairs = merges->Values();
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto* text = std::get_if<std::string_view>(&pairs[i]);
      const size_t space = text == nullptr ? std::string_view::npos : text->find(' ', 1);
      if (space == std::string_view::npos) {
        return InvalidArgumentError("tokenizer.ggml.merges[" + std::to_string(i) +
                                    "] is not two tokens with a space "
                                    "between them");
      }
      spec_.merges.emplace_back(std::string(text->substr(0, space)), std::string(text->substr(space + 1)));
    }
    return OkStatus();
  }

  Status ReadSentencePiece(TokenizerKind kind) {
    spec_.kind = kind;
    spec_.decoding = Decoding::kSentencePiece;
    spec_.byte_fallback = true;
    spec_.fuse_unknown = true;
    SURETY_ASSIGN_OR_RETURN(const GgufArray* scores, file_.Array(Key("scores")));
    for (const GgufScalar& value : scores->Values()) {
      const auto* score = std::get_if<double>(&value);
      spec_.scores.push_back(score == nullptr ? 0.0 : *score);
    }
    bool prefix_space = true;
    if (file_.Find(Key("add_space_prefix")) != nullptr) {
      SURETY_ASSIGN_OR_RETURN(prefix_space, file_.Bool(Key("add_space_prefix")));
    }
    if (file_.Find(Key("precompiled_charsmap")) != nullptr) {
      SURETY_ASSIGN_OR_RETURN(const GgufArray* bytes, file_.Array(Key("precompiled_charsmap")));
      std::string blob;
      for (const GgufScalar& value : bytes->Values()) blob += static_cast<char>(Integer(value));
      spec_.normalisers.push_back({Normaliser::Step::kCharsmap, {}, blob});
    }
    if (file_.Find(Key("remove_extra_whitespaces")) != nullptr) {
      SURETY_ASSIGN_OR_RETURN(const bool remove, file_.Bool(Key("remove_extra_whitespaces")));
      if (remove) {
        spec_.normalisers.push_back({Normaliser::Step::kStripLeft, {}, {}});
        spec_.normalisers.push_back({Normaliser::Step::kStripRight, {}, {}});
        spec_.normalisers.push_back({Normaliser::Step::kReplaceRegex, " {2,}", " "});
      }
    }
    if (prefix_space) spec_.normalisers.push_back({Normaliser::Step::kPrepend, {}, std::string(kMetaspaceText)});
    spec_.normalisers.push_back({Normaliser::Step::kReplace, " ", std::string(kMetaspaceText)});
    spec_.strip_leading_space = prefix_space;
    return OkStatus();
  }

  // GGUF turns WordPiece's marks round: word starts carry U+2581, continuations nothing.
  Status ReadWordPiece() {
    spec_.kind = TokenizerKind::kWordPiece;
    spec_.decoding = Decoding::kWordPiece;
    spec_.continuing_prefix = "##";
    spec_.clean_up_spaces = true;
    for (size_t i = 0; i < spec_.tokens.size(); ++i) {
      std::string& token = spec_.tokens[i];
      if (token.starts_with(kMetaspaceText)) {
        token.erase(0, kMetaspaceText.size());
      } else if (classes_[i] == kNormal && !(token.starts_with('[') && token.ends_with(']'))) {
        token.insert(0, "##");
      }
      if (token == "[UNK]") spec_.unk = static_cast<TokenId>(i);
    }
    spec_.normalisers = {{Normaliser::Step::kBertClean, {}, {}},
                         {Normaliser::Step::kBertChinese, {}, {}},
                         {Normaliser::Step::kNfd, {}, {}},
                         {Normaliser::Step::kStripAccents, {}, {}},
                         {Normaliser::Step::kLowercase, {}, {}}};
    spec_.pre_tokenizers = {{.step = PreTokenizer::Step::kBert, .pattern = {}}};
    return OkStatus();
  }

  void AddTokens() {
    const bool sentence_piece = spec_.decoding == Decoding::kSentencePiece;
    spec_.unusable.assign(spec_.tokens.size(), false);
    if (sentence_piece) spec_.byte_tokens.assign(spec_.tokens.size(), false);
    for (size_t i = 0; i < spec_.tokens.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      const int token_class = classes_[i];
      if (token_class == kControl || token_class == kUserDefined) {
        AddedToken added{.id = id, .text = spec_.tokens[i], .special = token_class == kControl};
        added.normalised = sentence_piece && !added.special;
        if (added.normalised) {  // stored with plain spaces, matched where spaces are already escaped
          for (size_t at = 0; (at = added.text.find(' ', at)) != std::string::npos; at += kMetaspaceText.size()) {
            added.text.replace(at, 1, kMetaspaceText);
          }
        }
        spec_.added.push_back(std::move(added));
      }
      if (token_class == kUnknown && spec_.unk < 0) spec_.unk = id;
      spec_.unusable[i] = token_class == kControl || token_class == kUnused || token_class == kUnknown;
      if (sentence_piece && token_class == kByte) spec_.byte_tokens[i] = true;
    }
  }

  Status ReadAffixes() {
    bool add_bos = spec_.kind == TokenizerKind::kSentencePieceBpe || spec_.kind == TokenizerKind::kWordPiece;
    bool add_eos = spec_.kind == TokenizerKind::kUnigram;
    if (file_.Find(Key("add_bos_token")) != nullptr) {
      SURETY_ASSIGN_OR_RETURN(add_bos, file_.Bool(Key("add_bos_token")));
    }
    if (file_.Find(Key("add_eos_token")) != nullptr) {
      SURETY_ASSIGN_OR_RETURN(add_eos, file_.Bool(Key("add_eos_token")));
    }
    if (spec_.kind == TokenizerKind::kWordPiece) {
      TokenId cls = spec_.bos, sep = spec_.eos;
      SURETY_RETURN_IF_ERROR(ReadId("cls_token_id", cls));
      SURETY_RETURN_IF_ERROR(ReadId("seperator_token_id", sep));  // spelt so in the format
      SURETY_RETURN_IF_ERROR(ReadId("separator_token_id", sep));
      if (cls >= 0) spec_.prefix = {cls};
      if (sep >= 0) spec_.suffix = {sep};
      return OkStatus();
    }
    if (add_bos && spec_.bos >= 0) spec_.prefix = {spec_.bos};
    if (add_eos && spec_.eos >= 0) spec_.suffix = {spec_.eos};
    return OkStatus();
  }

  const GgufFile& file_;
  TokenizerSpec spec_;
  std::vector<int> classes_;
};

}  // namespace

Result<TokenizerSpec> TokenizerSpecFromGguf(const GgufFile& file) { return GgufTokenizerReader(file).Read(); }

}  // namespace surety::model
