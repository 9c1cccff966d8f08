// Any bytes as a document's file: a fault with the file's name, or a document that may be stored, whose chunks are its
// text and whose citations can be written.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "gateway/document_rows.h"
#include "gateway/document_store.h"
#include "gateway/document_text.h"

namespace surety::gateway {
namespace {

void CheckChunks(std::string_view text) {
  for (const size_t max_bytes : {size_t{7}, size_t{200}}) {
    std::string joined;
    for (const std::string& chunk : ChunksOf(text, max_bytes)) {
      SURETY_CHECK(!chunk.empty() && chunk.size() <= max_bytes);
      joined += chunk;
    }
    SURETY_CHECK(joined == text);
  }
}

void OneDocument(std::string_view bytes) {
  CheckChunks(bytes);
  for (const std::string& term : DocumentTerms(bytes)) {
    SURETY_CHECK(!term.empty() && FindNoText(term) == std::string::npos);
  }
  if (const auto instant = ParseDocumentInstant(bytes)) {
    const auto again = ParseDocumentInstant(DocumentInstantText(*instant));
    SURETY_CHECK(again.has_value() && *again == *instant);
  }
  const auto document = ParseDocument(bytes, "folder/file.md");
  if (!document) {
    SURETY_CHECK(document.error().message().find("file.md") != std::string::npos);
    return;
  }
  SURETY_CHECK(CheckCitable("id", document->id).ok() && CheckCitable("version", document->version).ok());
  SURETY_CHECK(!document->permissions.empty() && FindNoText(document->text) == std::string::npos);
  SURETY_CHECK(document->validity.from_ns < document->validity.to_ns);
  for (const auto* names : {&document->permissions, &document->regions, &document->products, &document->languages}) {
    for (const std::string& name : *names) SURETY_CHECK(CheckRightName("name", name).ok());
  }
  CheckChunks(document->text);
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::gateway::OneDocument(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
