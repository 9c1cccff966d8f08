// What customers said and were told, encrypted for the audit log under a key of their own: the log can never change, so
// erasure destroys the key, and what was written under it can no longer be read by anybody.
//
// AES-256-GCM with a random key for each (tenant, subject), itself kept in a SQLite file, wrapped by a master key that
// lies in a file of its own, readable by its owner alone. The decision's id is authenticated with the text.
// Threads: any. Owns: its connection and an in-memory copy of keys in use. Errors: kNotFound: the key was erased;
// kDataLoss: a changed text, another decision's, or a wrong master key; kUnavailable: another process has the database;
// kIoError.
// Source: NIST SP 800-38D (GCM), SP 800-88 (cryptographic erase).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <boost/json/object.hpp>

#include "base/status.h"

namespace surety::gateway {

class PayloadVault {
 public:
  // Makes both files, readable by their owner alone, where neither is there. A master key that is there but is none, or
  // another vault's, is kDataLoss, never replaced; one that is missing beside a vault in use is kFailedPrecondition.
  static Result<std::unique_ptr<PayloadVault>> Open(const std::string& database, const std::string& master_key_file);
  virtual ~PayloadVault() = default;

  // {"key", "nonce", "tag", "data", "coding"}: hex, and `data` as `coding` says (base64; without it hex).
  virtual Result<boost::json::object> Seal(std::string_view tenant, std::string_view subject, std::string_view decision,
                                           std::string_view text) = 0;
  // The same as text, as Boost.JSON writes it.
  virtual Result<std::string> SealToText(std::string_view tenant, std::string_view subject, std::string_view decision,
                                         std::string_view text) = 0;
  virtual Result<std::string> Unseal(const boost::json::object& sealed, std::string_view decision) = 0;
  // Destroys the subject's key: how many there were. Again after kUnavailable: then bytes of a deleted key may still
  // stand in the database's write-ahead log; the count is of both calls.
  virtual Result<int> Erase(std::string_view tenant, std::string_view subject) = 0;
};

}  // namespace surety::gateway
