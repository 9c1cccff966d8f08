// What files say and how it is refused: GGUF keys and tokenizer.json.
#include "model/tokenizer/tokenizer_loaders.h"

#include <gtest/gtest.h>

#include "model/testing/gguf_writer.h"
#include "model/tokenizer/tokenizer.h"

namespace surety::model {
namespace {

Status JsonError(std::string_view json) {
  auto spec = TokenizerSpecFromJson(json, "", "");
  if (!spec) return spec.error();
  const auto made = Tokenizer::Make(*std::move(spec));
  return made ? OkStatus() : made.error();
}

// A byte-level tokenizer.json with `more` members.
std::string Bpe(const std::string& more, const std::string& model_more = "") {
  return R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"])" + model_more + "}" +
         more + "}";
}

TEST(TokenizerJsonTest, NamesWhatItDoesNotKnow) {
  const std::pair<std::string, std::string> cases[] = {
      {Bpe(R"(, "normalizer": {"type": "Nmt"})"), "Nmt"},
      {Bpe(R"(, "pre_tokenizer": {"type": "UnicodeScripts"})"), "UnicodeScripts"},
      {Bpe(R"(, "pre_tokenizer": {"type": "Metaspace", "replacement": "_"})"), "_"},
      {Bpe(R"(, "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "last"})"), "last"},
      {Bpe(R"(, "pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd"})"), "Odd"},
      {Bpe(R"(, "decoder": {"type": "CTC"})"), "CTC"},
      {Bpe(R"(, "decoder": {"type": "Strip", "content": " ", "start": 2, "stop": 0})"), "strips"},
      {Bpe(R"(, "post_processor": {"type": "Odd"})"), "Odd"},
      {Bpe("", R"(, "dropout": 0.1)"), "dropout"},
      {Bpe("", R"(, "end_of_word_suffix": "</w>")"), "end_of_word_suffix"},
      {R"({"model": {"type": "WordLevel", "vocab": {}}})", "WordLevel"},
  };
  for (const auto& [json, name] : cases) {
    const Status status = JsonError(json);
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << json;
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  }
}

TEST(TokenizerJsonTest, ACharsmapWithoutATrieMapsNothing) {
  EXPECT_TRUE(JsonError(Bpe(R"(, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAGEA"})")).ok());
}

TEST(TokenizerJsonTest, RefusesWhatDoesNotFit) {
  const std::pair<std::string, std::string> cases[] = {
      {Bpe(R"(, "added_tokens": [{"id": 1, "content": "c"}])"), "which is that of 'b'"},
      {Bpe(R"(, "added_tokens": [{"id": "1", "content": "c"}])"), "id"},
      {Bpe(R"(, "added_tokens": [{"id": 9, "content": "c", "lstrip": 1}])"), "lstrip"},
      {Bpe(R"(, "added_tokens": {})"), "added_tokens"},
      {Bpe("", R"(, "fuse_unk": "yes")"), "fuse_unk"},
      {Bpe("", R"(, "unk_token": 3)"), "unk_token"},
      {Bpe(R"(, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"})"), "pattern"},
      {Bpe(R"(, "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}]})"),
       "<s>"},
      {Bpe(R"(, "post_processor": {"type": "BertProcessing", "cls": ["c", 7], "sep": ["s", 8]})"), "7"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]}})", "merge 0"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["aa"]}})", "two tokens"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}})", "two tokens"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}})", "which is that of"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 1.5}, "merges": []}})", "integer"},
      {R"({"model": {"type": "BPE", "vocab": {}, "merges": []}})", "empty"},
      {R"({"model": {"type": "Unigram", "vocab": [["a", "b"]]}})", "entry 0"},
      {R"({"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 4}})", "unk_id"},
      {R"({"model": {"type": "WordPiece", "vocab": {"a": 0}}})", "unknown token"},
      {Bpe(R"(, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "*"})"), "base64"},
      {Bpe(R"(, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="})"), "charsmap"},
      {std::string(100, '['), "deep"},
  };
  for (const auto& [json, part] : cases) {
    const Status status = JsonError(json);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << json;
    EXPECT_NE(status.message().find(part), std::string::npos) << json << '\n' << status.message();
  }
}

