#include "gateway/payload_vault.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sqlite3.h>

#include "base/hash.h"
#include "gateway/partition.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr size_t kKeyBytes = 32, kNonceBytes = 12, kTagBytes = 16;
constexpr size_t kMaxCachedKeys = 4096;

std::string RandomText(size_t n_bytes) {
  std::string bytes(n_bytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(n_bytes)) != 1) bytes.clear();
  return bytes;
}

std::string ToHex(std::string_view bytes) {
  return HexOf(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
}

std::optional<std::string> FromHex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = HexDigitValue(hex[i]), low = HexDigitValue(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

struct Sealed {
  std::string nonce, data, tag;
};

using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

std::optional<Sealed> Encrypt(std::string_view key, std::string_view context, std::string_view text) {
  Sealed out{RandomText(kNonceBytes), std::string(text.size(), '\0'), std::string(kTagBytes, '\0')};
  const CipherContext cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  int n = 0;
  const bool ok =
      !out.nonce.empty() && cipher != nullptr &&
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Bytes(key), Bytes(std::string_view(out.nonce))) == 1 &&
      EVP_EncryptUpdate(cipher.get(), nullptr, &n, Bytes(context), static_cast<int>(context.size())) == 1 &&
      EVP_EncryptUpdate(cipher.get(), Bytes(out.data), &n, Bytes(text), static_cast<int>(text.size())) == 1 &&
      EVP_EncryptFinal_ex(cipher.get(), Bytes(out.data) + n, &n) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, out.tag.data()) == 1;
  if (!ok) return std::nullopt;
  return out;
}

std::optional<std::string> Decrypt(std::string_view key, std::string_view context, Sealed sealed) {
  if (sealed.nonce.size() != kNonceBytes || sealed.tag.size() != kTagBytes) return std::nullopt;
  std::string text(sealed.data.size(), '\0');
  const CipherContext cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  int n = 0;
  const bool ok =
      cipher != nullptr &&
      EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Bytes(key),
                         Bytes(std::string_view(sealed.nonce))) == 1 &&
      EVP_DecryptUpdate(cipher.get(), nullptr, &n, Bytes(context), static_cast<int>(context.size())) == 1 &&
      EVP_DecryptUpdate(cipher.get(), Bytes(text), &n, Bytes(std::string_view(sealed.data)),
                        static_cast<int>(sealed.data.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, sealed.tag.data()) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), Bytes(text) + n, &n) == 1;
  if (!ok) return std::nullopt;
  return text;
}

Result<std::string> ReadMasterKey(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    const std::string key = RandomText(kKeyBytes);
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return Error(IoError("'" + path + "': " + std::strerror(errno)));
    const bool written = key.size() == kKeyBytes && write(fd, key.data(), key.size()) == ssize_t(kKeyBytes) &&
                         fsync(fd) == 0;
    close(fd);
    if (!written) return Error(IoError("'" + path + "': the key could not be written"));
    return key;
  }
  if (fd < 0) return Error(IoError("'" + path + "': " + std::strerror(errno)));
  std::string key(kKeyBytes + 1, '\0');
  const ssize_t n = read(fd, key.data(), key.size());
  struct stat info = {};
  const bool open_to_others = fstat(fd, &info) == 0 && (info.st_mode & 077) != 0;
  close(fd);
  if (n != ssize_t(kKeyBytes)) return Error(DataLossError("'" + path + "' holds no key of 32 bytes"));
  if (open_to_others) {
    return Error(FailedPreconditionError("'" + path + "' can be read by others: chmod 600 it"));
  }
  key.resize(kKeyBytes);
  return key;
}

class Vault final : public PayloadVault {
 public:
  Vault(sqlite3* database, std::string master) : database_(database), master_(std::move(master)) {}
  ~Vault() override {
    for (auto& [name, key] : keys_) OPENSSL_cleanse(key.data(), key.size());
    OPENSSL_cleanse(master_.data(), master_.size());
    sqlite3_close_v2(database_);
  }

