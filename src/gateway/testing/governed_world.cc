#include "gateway/testing/governed_world.h"

#include <utility>

#include "base/check.h"

namespace surety::gateway {
namespace {

RouteSpec RouteOf(std::string name, RouteSpec::Answer answer) {
  RouteSpec route;
  route.when.push_back({"route", {name}, {}, {}, {}});
  route.name = std::move(name);
  route.answer = answer;
  route.model = "fast";
  return route;
}

DimensionSource ClaimSource(std::string_view name) {
  DimensionSource source;
  source.from = DimensionSource::From::kClaim;
  source.name = name;
  return source;
}

void AddRoutes(Policy& policy) {
  using Answer = RouteSpec::Answer;
  RouteSpec faq = RouteOf("faq", Answer::kTemplate);
  faq.template_name = "faq";
  RouteSpec held = RouteOf("held", Answer::kModel);
  held.verify = {"promises"};
  held.max_attempts = 2;
  RouteSpec stream = RouteOf("stream", Answer::kModel);
  stream.verify = {"promises"};
  stream.release = {ReleaseSpec::Audience::kInternal, ReleaseSpec::Mode::kStream, ""};
  RouteSpec reviewed = RouteOf("reviewed", Answer::kModel);
  reviewed.verify = {"promises"};
  reviewed.release.review = "supervisor";
  RouteSpec tools = RouteOf("tools", Answer::kModel);
  tools.tools = {"rail", "core"};
  tools.invariants = {"returned_implies_reversed"};
  tools.verify = {"promises"};
  RouteSpec cached = RouteOf("cached", Answer::kModel);
  cached.verify = {"promises"};
  cached.cache.mode = CacheSpec::Mode::kExact;
  cached.cache.subject_bound = false;
  RouteSpec limited = RouteOf("limited", Answer::kModel);
  limited.verify = {"promises"};
  limited.fallback = {{"faq", {}}};
  limited.deadline_ns = 200'000'000;
  RouteSpec otherwise = RouteOf("otherwise", Answer::kHuman);
  otherwise.when.clear();
  otherwise.always = true;
  otherwise.queue = "supervisor";
  for (RouteSpec* route : {&held, &stream, &tools, &cached, &limited}) route->queue = "supervisor";
  policy.routes = {faq, held, stream, reviewed, tools, cached, limited, otherwise};
}

}  // namespace

Reply AwaitReply(api::Backend& backend, api::GenerationRequest request) {
  struct Shared {
    std::mutex mutex;
    Reply reply;
    std::promise<void> ended;
  };
  auto shared = std::make_shared<Shared>();
  const auto id = backend.Submit(std::move(request), [shared](api::Event event) {
    const std::lock_guard lock(shared->mutex);
    const bool last = event.finish != api::FinishReason::kNone;
    shared->reply.text += event.text;
    for (const api::ToolCallDelta& delta : event.tool_calls) shared->reply.arguments += delta.arguments;
    if (last) shared->reply.last = event;
    shared->reply.events.push_back(std::move(event));
    if (last) shared->ended.set_value();
  });
  if (!id) {
    Reply reply;
    reply.refusal = id.error();
    return reply;
  }
  shared->ended.get_future().wait();
  const std::lock_guard lock(shared->mutex);
  return shared->reply;
}

Policy WorldPolicy() {
  Policy policy;
  policy.id = "test";
  policy.version = "2026.1";
  policy.digest = "digest-of-2026.1";
  policy.path = "policy.yaml";
  for (int i = 0; i < kDimensionCount; ++i) {
    policy.identity[static_cast<size_t>(i)] = ClaimSource(NameOf(static_cast<Dimension>(i)));
  }
  policy.identity[static_cast<size_t>(Dimension::kTenant)].required = true;
  policy.identity[static_cast<size_t>(Dimension::kPolicyVersion)].from = DimensionSource::From::kPolicy;
  ModelSpec fast;
  fast.name = "fast";
  fast.input_cost_per_token = 0.001;
  fast.output_cost_per_token = 0.01;
  fast.cache_read_input_token_cost = 0.0001;
  policy.models["fast"] = fast;
  VerifierSpec promises;
  promises.name = "promises";
  policy.verifiers["promises"] = promises;
  TemplateSpec faq;
  faq.name = "faq";
  faq.version = "1";
  faq.texts = {{"hours", "We are open from 9 to 5 in {region}."}, {"default", "Please call us."}};
  policy.templates["faq"] = faq;
  ToolSpec tool;
  for (const char* name : {"rail", "core"}) {
    tool.name = name;
    policy.tools[name] = tool;
  }
  policy.invariants["returned_implies_reversed"] = {"returned_implies_reversed", "rail.status == \"returned\"",
                                                    "core.reversed", 0};
  ReviewQueueSpec queue;
  queue.name = "supervisor";
  policy.review["supervisor"] = queue;
  policy.state.cache_shadow = 0;   // drawn by chance, it would ask the model once more now and then
  AddRoutes(policy);
  return policy;
}

GovernedWorld::GovernedWorld(Policy policy, std::shared_ptr<ResponseCache> own_cache) {
  script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"An ", "answer."}}; };
  checks["promises"] = [](const AnswerText& answer) {
    std::string all = answer.text;
    for (const AnswerText::Call& call : answer.calls) all += call.arguments;
    const bool bad = all.find("we guarantee") != std::string::npos;
    return bad ? Verdict::Outcome::kFail : Verdict::Outcome::kPass;
  };
  model = std::make_shared<ScriptedBackend>([this](const api::GenerationRequest& request) { return script(request); });
  cache = own_cache != nullptr ? std::move(own_cache) : std::shared_ptr(ResponseCache::Make(1 << 20, clock));
  auto store = ReviewStore::Open(":memory:", policy.review, clock);
  SURETY_CHECK(store.has_value());
  review = *std::move(store);
  GovernedBackend::Options options;
  options.name = "governed";
  options.n_workers = 4;
  options.clock = &clock;
  options.cache = cache;
  options.audit = audit;
  options.review = review;
  options.ledger = ledger;
  options.personal = [](std::string_view) { return std::vector<std::string>(); };
  auto made = GovernedBackend::Make(std::move(options), MakeParts(std::move(policy)));
  SURETY_CHECK(made.has_value());
  backend = *std::move(made);
}

