// The part of a governed request after generation: verdicts, release, review, audit, cost.
#include <algorithm>
#include <span>
#include <utility>

#include <boost/json.hpp>

#include "base/check.h"
#include "base/hash.h"
#include "gateway/governed_task.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr double kNanosPerMinute = 60e9;
constexpr size_t kBareRowBytes = 2048;   // of most rows without texts

std::string RepairText(const Judgement& judgement) {
  std::string text = "An earlier attempt was not acceptable (" + judgement.reason + "). Avoid this:";
  for (const Verdict& verdict : judgement.verdicts) {
    for (const Finding& finding : verdict.findings) text += " " + finding.what + ";";
  }
  return text;
}

bool AllPassed(const std::vector<Verdict>& verdicts) {
  return std::ranges::all_of(verdicts, [](const Verdict& v) { return v.outcome == Verdict::Outcome::kPass; });
}

json::array CallsJson(const std::vector<AnswerText::Call>& calls) {
  json::array out;
  for (const AnswerText::Call& call : calls) {
    out.push_back(json::object{{"name", call.name}, {"arguments", call.arguments}});
  }
  return out;
}

json::object TicketContext(const Evidence& evidence, const DecisionRecord& record, const RouteSpec& route,
                           const Policy& policy, const ToolArguments& arguments, const std::string& setback) {
  json::array passages, tools, writes, verdicts, conflicts;
  for (const Passage& passage : evidence.passages) {
    passages.push_back(json::object{{"id", passage.document + ":" + passage.chunk + "@" + passage.version},
                                    {"title", passage.title},
                                    {"text", passage.text}});
  }
  for (const ToolResult& result : evidence.tools) {
    json::object one{{"tool", result.tool}, {"observed_at", UtcInstant(result.observed_at_ns)},
                     {"digest", result.digest}};
    if (result.status.ok()) {
      one["value"] = result.value;
    } else {
      one["error"] = result.status.message();
    }
    tools.push_back(std::move(one));
  }
  for (const std::string& name : route.tools) {
    const ToolSpec& spec = policy.tools.at(name);
    if (spec.kind != ToolSpec::Kind::kWrite) continue;
    json::object given;
    for (const std::string& argument : spec.arguments) {
      if (const auto found = arguments.find(argument); found != arguments.end()) given[argument] = found->second;
    }
    writes.push_back(json::object{{"tool", name}, {"arguments", std::move(given)}, {"four_eyes", spec.four_eyes}});
  }
  for (const Verdict& verdict : record.verdicts) {
    json::array findings;
    for (const Finding& finding : verdict.findings) {
      findings.push_back(json::object{{"what", finding.what}, {"where", finding.where}, {"offset", finding.offset},
                                      {"length", finding.length}});
    }
    verdicts.push_back(json::object{{"verifier", verdict.verifier}, {"outcome", NameOf(verdict.outcome)},
                                    {"reason", verdict.reason}, {"findings", std::move(findings)}});
  }
  for (const Conflict& conflict : record.conflicts) {
    conflicts.push_back(json::object{{"invariant", conflict.invariant}, {"when", conflict.when},
                                     {"require", conflict.require},
                                     {"violated_by", json::value_from(conflict.violated_by)}});
  }
  return {{"passages", std::move(passages)}, {"tools", std::move(tools)},         {"writes", std::move(writes)},
          {"verdicts", std::move(verdicts)}, {"conflicts", std::move(conflicts)},
          {"problem", record.error.empty() ? setback : record.error}};
}

}  // namespace

std::shared_ptr<const api::Decision> GovernedTask::Note() const {
  return std::make_shared<const api::Decision>(record_.decision);
}

std::string GovernedTask::ReviewQueueOf(const RouteSpec& route) const {
  if (!route.release.review.empty()) return route.release.review;
  return route.queue;   // empty: `check` finds that; nobody is guessed to be the one who decides
}

void GovernedTask::Verify() {
  if (setup_.shadow) return EndShadow(&generation_->answer);
  if (cancelled_ && !generation_->streamed) {
    return Refuse(api::FinishReason::kCancelled, CancelledError("the caller left"), api::Outcome::kRefused);
  }
  EnterStage(api::Stage::kVerifying);
  auto answer = std::make_shared<AnswerText>(generation_->answer);
  Judgement judgement = JudgeAnswer(answer);
  record_.times.verify_ns += Now() - stage_ns_;
  stage_ns_ = Now();
  part_ns_ = stage_ns_;
  record_.verdicts = judgement.verdicts;
  record_.action = NameOf(judgement.action);
  record_.answer_digest = DigestOf(*answer);
  // What came too late is no answer, and what was not judged for want of time has no judgement.
  if (judgement.action != Judgement::Action::kBlock && !cancelled_ && Stopped()) return;
  Conclude(std::move(answer), std::move(judgement));
}

