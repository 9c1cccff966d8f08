// An authority of one's own and a certificate signed by it, for tests of TLS, and files that hold them. Threads: any.
#pragma once

#include <string>

namespace surety::gateway {

struct TestCertificates {
  std::string authority;           // PEM
  std::string certificate, key;    // PEM, signed by the authority
};
// P-256. `names`: as subjectAltName has them: "IP:127.0.0.1,DNS:localhost". The certificate is valid from an hour ago
// for `seconds`, less than an hour of which makes it one that has expired; its authority for a day.
TestCertificates MakeTestCertificates(const std::string& names, long seconds = 90'000);

// A folder of its own, removed at the end with all that is in it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }
  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& contents, bool executable = false) const;

 private:
  std::string path_;
};

}  // namespace surety::gateway
