// Keys and a self-signed certificate for tests, made when they are needed. Threads: any.
#pragma once

#include <string>

namespace surety::http {

struct PemPair {
  std::string certificate, key;
};
// P-256, for 127.0.0.1, valid for a day around now.
PemPair MakeSelfSigned();

// A file in the test's temporary folder, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& contents);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace surety::http
