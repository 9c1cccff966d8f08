// API keys: a file that holds digests only, one JSON object a line.
//
//   {"id":"3f0c9a51b7de","name":"batch","role":"user","salt":"<32 hex>","sha256":"<64 hex>","tenant":"acme",
//    "permissions":["cases"],"region":"eu","expires":"2027-01-31"}
//
// Required: id, name, role, salt, sha256, tenant. Optional: permissions, region, product, policy_version, language,
// eligibility, effective_date, priority, expires. Empty lines and lines that start with '#' are skipped. Lines can be
// appended and deleted with any tool.
//
// A key is "surety-<id>-<43 characters>": 256 random bits. One salted SHA-256 is enough at rest: nobody searches 2^256
// keys, however fast the digest is; a slow one would only cost each request its time. The id finds the entry, so that a
// request costs one digest whatever the number of keys.
//
// Threads: a ring is immutable once shared. Errors: kInvalidArgument naming file, line and field.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "http/handler.h"

namespace surety::http {

struct NewApiKey {
  std::string key;    // shown once, kept nowhere
  std::string entry;  // the line for the file, with its line feed
};

// `identity`: subject is the name; a tenant that is empty becomes the name. `expires`: as in the file; empty: never.
Result<NewApiKey> MakeApiKey(Identity identity, const std::string& expires);

class KeyRing {
 public:
  static Result<KeyRing> Parse(std::string_view text, std::string_view path);
  static Result<KeyRing> Load(FileSystem& files, const std::string& path);

  // A key that the operator passed by other means; only its digest is kept. kInvalidArgument: shorter than 16
  // characters, or with characters that do not fit into a header.
  Status AddPlain(std::string_view key, Identity identity);

  bool empty() const { return entries_.empty() && plain_.empty(); }
  size_t size() const { return entries_.size() + plain_.size(); }

  // kUnauthenticated: unknown, wrong or expired. The comparison takes as long for a wrong key as for a right one.
  Result<Identity> Verify(std::string_view key, int64_t now_unix_s) const;

 private:
  struct Entry {
    std::string salt;
    Sha256Digest digest = {};
    Identity identity;
    int64_t expires_unix_s = 0;  // 0: never
  };

  Status AddLine(std::string_view line);

  std::map<std::string, Entry, std::less<>> entries_;  // by id
  std::vector<Entry> plain_;
};

}  // namespace surety::http