GgufWriter Gguf(std::string_view model, std::vector<std::string> tokens, const std::vector<int32_t>& types) {
  GgufWriter writer;
  writer.String("tokenizer.ggml.model", model);
  writer.Key("tokenizer.ggml.tokens", GgufType::kArray, [&] {
    std::string bytes =
        GgufWriter::Raw(static_cast<uint32_t>(GgufType::kString)) + GgufWriter::Raw<uint64_t>(tokens.size());
    for (const auto& token : tokens) bytes += GgufWriter::Text(token);
    return bytes;
  }());
  writer.Key("tokenizer.ggml.token_type", GgufType::kArray, [&] {
    std::string bytes =
        GgufWriter::Raw(static_cast<uint32_t>(GgufType::kInt32)) + GgufWriter::Raw<uint64_t>(types.size());
    for (int32_t type : types) bytes += GgufWriter::Raw(type);
    return bytes;
  }());
  return writer;
}

void Strings(GgufWriter& writer, std::string_view key, const std::vector<std::string>& values) {
  std::string bytes =
      GgufWriter::Raw(static_cast<uint32_t>(GgufType::kString)) + GgufWriter::Raw<uint64_t>(values.size());
  for (const auto& value : values) bytes += GgufWriter::Text(value);
  writer.Key(key, GgufType::kArray, bytes);
}

Result<std::unique_ptr<Tokenizer>> Load(const GgufWriter& writer) {
  const auto file = writer.Parse();
  if (!file) return Error(file.error());
  auto spec = TokenizerSpecFromGguf(**file);
  if (!spec) return Error(spec.error());
  return Tokenizer::Make(*std::move(spec));
}

TEST(TokenizerGgufTest, WordPieceWithMarkedWordStarts) {
  const auto made =
      Load(Gguf("bert", {"[UNK]", "[CLS]", "[SEP]", "\xE2\x96\x81hel", "lo", "\xE2\x96\x81,"}, {1, 3, 3, 1, 1, 1})
               .Int("tokenizer.ggml.cls_token_id", 1)
               .Int("tokenizer.ggml.seperator_token_id", 2)
               .Int("tokenizer.ggml.unknown_token_id", 0));
  ASSERT_TRUE(made.has_value()) << made.error().ToString();
  EXPECT_EQ((*made)->Encode("H\xC3\xA9llo, x", true, {.add_special = true}), (std::vector<TokenId>{1, 3, 4, 5, 0, 2}));
  EXPECT_EQ((*made)->Decode(std::vector<TokenId>{1, 3, 4, 5, 2}), "hello,");
}

TEST(TokenizerGgufTest, NamesWhatItDoesNotKnow) {
  const auto rwkv = Load(Gguf("rwkv", {"a"}, {1}));
  ASSERT_FALSE(rwkv.has_value());
  EXPECT_EQ(rwkv.error().code(), StatusCode::kUnimplemented);
  auto writer = Gguf("gpt2", {"a"}, {1});
  writer.String("tokenizer.ggml.pre", "marvellous");
  const auto pre = Load(writer);
  ASSERT_FALSE(pre.has_value());
  EXPECT_EQ(pre.error().code(), StatusCode::kUnimplemented);
  EXPECT_NE(pre.error().message().find("marvellous"), std::string::npos);
}

TEST(TokenizerGgufTest, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(Load(Gguf("gpt2", {"a", "b"}, {1})).has_value());                                   // one class too few
  EXPECT_FALSE(Load(Gguf("llama", {"a"}, {1})).has_value());                                       // no scores
  EXPECT_FALSE(Load(Gguf("llama", {"a"}, {6})).has_value());                                       // no byte token
  EXPECT_FALSE(Load(Gguf("gpt2", {"a"}, {1}).Int("tokenizer.ggml.eos_token_id", 1)).has_value());  // past the end
  auto writer = Gguf("gpt2", {"a"}, {1});
  Strings(writer, "tokenizer.ggml.merges", {"aa"});
  EXPECT_FALSE(Load(writer).has_value());
}

TEST(TokenizerGgufTest, EveryKnownPipelineKeepsAllBytes) {
  std::vector<std::string> letters;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool visible = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    static char32_t next;
    if (b == 0) next = 0x100;
    const char32_t c = visible ? b : next++;
    letters.push_back(c < 0x80 ? std::string(1, static_cast<char>(c))
                               : std::string{static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3F))});
  }
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "smollm", "starcoder", "command-r", "deepseek-v3", "tekken"}) {
    auto writer = Gguf("gpt2", letters, std::vector<int32_t>(256, 1));
    writer.String("tokenizer.ggml.pre", pre);
    Strings(writer, "tokenizer.ggml.merges", {});
    const auto made = Load(writer);
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    const std::string text = "It's  2345 \xE4\xB8\xAD\xE6\x96\x87 \xE3\x81\x82!foo\r\n\t UPPERlower \xFF\xC3";
    EXPECT_EQ((*made)->Encode(text).size(), text.size()) << pre;
  }
}

}  // namespace
}  // namespace surety::model
