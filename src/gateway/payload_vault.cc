#include "gateway/payload_vault.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sqlite3.h>

#include "base/hash.h"
#include "base/secure_random.h"
#include "gateway/partition.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr size_t kKeyBytes = 32, kNonceBytes = 12, kTagBytes = 16;
constexpr size_t kMaxCachedKeys = 4096;
constexpr int kVaultBusyMs = 1000;
constexpr std::string_view kCanaryName = "canary", kCanaryText = "surety vault 1";

// A key in memory, wiped when it goes.
class VaultKey {
 public:
  VaultKey() = default;
  explicit VaultKey(std::string bytes) : bytes_(std::move(bytes)) {}
  VaultKey(const VaultKey&) = default;
  VaultKey(VaultKey&& other) noexcept { std::swap(bytes_, other.bytes_); }
  VaultKey& operator=(VaultKey other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~VaultKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

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

std::string ToBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(n));
  return text;
}

// The one spelling that ToBase64 gives.
std::optional<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes(text.size() / 4 * 3 + 1, '\0');
  const int n = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (n < 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<size_t>(n) - padding);
  if (ToBase64(bytes) != text) return std::nullopt;
  return bytes;
}

unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

struct Sealed {
  std::string nonce, data, tag;
};

using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

// Looked up once: finding it by name takes longer than sealing a short text. Contexts are not kept, because one holds
// what was made of a key, and that must be gone with the key.
const EVP_CIPHER* VaultCipher() {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  return cipher;
}

std::optional<Sealed> Encrypt(std::string_view key, std::string_view context, std::string_view text) {
  Sealed out{std::string(kNonceBytes, '\0'), std::string(text.size(), '\0'), std::string(kTagBytes, '\0')};
  const CipherContext cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  int n = 0;
  const bool ok =
      SecureRandom(std::span(Bytes(out.nonce), kNonceBytes)) && cipher != nullptr &&
      EVP_EncryptInit_ex(cipher.get(), VaultCipher(), nullptr, Bytes(key), Bytes(std::string_view(out.nonce))) == 1 &&
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
      EVP_DecryptInit_ex(cipher.get(), VaultCipher(), nullptr, Bytes(key),
                         Bytes(std::string_view(sealed.nonce))) == 1 &&
      EVP_DecryptUpdate(cipher.get(), nullptr, &n, Bytes(context), static_cast<int>(context.size())) == 1 &&
      EVP_DecryptUpdate(cipher.get(), Bytes(text), &n, Bytes(std::string_view(sealed.data)),
                        static_cast<int>(sealed.data.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, sealed.tag.data()) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), Bytes(text) + n, &n) == 1;
  if (ok) return text;
  OPENSSL_cleanse(text.data(), text.size());
  return std::nullopt;
}

Status KeyFileError(const std::string& path) { return IoError("'" + path + "': " + std::strerror(errno)); }

bool WriteAndSync(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return fsync(fd) == 0;
}

Status SyncFolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && fsync(fd) == 0;
  const Status failed = synced ? OkStatus() : KeyFileError(folder);
  if (fd >= 0) close(fd);
  return failed;
}

// Under another name until it is whole and on disk, so that no crash leaves a part of it; one that is there meanwhile
// stays.
Status MakeMasterKey(const std::string& path) {
  const VaultKey key(RandomText(kKeyBytes));
  if (key.bytes().size() != kKeyBytes) return InternalError("no random bytes for the master key");
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);  // readable by its owner alone
  if (fd < 0) return KeyFileError(temporary);
  Status status = WriteAndSync(fd, key.bytes()) ? OkStatus() : KeyFileError(temporary);
  close(fd);
  if (status.ok() && link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST) status = KeyFileError(path);
  (void)unlink(temporary.c_str());
  SURETY_RETURN_IF_ERROR(status);
  return SyncFolderOf(path);
}

// `may_make`: there is nothing that another key opens.
Result<VaultKey> ReadMasterKey(const std::string& path, bool may_make) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    if (!may_make) {
      return Error(FailedPreconditionError("the vault holds keys, but its master key '" + path +
                                           "' is not there: put its copy back"));
    }
    SURETY_RETURN_IF_ERROR(MakeMasterKey(path));
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (fd < 0) return Error(KeyFileError(path));
  std::string key(kKeyBytes + 1, '\0');
  const ssize_t n = read(fd, key.data(), key.size());
  struct stat info = {};
  const bool open_to_others = fstat(fd, &info) == 0 && (info.st_mode & 077) != 0;
  close(fd);
  key.resize(kKeyBytes);
  VaultKey read_key(std::move(key));
  if (n != ssize_t(kKeyBytes)) return Error(DataLossError("'" + path + "' holds no key of 32 bytes"));
  if (open_to_others) {
    return Error(FailedPreconditionError("'" + path + "' can be read by others: chmod 600 it"));
  }
  return read_key;
}

