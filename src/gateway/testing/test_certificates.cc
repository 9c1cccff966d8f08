#include "gateway/testing/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/check.h"

namespace surety::gateway {
namespace {

std::string TakePem(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string CertificatePem(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  return TakePem(bio);
}

void AddExtension(X509* certificate, int nid, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
  SURETY_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* NewCertificate(EVP_PKEY* key, const char* name, int serial, long seconds) {
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds - 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  return certificate;
}

}  // namespace

TestCertificates MakeTestCertificates(const std::string& names, long seconds) {
  EVP_PKEY* authority_key = EVP_EC_gen("P-256");
  EVP_PKEY* key = EVP_EC_gen("P-256");
  SURETY_CHECK(authority_key != nullptr && key != nullptr);
  X509* authority = NewCertificate(authority_key, "test authority", 1, 90'000);
  X509_set_issuer_name(authority, X509_get_subject_name(authority));
  AddExtension(authority, NID_basic_constraints, "critical,CA:TRUE");
  SURETY_CHECK(X509_sign(authority, authority_key, EVP_sha256()) > 0);
  X509* certificate = NewCertificate(key, "test server", 2, seconds);
  X509_set_issuer_name(certificate, X509_get_subject_name(authority));
  AddExtension(certificate, NID_subject_alt_name, names.c_str());
  SURETY_CHECK(X509_sign(certificate, authority_key, EVP_sha256()) > 0);
  TestCertificates made;
  made.authority = CertificatePem(authority);
  made.certificate = CertificatePem(certificate);
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  made.key = TakePem(bio);
  X509_free(authority);
  X509_free(certificate);
  EVP_PKEY_free(authority_key);
  EVP_PKEY_free(key);
  return made;
}

TestFolder::TestFolder() {
  path_ = (std::filesystem::temp_directory_path() / "surety-gateway-XXXXXX").string();
  SURETY_CHECK(::mkdtemp(path_.data()) != nullptr);
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TestFolder::Write(const std::string& name, const std::string& contents, bool executable) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << contents;
  std::filesystem::permissions(path, executable ? std::filesystem::perms(0755) : std::filesystem::perms(0644));
  return path;
}

}  // namespace surety::gateway