// As it is delivered, and with the stop text that a caller can have given back with it: both must pass.
Judgement GovernedTask::JudgeAnswer(std::shared_ptr<const AnswerText> answer) {
  const int64_t deadline = Now() + Left();
  const auto judge = [&](std::shared_ptr<const AnswerText> text) {
    return setup_.runtime->verifiers->JudgeUntil(route_->verify, std::move(text), evidence_,
                                                 signals_.risk == Level::kLow, deadline);
  };
  Judgement delivered = judge(answer);
  if (generation_->last.stop_text.empty() || delivered.action == Judgement::Action::kBlock) return delivered;
  auto ended = std::make_shared<AnswerText>(*answer);
  ended->text += generation_->last.stop_text;
  Judgement with_stop = judge(std::move(ended));
  const bool worse = with_stop.action == delivered.action && !AllPassed(with_stop.verdicts);
  return with_stop.action > delivered.action || worse ? with_stop : delivered;
}

void GovernedTask::Conclude(std::shared_ptr<const AnswerText> answer, Judgement judgement) {
  const api::FinishReason finish = generation_->last.finish;
  using Action = Judgement::Action;
  record_.attempts.push_back(route_->name + ":" + record_.model + ":" + record_.action);
  if (judgement.action != Action::kRelease) record_.decision.verifier = judgement.verifier;
  if (stream_) {  // its draft is out; the end says whether it may be used
    record_.decision.outcome = api::Outcome::kStreamed;
    if (judgement.action == Action::kRelease) {
      released_ = *answer;
      return EndStream(finish, OkStatus());
    }
    return EndStream(api::FinishReason::kFiltered, OkStatus());
  }
  if (judgement.action == Action::kRepair && record_.decision.attempts < route_->max_attempts) {
    if (Stopped()) return;
    repair_ = RepairText(judgement);
    return Generate(*route_);
  }
  const std::string queue = ReviewQueueOf(*route_);
  const bool by_person = judgement.action == Action::kReview || judgement.action == Action::kRepair ||
                         !route_->release.review.empty();
  if (judgement.action != Action::kBlock && by_person) return SendToReview(queue, answer->text);
  if (judgement.action == Action::kBlock) {
    for (const FallbackSpec& fallback : route_->fallback) {
      const bool for_verifier = fallback.on.empty() ||
                                std::ranges::find(fallback.on, FallbackSpec::Cause::kVerifier) != fallback.on.end();
      if (for_verifier) {
        return FallBack(FallbackSpec::Cause::kVerifier,
                        Status(StatusCode::kPermissionDenied, "a check kept the answer back"));
      }
    }
    return Refuse(api::FinishReason::kFiltered, OkStatus(), api::Outcome::kRefused);
  }
  record_.decision.outcome = api::Outcome::kHeld;
  auto token = ReleaseToken::ForJudgement(*route_, policy(), setup_.decision, *answer, judgement);
  if (!token) return Refuse(api::FinishReason::kFiltered, token.error(), api::Outcome::kRefused);
  Release(*std::move(token), *answer, finish);
}

void GovernedTask::Release(ReleaseToken token, AnswerText answer, api::FinishReason finish) {
  record_.answer_digest = DigestOf(answer);
  record_.answer = answer.text;
  released_ = answer;
  api::Event last;
  last.finish = finish;
  if (generation_ != nullptr) last.stop_text = generation_->last.stop_text;
  auto shared_token = std::make_shared<ReleaseToken>(std::move(token));
  Record([this, shared_token, answer = std::move(answer)](api::Event event) {
    StoreInCache();  // before the answer leaves: who asks again at once finds it
    const Status released = sink_.Release(std::move(*shared_token), answer, event);
    if (released.ok()) return StartShadow();
    event.finish = api::FinishReason::kError;
    event.error = released;
    sink_.Refuse(std::move(event));
  }, std::move(last));
}

