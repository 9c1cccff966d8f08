// Models, retrievers, tools, invariants, verifiers and templates.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "gateway/personal_data.h"
#include "gateway/policy_form.h"
#include "gateway/policy_values.h"

namespace surety::gateway {
namespace {

constexpr double kMaxPrice = 1e3;             // of a token
constexpr size_t kMaxText = 32 << 10;
constexpr int64_t kMaxTableBytes = 16LL << 20;

// LiteLLM's timeout is a number of seconds.
Shape<int64_t> TimeoutShape() {
  Shape<int64_t> shape;
  const Shape<int64_t> duration = DurationShape();
  shape.schema["anyOf"] = boost::json::array{duration.schema, boost::json::object{{"type", "number"}}};
  shape.read = [duration](PolicyReading& reading, const YamlNode& node, int64_t& out) {
    const auto seconds = node.kind == YamlNode::Kind::kScalar && !node.quoted ? ParseNumber(node.text)
                                                                              : Result<double>(Error(Status()));
    if (!seconds) return duration.read(reading, node, out);
    if (*seconds > 0 && *seconds <= 86'400) {
      out = static_cast<int64_t>(*seconds * 1e9);
      return true;
    }
    reading.Fail(node, fmt::format("{} seconds are not within 0 and 86400", node.text));
    return false;
  };
  return shape;
}

KeyRule WithAccess(KeyRule rule) {
  rule.optional.insert(rule.optional.end(), std::begin(kAccessKeys), std::end(kAccessKeys));
  return rule;
}

void FinishModel(PolicyReading& reading, const YamlNode& node, ModelSpec& out) {
  const KeyRule rule = out.engine == ModelSpec::Engine::kLocal
                           ? KeyRule{"engine: local", {"weights"}, {"draft_model", "draft_head"}}
                           : WithAccess({"engine: remote", {"api_base", "model"}, {"api_key"}});
  CheckKeys(reading, node, rule,
            {"engine", "input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost",
             "max_parallel_requests", "residency", "timeout", "rpm", "tpm"});
  CheckAccess(reading, node, out.access, out.api_base);
  if (!out.draft_model.empty() && !out.draft_head.empty()) {
    reading.Fail(node, "draft_model and draft_head exclude each other: give one of them");
  }
  // Not said is not free: 0 is.
  if (node.Find("cache_read_input_token_cost") == nullptr) out.cache_read_input_token_cost = out.input_cost_per_token;
}

KeyRule ToolRule(ToolSpec::By by) {
  switch (by) {
    case ToolSpec::By::kHttp: return WithAccess({"url", {"url"}, {}});
    case ToolSpec::By::kSql: return {"database", {"database", "query"}, {}};
    case ToolSpec::By::kCommand: return {"command", {"command"}, {}};
  }
  return {};
}

void FinishTool(PolicyReading& reading, const YamlNode& node, ToolSpec& out) {
  const int n_ways = !out.url.empty() + !out.database.empty() + !out.command.empty();
  if (n_ways != 1) return reading.Fail(node, "a tool is one of url, database (with query) and command");
  out.by = !out.url.empty() ? ToolSpec::By::kHttp : !out.database.empty() ? ToolSpec::By::kSql : ToolSpec::By::kCommand;
  CheckKeys(reading, node, ToolRule(out.by),
            {"kind", "arguments", "deadline", "fresh", "mandatory", "approval"});
  CheckAccess(reading, node, out.access, out.url);
  if (out.by == ToolSpec::By::kCommand && !out.command.front().starts_with('/')) {
    reading.Fail(*node.Find("command"), fmt::format("'{}': the program must be an absolute path", out.command.front()));
  }
  if (out.kind == ToolSpec::Kind::kRead && node.Find("approval") != nullptr) {
    reading.Fail(*node.Find("approval"), "approval is for tools of kind: write");
  }
}

KeyRule VerifierRule(VerifierSpec::Kind kind) {
  switch (kind) {
    case VerifierSpec::Kind::kCitations: return {"kind: citations", {}, {"min_quote"}};
    case VerifierSpec::Kind::kNumbers: return {"kind: numbers", {}, {}};
    case VerifierSpec::Kind::kPhrases: return {"kind: phrases", {}, {"phrases", "patterns"}};
    case VerifierSpec::Kind::kPii: return {"kind: pii", {}, {"kinds"}};
    case VerifierSpec::Kind::kSchema: return {"kind: schema", {"schema"}, {}};
    case VerifierSpec::Kind::kTable: return {"kind: table", {"table"}, {"complete"}};
    case VerifierSpec::Kind::kHttp: return WithAccess({"kind: http", {"url"}, {}});
  }
  return {};
}

void FinishVerifier(PolicyReading& reading, const YamlNode& node, VerifierSpec& out) {
  CheckKeys(reading, node, VerifierRule(out.kind), {"kind", "fail", "error", "deadline"});
  CheckAccess(reading, node, out.access, out.url);
  if (out.kind == VerifierSpec::Kind::kPhrases && out.phrases.empty() && out.patterns.empty()) {
    reading.Fail(node, "kind: phrases needs phrases or patterns");
  }
}

// A schema written here, or the name of a file that holds it as JSON.
Shape<boost::json::value> SchemaShape() {
  Shape<boost::json::value> shape;
  shape.schema = {{"type", boost::json::array{"object", "string"}}};
  shape.read = [](PolicyReading& reading, const YamlNode& node, boost::json::value& out) {
    if (node.kind == YamlNode::Kind::kMap) {
      out = JsonOfYaml(node);
      return true;
    }
    std::string name;
    if (!FileNameShape(1 << 20).read(reading, node, name)) return false;
    boost::system::error_code error;
    out = boost::json::parse(*reading.File(node, 1 << 20), error);
    if (!error && out.is_object()) return true;
    reading.Fail(node, fmt::format("'{}' holds no JSON object{}", name, error ? ": " + error.message() : ""));
    return false;
  };
  return shape;
}

void FinishValidity(PolicyReading& reading, const YamlNode& node, const Validity& validity) {
  if (validity.from_ns < validity.to_ns) return;
  reading.Fail(*node.Find("effective_to"), "effective_to must be later than effective_from");
}

}  // namespace

std::vector<std::string> PlaceholdersOf(std::string_view text) {
  std::vector<std::string> out;
  for (size_t i = text.find('{'); i != std::string_view::npos; i = text.find('{', i + 1)) {
    size_t end = i + 1;
    const auto in_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
             c == '.';
    };
    while (end < text.size() && in_name(text[end])) ++end;
    if (end > i + 1 && end < text.size() && text[end] == '}') out.emplace_back(text.substr(i + 1, end - i - 1));
  }
  return out;
}