GovernedWorld::~GovernedWorld() { backend.reset(); }

std::shared_ptr<PolicyRuntime> GovernedWorld::MakeParts(Policy policy) {
  auto runtime = std::make_shared<PolicyRuntime>();
  auto verifiers = std::make_unique<FakeVerifiers>();
  verifiers->specs = policy.verifiers;
  for (const auto& [name, check] : checks) {
    // Through the world, so that a test can change it later.
    verifiers->checks[name] = [this, key = name](const AnswerText& answer) { return checks.at(key)(answer); };
  }
  auto fake_tools = std::make_unique<FakeTools>();
  for (const auto& [name, spec] : policy.tools) {
    fake_tools->answers[name] = [this, key = name](const ToolArguments& arguments) { return tools.at(key)(arguments); };
  }
  runtime->policy = std::make_shared<const Policy>(std::move(policy));
  runtime->signals = std::make_unique<FakeSignals>();
  runtime->verifiers = std::move(verifiers);
  runtime->tools = std::move(fake_tools);
  for (const auto& [name, spec] : runtime->policy->models) runtime->models[name] = model;
  return runtime;
}

api::Caller GovernedWorld::Anna() {
  api::Caller caller;
  caller.subject = "anna";
  caller.claims = {{"tenant", "acme"},    {"permissions", boost::json::array{"cases"}}, {"region", "US-NY"},
                   {"product", "card"},   {"language", "en"},                           {"eligibility", "retail"},
                   {"effective_date", "2025-11-30"}};
  return caller;
}

api::GenerationRequest GovernedWorld::Ask(std::string question, api::Caller caller) const {
  api::GenerationRequest request;
  request.messages.push_back(boost::json::object{{"role", "user"}, {"content", question}});
  request.has_messages = true;
  request.caller = std::move(caller);
  request.sampling.temperature = 0;
  return request;
}

Reply GovernedWorld::Send(api::GenerationRequest request) { return AwaitReply(*backend, std::move(request)); }

}  // namespace surety::gateway