void GovernedTask::SendToReview(const std::string& queue, std::string draft) {
  if (setup_.shadow) return EndShadow(nullptr);
  if (stream_) stream_.reset();
  if (queue.empty()) {
    return Refuse(api::FinishReason::kError,
                  FailedPreconditionError("a person must decide this, and route '" + route_->name +
                                          "' names no review queue"), api::Outcome::kRefused);
  }
  Ticket ticket;
  ticket.decision = setup_.decision;
  ticket.queue = queue;
  ticket.route = route_->name;
  ticket.tenant = record_.tenant;
  ticket.subject = record_.subject;
  ticket.risk = NameOf(signals_.risk);
  ticket.question = conversation_.question;
  ticket.text = draft;
  ticket.draft = std::move(draft);
  ticket.context = TicketContext(*evidence_, record_, *route_, policy(), Arguments(), setback_);
  if (generation_ != nullptr) ticket.context["calls"] = CallsJson(generation_->answer.calls);
  Result<Ticket> created = Error(InternalError("no ticket was made"));
  if (!Keep([&] { created = services_.review->Create(std::move(ticket)); })) return RefuseErased();
  Spent(&StageTimes::review_ns);
  if (!created) {
    return Refuse(api::FinishReason::kError, UnavailableError("the review queue does not take tickets"),
                  api::Outcome::kRefused);
  }
  record_.decision.review_ticket = created->id;
  Refuse(api::FinishReason::kError, FailedPreconditionError("a person answers this; ask again with the decision's id"),
         api::Outcome::kReview);
}

void GovernedTask::Refuse(api::FinishReason finish, Status error, api::Outcome outcome) {
  if (setup_.shadow) return EndShadow(nullptr);
  record_.decision.outcome = outcome;
  if (record_.error.empty() && !error.ok()) record_.error = error.ToString();
  if (generation_ != nullptr && generation_->streamed) return EndStream(finish, std::move(error));
  record_.decision.draft = false;  // no piece of it has left
  api::Event last;
  last.finish = finish;
  last.error = std::move(error);
  Record([this](api::Event event) { sink_.Refuse(std::move(event)); }, std::move(last));
}

bool GovernedTask::Keep(FunctionRef<void()> keep) {
  // What is kept may be a submission, whose last event can end the request, on another thread, before it returns here.
  if (const auto running = running_; running != nullptr) return services_.scopes->Keep(*running, keep);
  keep();
  return true;
}

void GovernedTask::RefuseErased() {
  Refuse(api::FinishReason::kError,
         FailedPreconditionError("what is kept of this subject was erased while the request ran; ask again"),
         api::Outcome::kRefused);
}

void GovernedTask::EndStream(api::FinishReason finish, Status error) {
  if (record_.error.empty() && !error.ok()) record_.error = error.ToString();
  record_.answer_digest = DigestOf(generation_->answer);
  record_.answer = generation_->answer.text;
  api::Event last;
  last.finish = finish;
  last.error = std::move(error);
  const bool complete = finish == api::FinishReason::kStop || finish == api::FinishReason::kLength;
  record_.decision.outcome = complete ? api::Outcome::kStreamed : api::Outcome::kRefused;
  if (complete) last.stop_text = generation_->last.stop_text;
  Record([this, complete](api::Event event) {
    if (complete) StoreInCache();
    stream_->End(std::move(event));
  }, std::move(last));
}

// Texts are sealed under the subject's key, or left out.
std::string GovernedTask::RowOfDecision(RowTexts& texts) {
  json::object taken = record_.TakeTexts();
  if (taken.at("request").get_object().empty()) taken["question"] = conversation_.question;  // else it stands in that
  if (services_.vault == nullptr) return RowWithoutTexts(texts);
  texts.text = json::serialize(taken);
  Result<std::string> payload = std::string();
  texts.erased = !Keep([&] {
    payload = services_.vault->SealToText(record_.tenant, record_.subject, setup_.decision, texts.text);
  });
  if (!payload) texts.sealed = payload.error();
  if (texts.erased || !payload) return RowWithoutTexts(texts);
  static constexpr std::string_view kMember = ",\"payload\":";
  std::string row;
  row.reserve(kBareRowBytes + payload->size() + kMember.size());
  record_.AppendRow(row);
  return row.append(kMember).append(*payload).append("}");
}

std::string GovernedTask::RowWithoutTexts(const RowTexts& texts) const {
  std::string row;
  row.reserve(kBareRowBytes);
  record_.AppendRow(row);
  if (services_.vault == nullptr) return row.append("}");
  json::object left_out{{"why", "erased"}};
  if (!texts.erased) {
    left_out = {{"why", texts.sealed.ok() ? "size" : "vault"}, {"bytes", texts.text.size()},
                {"sha256", HexOf(Sha256Of(std::as_bytes(std::span(texts.text))))}};
  }
  return row.append(",\"payload_left_out\":").append(json::serialize(left_out)).append("}");
}

