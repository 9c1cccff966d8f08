// TokenizerSpec from a tokenizer.json and its companions.
#include <algorithm>
#include <boost/json.hpp>
#include <string>

#include "model/tokenizer/pattern_scan.h"
#include "model/tokenizer/tokenizer_loaders.h"
#include "model/tokenizer/unicode.h"

namespace surety::model {
namespace {

namespace json = boost::json;

constexpr size_t kMaxTokenizerDepth = 32;
constexpr size_t kMaxTokens = 4'000'000;

const json::value& Null() {
  static const json::value null;
  return null;
}
const json::value& At(const json::value& object, std::string_view key) {
  const auto* o = object.if_object();
  const auto* v = o == nullptr ? nullptr : o->if_contains(key);
  return v == nullptr ? Null() : *v;
}
std::span<const json::value> Items(const json::value& v) {
  const auto* a = v.if_array();
  return a == nullptr ? std::span<const json::value>() : std::span<const json::value>(a->data(), a->size());
}
Status Unknown(std::string_view what, std::string_view type) {
  return UnimplementedError("tokenizer.json: " + std::string(what) + " of type '" + std::string(type) +
                            "' is not known here");
}

class JsonTokenizerReader {
 public:
  Result<TokenizerSpec> Read(const json::value& root, const json::value& config, const json::value& special_map) {
    spec_.source = "tokenizer.json";
    if (!root.is_object()) return Error(InvalidArgumentError("tokenizer.json is not a JSON object"));
    SURETY_RETURN_IF_ERROR(ReadModel(At(root, "model")));
    for (const json::value& token : List(root, "added_tokens")) SURETY_RETURN_IF_ERROR(ReadAdded(token));
    SURETY_RETURN_IF_ERROR(ReadNormaliser(At(root, "normalizer")));
    SURETY_RETURN_IF_ERROR(ReadPreTokenizer(At(root, "pre_tokenizer")));
    if (spec_.kind == TokenizerKind::kCharBpe && byte_level_) spec_.kind = TokenizerKind::kByteBpe;
    SURETY_RETURN_IF_ERROR(ReadPostProcessor(At(root, "post_processor")));
    SURETY_RETURN_IF_ERROR(ReadDecoder(At(root, "decoder")));
    ReadSpecialNames(config, special_map);
    if (!wrong_type_.ok()) return Error(wrong_type_);
    // Control tokens come from trusted text by their own path only; the model must not find them in a user's words.
    spec_.unusable.assign(spec_.tokens.size(), false);
    for (const AddedToken& token : spec_.added) {
      if (token.special && token.id != spec_.unk) spec_.unusable[static_cast<size_t>(token.id)] = true;
    }
    return std::move(spec_);
  }

 private:
  // A member of the object; absent or null gives the fallback, a value of another type is remembered as an error.
  std::string Text(const json::value& v, std::string_view key, std::string_view fallback = "") {
    const json::value& member = At(v, key);
    if (member.is_string()) return std::string(member.get_string());
    Expect(member.is_null(), key, "a string");
    return std::string(fallback);
  }
  bool Flag(const json::value& v, std::string_view key, bool fallback) {
    const json::value& member = At(v, key);
    if (member.is_bool()) return member.get_bool();
    Expect(member.is_null(), key, "true or false");
    return fallback;
  }
  int64_t Number(const json::value& v, std::string_view key, int64_t fallback) {
    const json::value& member = At(v, key);
    if (member.is_int64()) return member.get_int64();
    Expect(member.is_null(), key, "an integer");
    return fallback;
  }
  std::span<const json::value> List(const json::value& v, std::string_view key) {
    const json::value& member = At(v, key);
    Expect(member.is_array() || member.is_null(), key, "an array");
    return Items(member);
  }
  void Expect(bool holds, std::string_view key, std::string_view what) {
    if (!holds && wrong_type_.ok()) {
      wrong_type_ = InvalidArgumentError("tokenizer.json: '" + std::string(key) + "' is not " + std::string(what));
    }
  }

  Status SetToken(int64_t id, std::string_view text, std::string_view where) {
    if (id < 0 || id >= static_cast<int64_t>(kMaxTokens)) {
      return InvalidArgumentError("tokenizer.json: " + std::string(where) + " gives '" + std::string(text) +
                                  "' the id " + std::to_string(id));
    }
    const auto at = static_cast<size_t>(id);
    if (at >= spec_.tokens.size()) spec_.tokens.resize(at + 1);
    if (!spec_.tokens[at].empty() && spec_.tokens[at] != text) {
      return InvalidArgumentError("tokenizer.json: " + std::string(where) + " gives '" + std::string(text) +
                                  "' the id " + std::to_string(id) + ", which is that of '" + spec_.tokens[at] + "'");
    }
    spec_.tokens[at] = text;
    return OkStatus();
  }

