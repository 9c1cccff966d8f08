#include "gateway/document_rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/hash.h"

namespace surety::gateway {
namespace {

void PutList(std::string& out, const std::vector<std::string>& list) {
  PutNumber(out, static_cast<int64_t>(list.size()));
  for (const std::string& entry : list) PutField(out, entry);
}

void PutVarint(std::string& out, int64_t value) {
  auto rest = static_cast<uint64_t>(value);
  for (; rest >= 0x80; rest >>= 7) out += static_cast<char>(rest | 0x80);
  out += static_cast<char>(rest);
}

// False where the bytes end too early or the number is past `limit`.
bool TakeVarint(std::string_view& bytes, int64_t limit, int64_t& value) {
  uint64_t result = 0;
  for (int shift = 0; shift < 35 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    result |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) != 0) continue;
    value = static_cast<int64_t>(result);
    return value <= limit;
  }
  return false;
}

bool AllowsOne(const std::vector<std::string>& allowed, const std::string& value) {
  return allowed.empty() || (!value.empty() && std::ranges::find(allowed, value) != allowed.end());
}

}  // namespace

void PutNumber(std::string& out, int64_t value) {
  for (int i = 0; i < 8; ++i) out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}

void PutField(std::string& out, std::string_view bytes) {
  PutNumber(out, static_cast<int64_t>(bytes.size()));
  out += bytes;
}

std::string DocumentDigest(std::string_view bytes) {
  const Sha256Digest digest = Sha256Of(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return {digest.begin(), digest.end()};
}

std::string AudienceEncoding(const Document& document) {
  std::string out;
  PutField(out, document.tenant);
  for (const auto* list : {&document.permissions, &document.regions, &document.products, &document.languages}) {
    PutList(out, *list);
  }
  return out;
}

std::string ChunkSeal(const Document& document, int64_t number, std::string_view text) {
  std::string out;
  for (const std::string* field : {&document.id, &document.version, &document.title, &document.source}) {
    PutField(out, *field);
  }
  PutField(out, AudienceEncoding(document));
  PutNumber(out, document.validity.from_ns);
  PutNumber(out, document.validity.to_ns);
  PutNumber(out, number);
  PutField(out, text);
  return DocumentDigest(out);
}

std::string SearchableText(std::string_view title, std::string_view text) {
  std::string out(title);
  if (!out.empty()) out += '\n';
  return out += text;
}

bool Allows(const ReadRights& rights, const Document& document) {
  const auto& granted = document.permissions;
  const bool permitted = std::ranges::any_of(granted, [&](const std::string& permission) {
    return permission == "public" || std::ranges::find(rights.permissions, permission) != rights.permissions.end();
  });
  return permitted && (document.tenant.empty() || document.tenant == rights.tenant) &&
         AllowsOne(document.regions, rights.region) && AllowsOne(document.products, rights.product) &&
         AllowsOne(document.languages, rights.language) && document.validity.Contains(rights.as_of_ns);
}

Result<Document> LoadDocument(DocumentDb& db, int64_t row) {
  SURETY_ASSIGN_OR_RETURN(auto head, DocumentStatement::Prepare(
      db, "SELECT d.name, d.version, d.title, d.source, d.from_ns, d.to_ns, d.audience, a.tenant "
          "FROM document d JOIN audience a ON a.id = d.audience WHERE d.id = ?"));
  SURETY_ASSIGN_OR_RETURN(const bool found, head.Int(row).Step());
  const auto damaged = [&] {
    return Status{StatusCode::kDataLoss, fmt::format("document index '{}': row {} of its documents is damaged; make it "
                                                     "anew from its documents, or restore it", db.path(), row)};
  };
  if (!found) return Error(damaged());
  Document document;
  document.id = head.TextAt(0);
  document.version = head.TextAt(1);
  document.title = head.TextAt(2);
  document.source = head.TextAt(3);
  document.validity = {head.IntAt(4), head.IntAt(5)};
  document.tenant = head.TextAt(7);
  SURETY_ASSIGN_OR_RETURN(auto members, DocumentStatement::Prepare(
      db, "SELECT kind, value FROM audience_member WHERE audience = ? ORDER BY kind, value"));
  members.Int(head.IntAt(6));
  for (;;) {
    SURETY_ASSIGN_OR_RETURN(const bool more, members.Step());
    if (!more) return document;
    switch (static_cast<MemberKind>(members.IntAt(0))) {
      case MemberKind::kPermission: document.permissions.push_back(members.TextAt(1)); break;
      case MemberKind::kRegion: document.regions.push_back(members.TextAt(1)); break;
      case MemberKind::kProduct: document.products.push_back(members.TextAt(1)); break;
      case MemberKind::kLanguage: document.languages.push_back(members.TextAt(1)); break;
      default: return Error(damaged());
    }
  }
}

std::string EncodePlaces(std::span<const TermPlace> places) {
  std::string out;
  int64_t before = 0;
  for (const TermPlace& place : places) {
    PutVarint(out, place.number - before);
    PutVarint(out, place.count);
    PutVarint(out, place.length);
    before = place.number;
  }
  return out;
}

Result<std::vector<TermPlace>> DecodePlaces(std::string_view bytes) {
  std::vector<TermPlace> places;
  int64_t number = 0;
  while (!bytes.empty()) {
    TermPlace place;
    constexpr int64_t kMost = 1LL << 30;
    const bool whole = TakeVarint(bytes, kMaxChunks, place.number) && TakeVarint(bytes, kMost, place.count) &&
                       TakeVarint(bytes, kMost, place.length);
    number += place.number;
    if (!whole || place.number == 0 || number > kMaxChunks || place.count == 0 || place.count > place.length) {
      return Error(Status{StatusCode::kDataLoss, "the document index holds a damaged list of terms; make it anew from "
                                                 "its documents, or restore it"});
    }
    place.number = number;
    places.push_back(place);
  }
  return places;
}

}  // namespace surety::gateway