// Only its owner may read it. A file that is there is not opened: closing it would drop this process's locks on it.
Status MakePrivateFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) {
    close(fd);
    return OkStatus();
  }
  if (errno != EEXIST) return KeyFileError(path);
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return KeyFileError(path);
  for (const char* part : {"", "-wal", "-shm"}) {  // as an earlier version made them
    if ((info.st_mode & 077) != 0 && chmod((path + part).c_str(), 0600) != 0 && errno != ENOENT) {
      return KeyFileError(path + part);
    }
  }
  return OkStatus();
}

class Vault final : public PayloadVault {
 public:
  explicit Vault(sqlite3* database) : database_(database) {}
  ~Vault() override { sqlite3_close_v2(database_); }

  Status Prepare(const std::string& master_key_file) {
    sqlite3_busy_timeout(database_, kVaultBusyMs);
    SURETY_RETURN_IF_ERROR(Execute(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;"
        "CREATE TABLE IF NOT EXISTS keys(name TEXT PRIMARY KEY, nonce BLOB NOT NULL, data BLOB NOT NULL,"
        " tag BLOB NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS canary(name TEXT PRIMARY KEY, nonce BLOB NOT NULL, data BLOB NOT NULL,"
        " tag BLOB NOT NULL) WITHOUT ROWID;"));
    SURETY_ASSIGN_OR_RETURN(const std::optional<Sealed> canary, Load("canary", std::string(kCanaryName)));
    SURETY_ASSIGN_OR_RETURN(const std::string any, AnyName());
    SURETY_ASSIGN_OR_RETURN(master_, ReadMasterKey(master_key_file, !canary && any.empty()));
    SURETY_RETURN_IF_ERROR(CheckMaster(canary, any).WithContext("'" + master_key_file + "'"));
    names_ = NamingKey();
    return OkStatus();
  }

  Result<json::object> Seal(std::string_view tenant, std::string_view subject, std::string_view decision,
                            std::string_view text) override {
    std::string name;
    SURETY_ASSIGN_OR_RETURN(const Sealed sealed, SealUnder(tenant, subject, decision, text, name));
    return json::object{{"key", name},
                        {"nonce", ToHex(sealed.nonce)},
                        {"data", ToBase64(sealed.data)},
                        {"tag", ToHex(sealed.tag)},
                        {"coding", "base64"}};
  }