  Status ReadModel(const json::value& model) {
    const std::string type = Text(model, "type", At(model, "merges").is_null() ? "" : "BPE");
    if (type == "Unigram") return ReadUnigram(model);
    if (type != "BPE" && type != "WordPiece") return Unknown("a model", type);
    const auto* vocab = At(model, "vocab").if_object();
    if (vocab == nullptr) return InvalidArgumentError("tokenizer.json: model.vocab is not an object");
    for (const auto& [text, id] : *vocab) {
      if (!id.is_int64())
        return InvalidArgumentError("tokenizer.json: the id of '" + std::string(text) + "' is no integer");
      SURETY_RETURN_IF_ERROR(SetToken(id.get_int64(), text, "model.vocab"));
    }
    const auto find = [&](const std::string& text) -> TokenId {
      const auto* id = vocab->if_contains(text);
      return id != nullptr && id->is_int64() ? static_cast<TokenId>(id->get_int64()) : -1;
    };
    if (const std::string unk = Text(model, "unk_token"); !unk.empty()) spec_.unk = find(unk);
    if (type == "WordPiece") {
      spec_.kind = TokenizerKind::kWordPiece;
      spec_.continuing_prefix = Text(model, "continuing_subword_prefix", "##");
      spec_.max_word_chars =
          static_cast<int>(std::clamp<int64_t>(Number(model, "max_input_chars_per_word", 100), 0, 1 << 20));
      return OkStatus();
    }
    spec_.kind = TokenizerKind::kCharBpe;  // byte-level where the pre-tokenizer says so
    spec_.byte_fallback = Flag(model, "byte_fallback", false);
    spec_.fuse_unknown = Flag(model, "fuse_unk", false);
    spec_.ignore_merges = Flag(model, "ignore_merges", false);
    if (const json::value& dropout = At(model, "dropout"); !dropout.is_null() && dropout != json::value(0.0)) {
      return UnimplementedError("tokenizer.json: BPE with dropout");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!Text(model, key).empty()) return UnimplementedError(std::string("tokenizer.json: BPE with ") + key);
    }
    return ReadMerges(List(model, "merges"));
  }

  Status ReadMerges(std::span<const json::value> merges) {
    for (const json::value& merge : merges) {
      if (const auto* text = merge.if_string()) {
        const size_t space = text->find(' ', 1);
        if (space == json::string::npos)
          return InvalidArgumentError("tokenizer.json: the merge '" + std::string(*text) + "' is not two tokens");
        spec_.merges.emplace_back(std::string(text->subview(0, space)), std::string(text->subview(space + 1)));
        continue;
      }
      const auto pair = Items(merge);
      if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
        return InvalidArgumentError("tokenizer.json: merge " + std::to_string(spec_.merges.size()) +
                                    " is not two tokens");
      }
      spec_.merges.emplace_back(std::string(pair[0].get_string()), std::string(pair[1].get_string()));
    }
    return OkStatus();
  }

