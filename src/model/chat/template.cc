#include "model/chat/template.h"

#include <utility>

#include "model/chat/machine.h"
#include "model/chat/parser.h"

namespace surety::model {

struct ChatTemplate::Impl {
  TemplateLimits limits;
  chat::Template parsed;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(std::string_view source, const TemplateLimits& limits) {
  auto impl = std::make_unique<Impl>();
  impl->limits = limits;
  SURETY_ASSIGN_OR_RETURN(impl->parsed, chat::ParseTemplate(source, limits));
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
}

Result<std::vector<TextSegment>> ChatTemplate::Render(const TemplateInput& input) const {
  chat::Machine machine(impl_->parsed, input, impl_->limits);
  SURETY_ASSIGN_OR_RETURN(const chat::TaintedText text, machine.Run());
  std::vector<TextSegment> segments;
  size_t begin = 0;
  for (const auto& run : text.runs()) {
    segments.push_back({text.text().substr(begin, run.end - begin), run.trusted});
    begin = run.end;
  }
  return segments;
}

}  // namespace surety::model
