// Routes and what a model's context is filled with.
#include <fmt/format.h>

#include "gateway/personal_data.h"
#include "gateway/policy_form.h"

namespace surety::gateway {
namespace {

constexpr size_t kMaxSystemText = 64 << 10;
constexpr int kMaxTokens = 16 << 20;
constexpr int64_t kMinProgressNs = 10'000'000;

Shape<CacheSpec> RouteCacheShape() {
  using Mode = CacheSpec::Mode;
  auto map =
      Fields<CacheSpec>("answers that may be given again")
          .Add("mode", &CacheSpec::mode,
               EnumShape<Mode>({{"off", Mode::kOff}, {"exact", Mode::kExact}, {"semantic", Mode::kSemantic},
                                {"exact_then_semantic", Mode::kExactThenSemantic}}),
               "off, exact, semantic or exact_then_semantic", Presence::kRequired)
          .Add("ttl", &CacheSpec::ttl_ns, DurationShape(), "(default: 1h)")
          .Add("similarity", &CacheSpec::similarity, NumberShape(0.5, 1), "semantic: at least (default: 0.95)")
          .Add("intents", &CacheSpec::intents, ListShape(LabelShape(), 256, 1, true),
               "semantic: labels of the signal intent that may match by meaning")
          .Add("subject_bound", &CacheSpec::subject_bound, BoolShape(),
               "an entry is for its subject alone; false: its answers hold no personal data (default: true)")
          .Then([](PolicyReading& reading, const YamlNode& node, CacheSpec& out) {
            const bool semantic = out.mode == Mode::kSemantic || out.mode == Mode::kExactThenSemantic;
            if (semantic && out.intents.empty()) {
              reading.Fail(node, "answers by meaning are for named intents alone: give intents: [...]");
            }
            for (const char* key : {"similarity", "intents"}) {
              const YamlNode* stands = node.Find(key);
              if (!semantic && stands != nullptr) {
                reading.Fail(*stands,
                             fmt::format("the key '{}' has no effect without mode: semantic; take it away", key));
              }
            }
            if (!out.intents.empty()) {
              YamlNode intent = *node.Find("intents");
              intent.text = "intent";
              reading.Refer("signal", intent);
              for (const YamlNode& label : intent.items) reading.Refer("label", label, "intent");
            }
          })
          .Done();
  Shape<CacheSpec> off;
  off.schema = {{"const", "off"}};
  off.read = [](PolicyReading& reading, const YamlNode& node, CacheSpec&) {
    if (node.text == "off") return true;
    reading.Fail(node, fmt::format("'{}' is no cache: write off, or {{mode: exact, ttl: 1h}}", node.text));
    return false;
  };
  return EitherShape(std::move(off), std::move(map));
}

Shape<ReleaseSpec> RouteReleaseShape() {
  using Audience = ReleaseSpec::Audience;
  using Mode = ReleaseSpec::Mode;
  return Fields<ReleaseSpec>("how an answer leaves")
      .Add("audience", &ReleaseSpec::audience,
           EnumShape<Audience>({{"customer", Audience::kCustomer}, {"internal", Audience::kInternal}}),
           "customer or internal (default: customer)")
      .Add("mode", &ReleaseSpec::mode, EnumShape<Mode>({{"stream", Mode::kStream}, {"held", Mode::kHeld}}),
           "held until all verifiers passed, or streamed as a draft (default: held)")
      .Add("review", &ReleaseSpec::review, ReferenceShape("review queue"),
           "a person of this queue approves first (default: nobody)")
      .Add("progress", &ReleaseSpec::progress_ns, DurationShape(),
           "a stream that waits for its answer says so, first and then again after so long (default: 10s)")
      .Then([](PolicyReading& reading, const YamlNode& node, ReleaseSpec& out) {
        if (out.progress_ns >= kMinProgressNs) return;
        reading.Fail(*node.Find("progress"), "progress must be 10ms or more");
      })
      .Done();
}

Shape<FallbackSpec> RouteFallbackShape() {
  using Cause = FallbackSpec::Cause;
  enum class Named { kTimeout, kOverload, kError, kVerifier, kBudget, kAny };
  return Fields<FallbackSpec>("where a request goes that this route cannot answer")
      .Add("to", &FallbackSpec::to, ReferenceShape("route"), "a route", Presence::kRequired)
      .AddWith<std::vector<Named>>(
          "on",
          ListShape(EnumShape<Named>({{"timeout", Named::kTimeout}, {"overload", Named::kOverload},
                                      {"error", Named::kError}, {"verifier", Named::kVerifier},
                                      {"budget", Named::kBudget}, {"any", Named::kAny}}),
                    6, 1, true),
          "timeout, overload, error, verifier, budget or any (default: any)",
          [](FallbackSpec& out, std::vector<Named> causes) {
            bool any = false;
            for (const Named cause : causes) {
              any = any || cause == Named::kAny;
              if (cause != Named::kAny) out.on.push_back(static_cast<Cause>(cause));
            }
            if (any) out.on.clear();
          })
      .Done();
}

KeyRule AnswerRule(const RouteSpec& route) {
  static const std::vector<std::string_view> kOfModel = {
      "system",  "retrieve", "tools",        "invariants",        "verify",   "cache",
      "release", "context",  "max_attempts", "max_output_tokens", "deadline", "queue"};
  switch (route.answer) {
    case RouteSpec::Answer::kTemplate: return {"answer: template", {"template"}, {"tools", "invariants", "cache",
                                                                                  "release", "deadline"}};
    case RouteSpec::Answer::kModel: return {"answer: model", {"model"}, kOfModel};
    case RouteSpec::Answer::kTools: return {"answer: tools", {"model", "tools"}, kOfModel};
    case RouteSpec::Answer::kHuman: return {"answer: human", {"queue"}, {"tools", "invariants"}};
    case RouteSpec::Answer::kRefuse: return {"answer: refuse", {}, {}};
  }
  return {};
}

}  // namespace

Shape<std::vector<RouteSpec>> RoutesShape() {
  using Answer = RouteSpec::Answer;
  const auto references = [](const char* kind) { return ListShape(ReferenceShape(kind), 64, 0, true); };
  auto shape =
      Fields<RouteSpec>("the first route whose conditions hold is taken")
          .Add("name", &RouteSpec::name, NameShape(), "", Presence::kRequired)
          .AddWith<WhenForm>(
              "when", WhenShape(WhenPlace::kRoute), "always, or conditions that must all hold",
              [](RouteSpec& out, WhenForm form) {
                out.always = form.always;
                out.when = std::move(form.when);
              },
              Presence::kRequired)
          .Add("answer", &RouteSpec::answer,
               EnumShape<Answer>({{"template", Answer::kTemplate},
                                  {"model", Answer::kModel},
                                  {"tools", Answer::kTools},
                                  {"human", Answer::kHuman},
                                  {"refuse", Answer::kRefuse}}),
               "template, model, tools, human or refuse (default: model)")
          .Add("template", &RouteSpec::template_name, ReferenceShape("template"), "template: the ready-made answers")
          .Add("model", &RouteSpec::model, ReferenceShape("model"), "model, tools: the model")
          .Add("system", &RouteSpec::system, TextOrFileShape(kMaxSystemText),
               "instruction before the conversation: a text, or {file: NAME} (default: none)")
          .Add("retrieve", &RouteSpec::retrieve, ReferenceShape("retriever"),
               "where passages come from (default: none)")
          .Add("tools", &RouteSpec::tools, references("tool"), "asked before anything is answered (default: none)")
          .Add("invariants", &RouteSpec::invariants, references("invariant"), "between their results (default: none)")
          .Add("verify", &RouteSpec::verify, references("verifier"), "checks before release (default: none)")
          .Add("cache", &RouteSpec::cache, RouteCacheShape(), "off or a map (default: off)")
          .Add("release", &RouteSpec::release, RouteReleaseShape(), "how an answer leaves")
          .Add("fallback", &RouteSpec::fallback, ListShape(RouteFallbackShape(), 8), "tried in order (default: none)")
          .Add("context", &RouteSpec::context, ReferenceShape("context"), "the context budget (default: the model's)")
          .Add("queue", &RouteSpec::queue, ReferenceShape("review queue"),
               "human: who answers; model, tools: who decides where a check or a tool asks for a person")
          .Add("max_attempts", &RouteSpec::max_attempts, IntShape(1, 5), "generations, repair included (default: 1)")
          .Add("max_output_tokens", &RouteSpec::max_output_tokens, IntShape(1, kMaxTokens), "(default: 1024)")
          .Add("deadline", &RouteSpec::deadline_ns, DurationShape(), "of the whole route (default: 60s)")
          .Line(&RouteSpec::line)
          .Then([](PolicyReading& reading, const YamlNode& node, RouteSpec& out) {
            CheckKeys(reading, node, AnswerRule(out), {"name", "when", "answer", "fallback"});
          })
          .Done();
  return ListShape(std::move(shape), 256, 1);
}

Shape<Named<ContextSpec>> ContextsShape() {
  auto shape =
      Fields<ContextSpec>("what a model's context is filled with")
          .Add("max_input_tokens", &ContextSpec::max_input_tokens, IntShape(0, kMaxTokens),
               "of the whole prompt (default: 0, what the model takes)")
          .Add("reserve_output_tokens", &ContextSpec::reserve_output_tokens, IntShape(1, kMaxTokens),
               "kept free for the answer (default: 512)")
          .Add("cite_tokens", &ContextSpec::cite_tokens, IntShape(0, kMaxTokens), "for passages (default: 2048)")
          .Add("per_document_tokens", &ContextSpec::per_document_tokens, IntShape(0, kMaxTokens),
               "of cite_tokens (default: 0, no cap)")
          .Add("history_tokens", &ContextSpec::history_tokens, IntShape(0, kMaxTokens),
               "for earlier turns, the newest first (default: 0, all)")
          .Add("forbidden", &ContextSpec::forbidden, ListShape(PersonalKindShape(), kPersonalKindCount, 0, true),
               "kinds of personal data that must not enter (default: none)")
          .Add("force_citations", &ContextSpec::force_citations, BoolShape(),
               "a grammar makes each sentence quote a passage (default: false)")
          .Line(&ContextSpec::line)
          .Then([](PolicyReading& reading, const YamlNode& node, ContextSpec& out) {
            const int64_t parts = int64_t{out.cite_tokens} + out.history_tokens;
            if (out.max_input_tokens > 0 && parts > out.max_input_tokens) {
              reading.Fail(node,
                           fmt::format("cite_tokens and history_tokens are {} together, more than max_input_tokens "
                                       "{}",
                                       parts, out.max_input_tokens));
            }
          })
          .Done();
  return NamedShape<ContextSpec>(NameShape(), std::move(shape), 256,
                                 [](ContextSpec& out, const std::string& name) { out.name = name; });
}

}  // namespace surety::gateway