  // Letters and digits, + / and =: nothing to escape.
  Result<std::string> SealToText(std::string_view tenant, std::string_view subject, std::string_view decision,
                                 std::string_view text) override {
    std::string name;
    SURETY_ASSIGN_OR_RETURN(const Sealed sealed, SealUnder(tenant, subject, decision, text, name));
    const std::string data = ToBase64(sealed.data);
    std::string out;
    out.reserve(data.size() + 224);
    return out.append(R"({"key":")").append(name).append(R"(","nonce":")").append(ToHex(sealed.nonce))
        .append(R"(","data":")").append(data).append(R"(","tag":")").append(ToHex(sealed.tag))
        .append(R"(","coding":"base64"})");
  }

  Result<std::string> Unseal(const json::object& sealed, std::string_view decision) override {
    const auto member = [&](std::string_view name) {
      const json::value* value = sealed.if_contains(name);
      return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
    };
    const auto nonce = FromHex(member("nonce")), tag = FromHex(member("tag"));
    // Rows of an earlier version hold the text in hex.
    const auto data = member("coding") == "base64" ? FromBase64(member("data")) : FromHex(member("data"));
    if (!nonce || !data || !tag) return Error(DataLossError("a sealed text is damaged"));
    SURETY_ASSIGN_OR_RETURN(const VaultKey key, KeyFor(member("key"), false));
    auto text = Decrypt(key.bytes(), decision, {*nonce, *data, *tag});
    if (!text) return Error(DataLossError("a sealed text is not what was sealed for this decision"));
    return *std::move(text);
  }

  Result<int> Erase(std::string_view tenant, std::string_view subject) override {
    const std::string name = NameOfKey(tenant, subject);
    const std::lock_guard lock(mutex_);
    key_names_.erase(SubjectBytes(tenant, subject));
    for (const std::string& each : {name, EarlierNameOfKey(tenant, subject)}) {
      keys_.erase(each);
      SURETY_ASSIGN_OR_RETURN(const int n_deleted, Delete(each));
      if (n_deleted > 0) half_erased_[name] += n_deleted;
    }
    SURETY_RETURN_IF_ERROR(Scrub());
    const auto erased = half_erased_.extract(name);
    return erased ? erased.mapped() : 0;
  }

 private:
  Status CheckMaster(const std::optional<Sealed>& canary, const std::string& any) {
    const Status wrong = DataLossError("this master key does not open the vault: it is another vault's");
    if (canary) {
      const auto text = Decrypt(master_.bytes(), kCanaryName, *canary);
      return text && *text == kCanaryText ? OkStatus() : wrong;
    }
    if (!any.empty()) {  // a vault of an earlier version, which has no canary
      SURETY_ASSIGN_OR_RETURN(const std::optional<Sealed> wrapped, Load("keys", any));
      auto opened = wrapped ? Decrypt(master_.bytes(), any, *wrapped) : std::nullopt;
      if (!opened) return wrong;
      const VaultKey wiped(*std::move(opened));
    }
    const auto sealed = Encrypt(master_.bytes(), kCanaryName, kCanaryText);
    if (!sealed) return InternalError("AES-GCM failed");
    return Save("canary", std::string(kCanaryName), *sealed);
  }

  // Names are made with a key of their own, not with that which wraps keys.
  VaultKey NamingKey() const {
    static constexpr std::string_view kUse = "surety vault: names of keys";
    std::string key(kKeyBytes, '\0');
    unsigned int n = 0;
    HMAC(EVP_sha256(), master_.bytes().data(), static_cast<int>(kKeyBytes), Bytes(kUse), kUse.size(), Bytes(key), &n);
    return VaultKey(std::move(key));
  }

  static std::string SubjectBytes(std::string_view tenant, std::string_view subject) {
    std::string bytes;
    bytes.reserve(tenant.size() + subject.size() + 32);
    AppendField(bytes, 1, tenant);
    AppendField(bytes, 2, subject);
    return bytes;
  }

  // The vault's file does not hold the names of tenants and subjects. (Rows of the log do, in clear, beside the sealed
  // texts.)
  std::string NameOfKey(std::string_view tenant, std::string_view subject) const {
    const std::string bytes = SubjectBytes(tenant, subject);
    std::string name(kKeyBytes, '\0');
    unsigned int n = 0;
    HMAC(EVP_sha256(), names_.bytes().data(), static_cast<int>(kKeyBytes), Bytes(std::string_view(bytes)),
         bytes.size(), Bytes(name), &n);
    return ToHex(name);
  }

  // As an earlier version named it: such keys are still read and erased.
  std::string EarlierNameOfKey(std::string_view tenant, std::string_view subject) const {
    const std::string fields = SubjectBytes(tenant, subject);
    Sha256 sha;
    sha.Update(std::as_bytes(std::span(master_.bytes())));
    sha.Update(std::as_bytes(std::span(fields)));
    return HexOf(sha.Finish());
  }

  Result<Sealed> SealUnder(std::string_view tenant, std::string_view subject, std::string_view decision,
                           std::string_view text, std::string& name) {
    SURETY_ASSIGN_OR_RETURN(const VaultKey key, KeyOf(tenant, subject, name));
    auto sealed = Encrypt(key.bytes(), decision, text);
    if (!sealed) return Error(InternalError("AES-GCM failed"));
    return *std::move(sealed);
  }

  // The subject's key, made if there is none. Its name is remembered, and the name alone: whether the key is still
  // there, keys_ says, from which an erasure takes it.
  Result<VaultKey> KeyOf(std::string_view tenant, std::string_view subject, std::string& name) {
    std::string bytes = SubjectBytes(tenant, subject);
    const std::lock_guard lock(mutex_);
    if (const auto known = key_names_.find(bytes); known != key_names_.end()) {
      name = known->second;
      return FindKey(name, true);
    }
    name = NameOfKey(tenant, subject);
    if (key_names_.size() >= kMaxCachedKeys) key_names_.erase(key_names_.begin());
    key_names_.emplace(std::move(bytes), name);
    return FindKey(name, true);
  }

  Result<VaultKey> KeyFor(const std::string& name, bool make) {
    const std::lock_guard lock(mutex_);
    return FindKey(name, make);
  }

  // Under the lock.
  Result<VaultKey> FindKey(const std::string& name, bool make) {
    if (const auto found = keys_.find(name); found != keys_.end()) return found->second;
    SURETY_ASSIGN_OR_RETURN(std::optional<Sealed> wrapped, Load("keys", name));
    VaultKey key;
    if (wrapped) {
      auto opened = Decrypt(master_.bytes(), name, *std::move(wrapped));
      if (!opened) return Error(DataLossError("a key of the vault does not open with this master key"));
      key = VaultKey(*std::move(opened));
    } else if (!make) {
      return Error(NotFoundError("the key of this text was erased"));
    } else {
      key = VaultKey(RandomText(kKeyBytes));
      const auto sealed = key.bytes().empty() ? std::nullopt : Encrypt(master_.bytes(), name, key.bytes());
      if (!sealed) return Error(InternalError("no random bytes for a key"));
      SURETY_RETURN_IF_ERROR(Save("keys", name, *sealed));
    }
    if (keys_.size() >= kMaxCachedKeys) keys_.erase(keys_.begin());
    keys_[name] = key;
    return key;
  }

  Result<std::string> AnyName() {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_, "SELECT name FROM keys LIMIT 1", -1, &statement, nullptr) != SQLITE_OK) {
      return Error(Failure());
    }
    const int rc = sqlite3_step(statement);
    std::string name;
    if (rc == SQLITE_ROW) name = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return Error(Failure());
    return name;
  }

  Result<int> Delete(const std::string& name) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_, "DELETE FROM keys WHERE name=?1", -1, &statement, nullptr) != SQLITE_OK) {
      return Error(Failure());
    }
    sqlite3_bind_text(statement, 1, name.c_str(), -1, SQLITE_TRANSIENT);
    const int rc = sqlite3_step(statement);
    sqlite3_finalize(statement);
    if (rc != SQLITE_DONE) return Error(Failure());
    return sqlite3_changes(database_);
  }

  // The write-ahead log holds copies of what was deleted. That it could not be emptied is a row, not an error.
  Status Scrub() {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_, "PRAGMA wal_checkpoint(TRUNCATE)", -1, &statement, nullptr) != SQLITE_OK) {
      return Failure();
    }
    const int rc = sqlite3_step(statement);
    const bool busy = rc == SQLITE_ROW && sqlite3_column_int(statement, 0) != 0;
    const Status failed = rc == SQLITE_ROW || rc == SQLITE_DONE ? OkStatus() : Failure();
    sqlite3_finalize(statement);
    if (!busy) return failed;
    return UnavailableError("the vault's database: the key is deleted, but another process reads the file, so its "
                            "write-ahead log still holds the bytes; call again");
  }

  Result<std::optional<Sealed>> Load(const std::string& table, const std::string& name) {
    sqlite3_stmt* statement = nullptr;
    const std::string sql = "SELECT nonce, data, tag FROM " + table + " WHERE name=?1";
    if (sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return Error(Failure());
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

  Status Save(const std::string& table, const std::string& name, const Sealed& sealed) {
    sqlite3_stmt* statement = nullptr;
    const std::string sql = "INSERT INTO " + table + "(name, nonce, data, tag) VALUES(?1, ?2, ?3, ?4)";
    if (sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return Failure();
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
  Status Failure() const {
    const int code = sqlite3_errcode(database_) & 0xff;
    const std::string message = std::string("the vault's database: ") + sqlite3_errmsg(database_);
    return code == SQLITE_BUSY || code == SQLITE_LOCKED ? UnavailableError(message) : IoError(message);
  }

  std::mutex mutex_;
  sqlite3* database_;
  VaultKey master_, names_;
  std::unordered_map<std::string, VaultKey> keys_;
  std::unordered_map<std::string, std::string> key_names_;   // by tenant and subject
  std::map<std::string, int> half_erased_;  // deleted, but their bytes were still in the write-ahead log
};

}  // namespace

Result<std::unique_ptr<PayloadVault>> PayloadVault::Open(const std::string& database,
                                                         const std::string& master_key_file) {
  SURETY_RETURN_IF_ERROR(MakePrivateFile(database));
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  if (sqlite3_open_v2(database.c_str(), &handle, flags, nullptr) != SQLITE_OK) {
    const std::string why = handle == nullptr ? "no memory" : sqlite3_errmsg(handle);
    sqlite3_close_v2(handle);
    return Error(IoError("'" + database + "': " + why));
  }
  auto vault = std::make_unique<Vault>(handle);
  SURETY_RETURN_IF_ERROR(vault->Prepare(master_key_file));
  return std::unique_ptr<PayloadVault>(std::move(vault));
}

}  // namespace surety::gateway