Shape<Named<ModelSpec>> ModelsShape() {
  using Engine = ModelSpec::Engine;
  auto shape =
      Fields<ModelSpec>("a model: of this process, or of an OpenAI-compatible server")
          .Add("engine", &ModelSpec::engine,
               EnumShape<Engine>({{"local", Engine::kLocal}, {"remote", Engine::kRemote}}), "local or remote",
               Presence::kRequired)
          .Add("weights", &ModelSpec::weights, LabelShape(), "local: a path or name as surety serve -m takes it")
          .Add("draft_model", &ModelSpec::draft_model, LabelShape(),
               "local: a smaller model that drafts its tokens, as weights (default: none)")
          .Add("draft_head", &ModelSpec::draft_head, LabelShape(),
               "local: the path of a draft head that drafts its tokens, or none (default: its own in $SURETY_HEADS)")
          .Add("model", &ModelSpec::weights, LabelShape(), "remote: the model's name there")
          .Add("api_base", &ModelSpec::api_base, UrlShape(), "remote: http://host:port/v1")
          .Add("api_key", &ModelSpec::api_key, SecretShape(), "remote: os.environ/NAME or {file: NAME} (default: none)")
          .Add("input_cost_per_token", &ModelSpec::input_cost_per_token, NumberShape(0, kMaxPrice),
               "money (default: 0)")
          .Add("output_cost_per_token", &ModelSpec::output_cost_per_token, NumberShape(0, kMaxPrice),
               "money (default: 0)")
          .Add("cache_read_input_token_cost", &ModelSpec::cache_read_input_token_cost, NumberShape(0, kMaxPrice),
               "money for a prompt token that was cached (default: 0)")
          .Add("max_parallel_requests", &ModelSpec::max_parallel_requests, IntShape(0, 1'000'000),
               "at the same time (default: 0, no limit)")
          .Add("rpm", &ModelSpec::rpm, IntegerShape(1, 1'000'000'000), "requests a minute (default: no limit)")
          .Add("tpm", &ModelSpec::tpm, IntegerShape(1, 1'000'000'000'000), "tokens a minute (default: no limit)")
          .Add("residency", &ModelSpec::residency, ListShape(LabelShape(), 64, 1, true),
               "where data may be processed (default: not said)")
          .Add("timeout", &ModelSpec::timeout_ns, TimeoutShape(),
               "of one generation; a bare number: seconds (default: 60s)")
          .Also(AddAccess<ModelSpec>)
          .Line(&ModelSpec::line)
          .Then(FinishModel)
          .Done();
  return NamedShape<ModelSpec>(NameShape(), std::move(shape), 256,
                               [](ModelSpec& out, const std::string& name) { out.name = name; });
}

Shape<Named<RetrieverSpec>> RetrieversShape() {
  using By = RetrieverSpec::By;
  auto shape =
      Fields<RetrieverSpec>(
          "where passages are found; always filtered by permission, region, product, language and date")
          .Add("index", &RetrieverSpec::index, TextShape(1024),
               "the document store's file, relative to state.directory", Presence::kRequired)
          .Add("by", &RetrieverSpec::by,
               EnumShape<By>({{"text", By::kText}, {"vector", By::kVector}, {"both", By::kBoth}}),
               "text, vector or both (default: text)")
          .Add("embedding_model", &RetrieverSpec::embedding_model, LabelShape(), "for vector and both")
          .Add("top_k", &RetrieverSpec::top_k, IntShape(1, 1000), "passages (default: 8)")
          .Add("deadline", &RetrieverSpec::deadline_ns, DurationShape(), "(default: 1s)")
          .Line(&RetrieverSpec::line)
          .Then([](PolicyReading& reading, const YamlNode& node, RetrieverSpec& out) {
            if ((out.by == By::kText) == out.embedding_model.empty()) return;
            reading.Fail(node, out.by == By::kText ? "embedding_model has no effect with by: text; take it away"
                                                   : "by: vector and by: both need embedding_model");
          })
          .Done();
  return NamedShape<RetrieverSpec>(NameShape(), std::move(shape), 64,
                                   [](RetrieverSpec& out, const std::string& name) { out.name = name; });
}

Shape<Named<ToolSpec>> ToolsShape() {
  using Kind = ToolSpec::Kind;
  auto shape =
      Fields<ToolSpec>("a source of facts, or an action")
          .Add("kind", &ToolSpec::kind, EnumShape<Kind>({{"read", Kind::kRead}, {"write", Kind::kWrite}}),
               "read or write (default: read)")
          .Add("url", &ToolSpec::url, UrlShape(), "asked by POST with the arguments as JSON")
          .Add("database", &ToolSpec::database, TextShape(1024), "a SQLite file, postgresql://..., or os.environ/NAME")
          .Add("query", &ToolSpec::query, TextShape(16 << 10), "SQL with :NAME for arguments; one row is the result")
          .Add("command", &ToolSpec::command, ListShape(TextShape(4096), 64, 1), "program (absolute) and its arguments")
          .Add("arguments", &ToolSpec::arguments, ListShape(NameShape(), 64, 0, true),
               "names that may be given, of metadata or signals (default: none)")
          .Add("deadline", &ToolSpec::deadline_ns, DurationShape(), "(default: 1s)")
          .Add("fresh", &ToolSpec::fresh_ns, DurationShape(), "older results do not count (default: any age)")
          .Add("mandatory", &ToolSpec::mandatory, BoolShape(), "without it a person answers (default: true)")
          .Add("approval", &ToolSpec::four_eyes, EnumShape<bool>({{"four_eyes", true}, {"one", false}}),
               "of a write: one or four_eyes (default: one)")
          .Also(AddAccess<ToolSpec>)
          .Line(&ToolSpec::line)
          .Then(FinishTool)
          .Done();
  return NamedShape<ToolSpec>(NameShape(), std::move(shape), 256,
                              [](ToolSpec& out, const std::string& name) { out.name = name; });
}

Shape<std::string> PersonalKindShape() {
  // What others call them.
  static constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
      {"pan", "card"},      {"credit_card", "card"}, {"card_number", "card"}, {"social_security", "ssn"},
      {"tin", "itin"},      {"bic", "iban"},         {"account", "iban"},     {"mail", "email"},
      {"e-mail", "email"},  {"telephone", "phone"},  {"mobile", "phone"},     {"aba", "routing"},
      {"rtn", "routing"}};
  boost::json::array allowed;
  std::vector<std::string> known;
  for (int i = 0; i < kPersonalKindCount; ++i) {
    known.emplace_back(NameOf(static_cast<PersonalKind>(i)));
    allowed.push_back(boost::json::string(known.back()));
  }
  Shape<std::string> shape;
  shape.schema["enum"] = std::move(allowed);
  shape.read = [known](PolicyReading& reading, const YamlNode& node, std::string& out) {
    if (!ReadScalar(reading, node, "a kind of personal data", out)) return false;
    if (PersonalKindOf(out)) return true;
    const auto other = std::ranges::find(kOtherNames, out, &std::pair<std::string_view, std::string_view>::first);
    const std::string hint = other == std::end(kOtherNames) ? PolicyHint(out, known)
                                                            : fmt::format("; did you mean '{}'?", other->second);
    reading.Fail(node, fmt::format("'{}' is no kind of personal data that can be found{}", out, hint));
    return false;
  };
  return shape;
}

Shape<std::vector<InvariantSpec>> InvariantsShape() {
  auto shape = Fields<InvariantSpec>("what must hold between tools' results; else a person decides")
                   .Add("name", &InvariantSpec::name, NameShape(), "", Presence::kRequired)
                   .Add("when", &InvariantSpec::when, TextShape(512), "TOOL.field OP value (default: always)")
                   .Add("require", &InvariantSpec::require, TextShape(512), "TOOL.field OP value, or TOOL.field (true)",
                        Presence::kRequired)
                   .Line(&InvariantSpec::line)
                   .Done();
  return ListShape(std::move(shape), 256);
}

Shape<Named<VerifierSpec>> VerifiersShape() {
  using Kind = VerifierSpec::Kind;
  using Action = VerifierSpec::Action;
  enum class OnError { kBlock, kReview, kRepair, kOpen };
  auto shape =
      Fields<VerifierSpec>("a check of the whole answer before it is released")
          .Add("kind", &VerifierSpec::kind,
               EnumShape<Kind>({{"citations", Kind::kCitations},
                                {"numbers", Kind::kNumbers},
                                {"phrases", Kind::kPhrases},
                                {"pii", Kind::kPii},
                                {"schema", Kind::kSchema},
                                {"table", Kind::kTable},
                                {"http", Kind::kHttp}}),
               "citations, numbers, phrases, pii, schema, table or http", Presence::kRequired)
          .Add("fail", &VerifierSpec::fail,
               EnumShape<Action>({{"block", Action::kBlock}, {"review", Action::kReview}, {"repair", Action::kRepair}}),
               "what follows: block, review or repair (default: block)")
          .AddWith<OnError>("error",
                            EnumShape<OnError>({{"block", OnError::kBlock},
                                                {"review", OnError::kReview},
                                                {"repair", OnError::kRepair},
                                                {"open", OnError::kOpen}}),
                            "where it cannot tell: block, review, repair, or open for low risk alone (default: review)",
                            [](VerifierSpec& out, OnError value) {
                              out.open_on_error = value == OnError::kOpen;
                              if (value == OnError::kBlock) out.error = Action::kBlock;
                              if (value == OnError::kRepair) out.error = Action::kRepair;
                            })
          .Add("deadline", &VerifierSpec::deadline_ns, DurationShape(), "(default: 2s)")
          .Add("phrases", &VerifierSpec::phrases, PhrasesShape(), "forbidden texts: a list, or the name of a file")
          .Add("patterns", &VerifierSpec::patterns, ListShape(PatternShape(), 1000, 1), "forbidden, RE2")
          .Add("table", &VerifierSpec::table, FileNameShape(kMaxTableBytes), "a file of codes with effective dates")
          .Add("complete", &VerifierSpec::complete, BoolShape(),
               "the text names the codes that tools gave, all of them and no other (default: false)")
          .Add("kinds", &VerifierSpec::kinds, ListShape(PersonalKindShape(), kPersonalKindCount, 1, true),
               "of personal data (default: all)")
          .Add("schema", &VerifierSpec::schema, SchemaShape(), "a JSON schema, or the name of its file")
          .Add("url", &VerifierSpec::url, UrlShape(), "of the service that is asked")
          .Add("min_quote", &VerifierSpec::min_quote, IntShape(1, 200), "characters of a quote (default: 12)")
          .Also(AddAccess<VerifierSpec>)
          .Line(&VerifierSpec::line)
          .Then(FinishVerifier)
          .Done();
  return NamedShape<VerifierSpec>(NameShape(), std::move(shape), 256,
                                  [](VerifierSpec& out, const std::string& name) { out.name = name; });
}

Shape<Named<TemplateSpec>> TemplatesShape() {
  auto shape =
      Fields<TemplateSpec>("ready-made answers by label of the signal intent")
          .Add("version", &TemplateSpec::version, LabelShape(), "part of every cache key", Presence::kRequired)
          .AddWith<int64_t>("effective_from", InstantShape(), "(default: always)",
                            [](TemplateSpec& out, int64_t t) { out.validity.from_ns = t; })
          .AddWith<int64_t>("effective_to", InstantShape(), "the first instant after it (default: never)",
                            [](TemplateSpec& out, int64_t t) { out.validity.to_ns = t; })
          .AddWith<Named<std::string>>(
              "texts", NamedShape<std::string>(LabelShape(), TextOrFileShape(kMaxText), 1000),
              "the answer by label; default answers the rest; {name} is a signal's, dimension's or metadata value",
              [](TemplateSpec& out, Named<std::string> texts) {
                for (auto& [label, text] : texts) out.texts.emplace(std::move(label), std::move(text));
              },
              Presence::kRequired)
          .Line(&TemplateSpec::line)
          .Then([](PolicyReading& reading, const YamlNode& node, TemplateSpec& out) {
            FinishValidity(reading, node, out.validity);
            if (out.texts.empty()) reading.Fail(node, "a template needs a text");
          })
          .Done();
  return NamedShape<TemplateSpec>(NameShape(), std::move(shape), 256,
                                  [](TemplateSpec& out, const std::string& name) { out.name = name; });
}

}  // namespace surety::gateway