  Status ReadUnigram(const json::value& model) {
    spec_.kind = TokenizerKind::kUnigram;
    spec_.fuse_unknown = true;
    spec_.byte_fallback = Flag(model, "byte_fallback", false);
    for (const json::value& entry : List(model, "vocab")) {
      const auto pair = Items(entry);
      if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number()) {
        return InvalidArgumentError("tokenizer.json: vocabulary entry " + std::to_string(spec_.tokens.size()) +
                                    " is not a token and its score");
      }
      spec_.tokens.emplace_back(pair[0].get_string());
      spec_.scores.push_back(pair[1].to_number<double>());
    }
    const int64_t unk = Number(model, "unk_id", -1);
    if (unk >= static_cast<int64_t>(spec_.tokens.size())) {
      return InvalidArgumentError("tokenizer.json: unk_id is " + std::to_string(unk) + ", but there are " +
                                  std::to_string(spec_.tokens.size()) + " tokens");
    }
    spec_.unk = static_cast<TokenId>(std::max<int64_t>(unk, -1));
    return OkStatus();
  }

  Status ReadAdded(const json::value& token) {
    AddedToken added;
    added.text = Text(token, "content");
    if (!At(token, "id").is_int64())
      return InvalidArgumentError("tokenizer.json: added token '" + added.text + "' has no id");
    SURETY_RETURN_IF_ERROR(SetToken(At(token, "id").get_int64(), added.text, "added_tokens"));
    added.id = static_cast<TokenId>(At(token, "id").get_int64());
    added.special = Flag(token, "special", false);
    added.normalised = Flag(token, "normalized", false);
    added.lstrip = Flag(token, "lstrip", false);
    added.rstrip = Flag(token, "rstrip", false);
    added.single_word = Flag(token, "single_word", false);
    if (spec_.scores.size() < spec_.tokens.size() && spec_.kind == TokenizerKind::kUnigram) {
      spec_.scores.resize(spec_.tokens.size());
    }
    spec_.added.push_back(std::move(added));
    return OkStatus();
  }

  // A pattern is {"String": literal} or {"Regex": pattern}.
  static std::string Escaped(std::string_view literal) {
    std::string out;
    for (char c : literal) {
      if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
    return out;
  }

  Status ReadNormaliser(const json::value& n) {
    if (n.is_null()) return OkStatus();
    using Step = Normaliser::Step;
    const std::string type = Text(n, "type");
    const auto add = [&](Step step, std::string pattern = "", std::string text = "") {
      spec_.normalisers.push_back({step, std::move(pattern), std::move(text)});
    };
    if (type == "Sequence") {
      for (const json::value& part : List(n, "normalizers")) SURETY_RETURN_IF_ERROR(ReadNormaliser(part));
    } else if (type == "Prepend") {
      add(Step::kPrepend, "", Text(n, "prepend"));
    } else if (type == "Replace") {
      const json::value& pattern = At(n, "pattern");
      if (At(pattern, "Regex").is_string()) {
        add(Step::kReplaceRegex, Text(pattern, "Regex"), Text(n, "content"));
      } else {
        add(Step::kReplace, Text(pattern, "String"), Text(n, "content"));
      }
    } else if (type == "NFC") {
      add(Step::kNfc);
    } else if (type == "NFD") {
      add(Step::kNfd);
    } else if (type == "NFKC") {
      add(Step::kNfkc);
    } else if (type == "NFKD") {
      add(Step::kNfkd);
    } else if (type == "Lowercase") {
      add(Step::kLowercase);
    } else if (type == "StripAccents") {
      add(Step::kStripAccents);
    } else if (type == "Strip") {
      if (Flag(n, "strip_left", true)) add(Step::kStripLeft);
      if (Flag(n, "strip_right", true)) add(Step::kStripRight);
    } else if (type == "Precompiled") {
      SURETY_ASSIGN_OR_RETURN(std::string blob, Base64(Text(n, "precompiled_charsmap")));
      add(Step::kCharsmapByGrapheme, "", std::move(blob));
    } else if (type == "BertNormalizer") {
      const bool lowercase = Flag(n, "lowercase", true);
      if (Flag(n, "clean_text", true)) add(Step::kBertClean);
      if (Flag(n, "handle_chinese_chars", true)) add(Step::kBertChinese);
      if (Flag(n, "strip_accents", lowercase)) {
        add(Step::kNfd);
        add(Step::kStripAccents);
      }
      if (lowercase) add(Step::kLowercase);
    } else {
      return Unknown("a normalizer", type);
    }
    return OkStatus();
  }

  static Result<std::string> Base64(const std::string& text) {
    std::string out;
    uint32_t bits = 0;
    int n_bits = 0;
    for (char c : text) {
      static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
      if (c == '=' || c == '\n') continue;
      const size_t value = kAlphabet.find(c);
      if (value == std::string_view::npos)
        return Error(InvalidArgumentError("tokenizer.json: precompiled_charsmap is not base64"));
      bits = (bits << 6) | static_cast<uint32_t>(value);
      n_bits += 6;
      if (n_bits >= 8) out += static_cast<char>((bits >> (n_bits -= 8)) & 0xFF);
    }
    return out;
  }

  Status ReadPreTokenizer(const json::value& p) {
    if (p.is_null()) return OkStatus();
    using Step = PreTokenizer::Step;
    const std::string type = Text(p, "type");
    PreTokenizer pre{.step = Step::kSplit, .pattern = {}};
    if (type == "Sequence") {
      for (const json::value& part : List(p, "pretokenizers")) SURETY_RETURN_IF_ERROR(ReadPreTokenizer(part));
      return OkStatus();
    }
    if (type == "ByteLevel") {
      byte_level_ = true;
      if (Flag(p, "add_prefix_space", true)) {
        pre.step = Step::kByteLevel;
        pre.prefix_space = true;
        spec_.pre_tokenizers.push_back(pre);
      }
      if (!Flag(p, "use_regex", true)) return OkStatus();
      pre = {.step = Step::kSplit, .pattern = kGpt2Pattern};
    } else if (type == "Split") {
      const json::value& pattern = At(p, "pattern");
      pre.pattern = At(pattern, "Regex").is_string() ? Text(pattern, "Regex") : Escaped(Text(pattern, "String"));
      pre.invert = Flag(p, "invert", false);
      const std::string behaviour = Text(p, "behavior");
      using B = PreTokenizer::Behaviour;
      if (behaviour == "Isolated")
        pre.behaviour = B::kIsolated;
      else if (behaviour == "Removed")
        pre.behaviour = B::kRemoved;
      else if (behaviour == "MergedWithPrevious")
        pre.behaviour = B::kMergedWithPrevious;
      else if (behaviour == "MergedWithNext")
        pre.behaviour = B::kMergedWithNext;
      else if (behaviour == "Contiguous")
        pre.behaviour = B::kContiguous;
      else
        return Unknown("a Split behavior", behaviour);
    } else if (type == "Digits") {
      pre.step = Flag(p, "individual_digits", false) ? Step::kDigits : Step::kDigitRuns;
    } else if (type == "Metaspace") {
      pre.step = Step::kMetaspace;
      const std::string mark = Text(p, "replacement", "\xE2\x96\x81");
      if (mark != "\xE2\x96\x81") return UnimplementedError("tokenizer.json: a Metaspace that writes '" + mark + "'");
      const std::string scheme = Text(p, "prepend_scheme", Flag(p, "add_prefix_space", true) ? "always" : "never");
      if (scheme != "always" && scheme != "first" && scheme != "never") return Unknown("a prepend_scheme", scheme);
      pre.prepend = scheme == "always"  ? PreTokenizer::Prepend::kAlways
                    : scheme == "first" ? PreTokenizer::Prepend::kFirst
                                        : PreTokenizer::Prepend::kNever;
      pre.split = Flag(p, "split", true);
      metaspace_prepends_ = pre.prepend != PreTokenizer::Prepend::kNever;
    } else if (type == "BertPreTokenizer") {
      pre.step = Step::kBert;
    } else if (type == "WhitespaceSplit") {
      pre.step = Step::kWhitespaceSplit;
    } else if (type == "Whitespace") {
      pre.pattern = "\\w+|[^\\w\\s]+";
      pre.behaviour = PreTokenizer::Behaviour::kRemoved;
      pre.invert = true;
    } else if (type == "Punctuation" && Text(p, "behavior", "Isolated") == "Isolated") {
      pre.step = Step::kPunctuation;
    } else {
      return Unknown("a pre_tokenizer", type);
    }
    spec_.pre_tokenizers.push_back(pre);
    return OkStatus();
  }

  Status ReadPostProcessor(const json::value& p) {
    if (p.is_null()) return OkStatus();
    const std::string type = Text(p, "type");
    if (type == "ByteLevel") return OkStatus();  // only moves offsets
    if (type == "Sequence") {
      for (const json::value& part : List(p, "processors")) SURETY_RETURN_IF_ERROR(ReadPostProcessor(part));
      return OkStatus();
    }
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      const auto cls = List(p, "cls"), sep = List(p, "sep");
      if (cls.size() != 2 || sep.size() != 2 || !cls[1].is_int64() || !sep[1].is_int64()) {
        return InvalidArgumentError("tokenizer.json: " + type + " lacks cls or sep");
      }
      spec_.prefix.push_back(static_cast<TokenId>(cls[1].get_int64()));
      spec_.suffix.push_back(static_cast<TokenId>(sep[1].get_int64()));
      return OkStatus();
    }
    if (type != "TemplateProcessing") return Unknown("a post_processor", type);
    bool before = true;
    for (const json::value& item : List(p, "single")) {
      if (At(item, "Sequence").is_object()) {
        before = false;
        continue;
      }
      const std::string name = Text(At(item, "SpecialToken"), "id");
      if (At(At(p, "special_tokens"), name).is_null()) {
        return InvalidArgumentError("tokenizer.json: the post_processor names '" + name +
                                    "', but its special_tokens do not");
      }
      for (const json::value& id : Items(At(At(At(p, "special_tokens"), name), "ids"))) {
        if (!id.is_int64())
          return InvalidArgumentError("tokenizer.json: special token '" + name + "' has an id that is no integer");
        (before ? spec_.prefix : spec_.suffix).push_back(static_cast<TokenId>(id.get_int64()));
      }
    }
    return OkStatus();
  }

  Status ReadDecoder(const json::value& d) {
    const std::string type = Text(d, "type");
    if (type == "Sequence") {
      for (const json::value& part : List(d, "decoders")) SURETY_RETURN_IF_ERROR(ReadDecoder(part));
      return OkStatus();
    }
    if (type == "ByteLevel") {
      spec_.decoding = Decoding::kByteLevel;
    } else if (type == "WordPiece") {
      spec_.decoding = Decoding::kWordPiece;
      if (const std::string prefix = Text(d, "prefix", "##"); prefix != spec_.continuing_prefix) {
        return UnimplementedError("tokenizer.json: a decoder's prefix '" + prefix + "' that is not the model's");
      }
      spec_.clean_up_spaces = Flag(d, "cleanup", true);
    } else if (type == "Metaspace") {
      spec_.decoding = Decoding::kSentencePiece;
      spec_.strip_leading_space = metaspace_prepends_;
    } else if (type == "Replace" || type == "ByteFallback" || type == "Fuse") {
      spec_.decoding = Decoding::kSentencePiece;
      if (type == "Replace" && (Text(At(d, "pattern"), "String") != "\xE2\x96\x81" || Text(d, "content") != " ")) {
        return UnimplementedError("tokenizer.json: a decoder that replaces '" + Text(At(d, "pattern"), "String") + "'");
      }
    } else if (type == "Strip") {
      if (Text(d, "content") != " " || Number(d, "start", 0) > 1 || Number(d, "stop", 0) != 0) {
        return UnimplementedError("tokenizer.json: a decoder that strips other than one space at the start");
      }
      if (Number(d, "start", 0) == 0) return OkStatus();
      spec_.strip_leading_space = true;
    } else if (d.is_null()) {
      spec_.decoding = byte_level_ ? Decoding::kByteLevel : Decoding::kPlain;
    } else {
      return Unknown("a decoder", type);
    }
    return OkStatus();
  }

  TokenId Find(const std::string& text) const {
    if (text.empty()) return -1;
    for (const AddedToken& token : spec_.added) {
      if (token.text == text) return token.id;
    }
    const auto it = std::find(spec_.tokens.begin(), spec_.tokens.end(), text);
    return it == spec_.tokens.end() ? -1 : static_cast<TokenId>(it - spec_.tokens.begin());
  }

  // "bos_token": "<s>" or {"content": "<s>"}.
  void ReadSpecialNames(const json::value& config, const json::value& special_map) {
    const auto name = [&](std::string_view key) {
      for (const json::value* source : {&config, &special_map}) {
        const json::value& v = At(*source, key);
        if (v.is_string()) return std::string(v.get_string());
        if (v.is_object()) return Text(v, "content");
      }
      return std::string();
    };
    spec_.bos = Find(name("bos_token"));
    spec_.eos = Find(name("eos_token"));
    spec_.pad = Find(name("pad_token"));
    if (spec_.unk < 0) spec_.unk = Find(name("unk_token"));
    if (At(config, "add_bos_token").is_bool()) {
      spec_.prefix.clear();
      if (config.at("add_bos_token").get_bool() && spec_.bos >= 0) spec_.prefix = {spec_.bos};
    }
    if (At(config, "add_eos_token").is_bool()) {
      spec_.suffix.clear();
      if (config.at("add_eos_token").get_bool() && spec_.eos >= 0) spec_.suffix = {spec_.eos};
    }
    for (const AddedToken& token : spec_.added) {
      for (const char* end :
           {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end_of_text|>", "<|endoftext|>", "<|end|>"}) {
        if (token.special && token.text == end) spec_.end_of_turn.push_back(token.id);
      }
    }
  }

  TokenizerSpec spec_;
  Status wrong_type_;
  bool byte_level_ = false;
  bool metaspace_prepends_ = false;
};

Result<json::value> ParseOptionalJson(std::string_view text, std::string_view name) {
  if (text.empty()) return json::value();
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = kMaxTokenizerDepth;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error, {}, options);
  if (error) return Error(InvalidArgumentError(std::string(name) + ": " + error.message()));
  return value;
}

}  // namespace

Result<TokenizerSpec> TokenizerSpecFromJson(std::string_view tokenizer_json, std::string_view tokenizer_config_json,
                                            std::string_view special_tokens_map_json) {
  SURETY_ASSIGN_OR_RETURN(const json::value root, ParseOptionalJson(tokenizer_json, "tokenizer.json"));
  SURETY_ASSIGN_OR_RETURN(const json::value config, ParseOptionalJson(tokenizer_config_json, "tokenizer_config.json"));
  SURETY_ASSIGN_OR_RETURN(const json::value map, ParseOptionalJson(special_tokens_map_json, "special_tokens_map.json"));
  return JsonTokenizerReader().Read(root, config, map);
}

}  // namespace surety::model