  Status Prepare() {
    return Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;"
                   "CREATE TABLE IF NOT EXISTS keys(name TEXT PRIMARY KEY, nonce BLOB NOT NULL, data BLOB NOT NULL,"
                   " tag BLOB NOT NULL) WITHOUT ROWID;");
  }

  Result<json::object> Seal(std::string_view tenant, std::string_view subject, std::string_view decision,
                            std::string_view text) override {
    const std::string name = NameOfKey(tenant, subject);
    SURETY_ASSIGN_OR_RETURN(const std::string key, KeyFor(name, true));
    const auto sealed = Encrypt(key, decision, text);
    if (!sealed) return Error(InternalError("AES-GCM failed"));
    return json::object{{"key", name}, {"nonce", ToHex(sealed->nonce)}, {"data", ToHex(sealed->data)},
                        {"tag", ToHex(sealed->tag)}};
  }

  Result<std::string> Unseal(const json::object& sealed, std::string_view decision) override {
    const auto member = [&](std::string_view name) {
      const json::value* value = sealed.if_contains(name);
      return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
    };
    const auto nonce = FromHex(member("nonce")), data = FromHex(member("data")), tag = FromHex(member("tag"));
    if (!nonce || !data || !tag) return Error(DataLossError("a sealed text is damaged"));
    SURETY_ASSIGN_OR_RETURN(const std::string key, KeyFor(member("key"), false));
    auto text = Decrypt(key, decision, {*nonce, *data, *tag});
    if (!text) return Error(DataLossError("a sealed text is not what was sealed for this decision"));
    return *std::move(text);
  }

  Result<int> Erase(std::string_view tenant, std::string_view subject) override {
    const std::string name = NameOfKey(tenant, subject);
    const std::lock_guard lock(mutex_);
    if (const auto found = keys_.find(name); found != keys_.end()) {
      OPENSSL_cleanse(found->second.data(), found->second.size());
      keys_.erase(found);
    }
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_, "DELETE FROM keys WHERE name=?1", -1, &statement, nullptr) != SQLITE_OK) {
      return Error(Failure());
    }
    sqlite3_bind_text(statement, 1, name.c_str(), -1, SQLITE_TRANSIENT);
    const int rc = sqlite3_step(statement);
    sqlite3_finalize(statement);
    if (rc != SQLITE_DONE) return Error(Failure());
    const int n_keys = sqlite3_changes(database_);
    SURETY_RETURN_IF_ERROR(Execute("PRAGMA wal_checkpoint(TRUNCATE)"));  // the key is gone from the log too
    return n_keys;
  }

 private:
  // The names of tenants and subjects do not stand in the log.
  std::string NameOfKey(std::string_view tenant, std::string_view subject) const {
    std::string bytes = master_;
    AppendField(bytes, 1, tenant);
    AppendField(bytes, 2, subject);
    std::string name = HexOf(Sha256Of(std::as_bytes(std::span(bytes))));
    OPENSSL_cleanse(bytes.data(), bytes.size());
    return name;
  }

  Result<std::string> KeyFor(const std::string& name, bool make) {
    const std::lock_guard lock(mutex_);
    if (const auto found = keys_.find(name); found != keys_.end()) return found->second;
    SURETY_ASSIGN_OR_RETURN(std::optional<Sealed> wrapped, Load(name));
    std::string key;
    if (wrapped) {
      auto opened = Decrypt(master_, name, *std::move(wrapped));
      if (!opened) return Error(DataLossError("a key of the vault does not open with this master key"));
      key = *std::move(opened);
    } else if (!make) {
      return Error(NotFoundError("the key of this text was erased"));
    } else {
      key = RandomText(kKeyBytes);
      const auto sealed = key.empty() ? std::nullopt : Encrypt(master_, name, key);
      if (!sealed) return Error(InternalError("no random bytes for a key"));
      SURETY_RETURN_IF_ERROR(Save(name, *sealed));
    }
    if (keys_.size() >= kMaxCachedKeys) {
      OPENSSL_cleanse(keys_.begin()->second.data(), kKeyBytes);
      keys_.erase(keys_.begin());
    }
    keys_[name] = key;
    return key;
  }

  Result<std::optional<Sealed>> Load(const std::string& name) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_, "SELECT nonce, data, tag FROM keys WHERE name=?1", -1, &statement, nullptr) !=
        SQLITE_OK) {
      return Error(Failure());
    }
    sqlite3_bind_text(statement, 1, name.c_str(), -1, SQLITE_TRANSIENT);
    const int rc = sqlite3_step(statement);
    std::optional<Sealed> out;
    if (rc == SQLITE_ROW) {
      const auto column = [&](int i) {
        const void* bytes = sqlite3_column_blob(statement, i);
        const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, i));
        return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
      };
      out = Sealed{column(0), column(1), column(2)};
    }
    sqlite3_finalize(statement);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return Error(Failure());
    return out;
  }

  Status Save(const std::string& name, const Sealed& sealed) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_, "INSERT INTO keys(name, nonce, data, tag) VALUES(?1, ?2, ?3, ?4)", -1, &statement,
                           nullptr) != SQLITE_OK) {
      return Failure();
    }
    sqlite3_bind_text(statement, 1, name.c_str(), -1, SQLITE_TRANSIENT);
    int column = 2;
    for (const std::string* part : {&sealed.nonce, &sealed.data, &sealed.tag}) {
      sqlite3_bind_blob(statement, column++, part->data(), static_cast<int>(part->size()), SQLITE_TRANSIENT);
    }
    const int rc = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return rc == SQLITE_DONE ? OkStatus() : Failure();
  }

  Status Execute(const char* sql) {
    return sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? OkStatus() : Failure();
  }
  Status Failure() const { return IoError(std::string("the vault's database: ") + sqlite3_errmsg(database_)); }

  std::mutex mutex_;
  sqlite3* database_;
  std::string master_;
  std::map<std::string, std::string> keys_;
};

}  // namespace

Result<std::unique_ptr<PayloadVault>> PayloadVault::Open(const std::string& database,
                                                         const std::string& master_key_file) {
  SURETY_ASSIGN_OR_RETURN(std::string master, ReadMasterKey(master_key_file));
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  if (sqlite3_open_v2(database.c_str(), &handle, flags, nullptr) != SQLITE_OK) {
    const std::string why = handle == nullptr ? "no memory" : sqlite3_errmsg(handle);
    sqlite3_close_v2(handle);
    return Error(IoError("'" + database + "': " + why));
  }
  auto vault = std::make_unique<Vault>(handle, std::move(master));
  SURETY_RETURN_IF_ERROR(vault->Prepare());
  return std::unique_ptr<PayloadVault>(std::move(vault));
}

}  // namespace surety::gateway