void GovernedTask::Record(std::function<void(api::Event)> deliver, api::Event last) {
  SURETY_CHECK_MSG(!setup_.shadow, "a shadow has no decision of its own");
  if (std::exchange(release_done_, true)) return;
  record_.decision.cost = record_.cost.total();
  record_.times.release_ns = 0;
  record_.times.total_ns = Now() - start_ns_;
  last.request = setup_.id;
  last.usage = record_.usage;
  last.timings = {record_.times.queue_ns, record_.times.prefill_ns, record_.times.decode_ns};
  auto finish = [self = shared_from_this(), deliver = std::move(deliver),
                 last = std::move(last)](Result<AuditRow> row) mutable {
    auto step = [self, deliver = std::move(deliver), last = std::move(last), written = row.has_value()]() mutable {
      self->Spent(&StageTimes::audit_ns);
      if (!written) {
        self->record_.decision.outcome = api::Outcome::kRefused;
        self->record_.error = "UNAVAILABLE: the audit log does not take rows";
      }
      if (written && self->services_.decision_rows != nullptr) ++*self->services_.decision_rows;
      self->Settle(written ? last.finish : api::FinishReason::kError);
      last.decision = self->Note();
      if (written) {
        deliver(std::move(last));
      } else {
        // Without a row nothing is released, whatever was decided.
        last.finish = api::FinishReason::kError;
        last.error = UnavailableError("the audit log does not take rows");
        self->stream_ ? self->stream_->End(std::move(last)) : self->sink_.Refuse(std::move(last));
      }
      self->running_.reset();
      if (self->setup_.ended) std::exchange(self->setup_.ended, nullptr)();
    };
    auto shared = std::make_shared<decltype(step)>(std::move(step));
    if (!self->services_.post([shared] { (*shared)(); })) (*shared)();
  };
  auto texts = std::make_shared<RowTexts>();
  std::string row = RowOfDecision(*texts);
  auto shared = std::make_shared<decltype(finish)>(std::move(finish));
  if (!texts->sealed.ok()) {  // nothing is released, but the row says that it was asked for
    record_.decision.outcome = api::Outcome::kRefused;
    record_.error = StatusCodeName(texts->sealed.code());
    return services_.audit->AppendTextHere("decision", RowWithoutTexts(*texts), [shared, texts](Result<AuditRow>) {
      (*shared)(Error(texts->sealed));
    });
  }
  // A row that is too long with its texts is written without them.
  const auto written = [this, shared, texts](Result<AuditRow> first) mutable {
    const bool refused = !first && first.error().code() == StatusCode::kInvalidArgument;
    if (!refused) return (*shared)(std::move(first));
    services_.audit->AppendTextHere("decision", RowWithoutTexts(*texts), [shared](Result<AuditRow> second) {
      (*shared)(std::move(second));
    });
  };
  services_.audit->AppendTextHere("decision", std::move(row), written);
}

void GovernedTask::StoreInCache() {
  if (!basis_ || !partition_ || released_.text.empty() || !released_.calls.empty()) return;
  const bool complete = generation_ != nullptr && generation_->last.finish == api::FinishReason::kStop;
  if (!complete || !AllPassed(record_.verdicts)) return;  // what a verifier did not see passed is released once
  // The store changed under the search.
  if (!route_->retrieve.empty() && basis_->retrieval_snapshot != evidence_->retrieval_snapshot) return;
  CachedAnswer entry;
  entry.answer = released_;
  entry.decision = setup_.decision;
  entry.answer_digest = DigestOf(released_);
  for (const Passage& passage : evidence_->passages) {
    entry.documents.push_back(passage.document + "@" + passage.version);
  }
  entry.validity = evidence_->validity;
  for (const std::string& verifier : route_->verify) {  // a code's meaning may change before a document does
    const auto table = setup_.runtime->tables.find(verifier);
    if (table != setup_.runtime->tables.end()) {
      entry.validity = entry.validity.Intersect(table->second.ValidityAt(as_of_ns_));
    }
  }
  entry.tenant = record_.tenant;
  entry.subject = record_.subject;
  entry.cost = record_.cost.total();
  entry.attempts = record_.decision.attempts;
  entry.stored_ns = services_.clock->WallNanos();
  // An entry that does not fit, or whose subject was erased meanwhile, is no failure of the request.
  (void)Keep([&] {
    const Status stored = services_.cache->Store(*partition_, *basis_, conversation_.question, question_vector_,
                                                 std::move(entry), route_->cache.ttl_ns);
    (void)stored.ok();
  });
}

// Before the last event, so that who has it finds budgets and figures as they are after it.
void GovernedTask::Settle(api::FinishReason finish) {
  record_.times.total_ns = Now() - start_ns_;
  record_.times.release_ns = Now() - stage_ns_;
  if (finish == api::FinishReason::kStop || finish == api::FinishReason::kLength) {
    if (record_.times.first_token_ns == 0) record_.times.first_token_ns = record_.times.total_ns;
    if (record_.times.first_useful_ns == 0) record_.times.first_useful_ns = record_.times.total_ns;
  }
  if (reservation_ != nullptr) reservation_->Settle(used_);
  reservation_.reset();
  NoteStanding();
  services_.ledger->Record(record_);
}

}  // namespace surety::gateway
