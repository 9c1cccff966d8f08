#include "gateway/document_memo.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/hash.h"
#include "gateway/document_write.h"

namespace surety::gateway {

Status SearchMemo::Follow(DocumentDb& db) {
  SURETY_ASSIGN_OR_RETURN(const int64_t state, db.Number("PRAGMA data_version"));
  if (state == state_ && bytes_ < kMostBytes) return OkStatus();
  *this = SearchMemo();
  state_ = state;
  return OkStatus();
}

bool SearchMemo::Keeps(size_t bytes) {
  if (bytes > kMostBytes / 4 || bytes_ >= kMostBytes) return false;
  bytes_ += bytes;
  return true;
}

std::string RightsKey(const ReadRights& rights) {
  std::string key;
  for (const std::string* field : {&rights.tenant, &rights.region, &rights.product, &rights.language}) {
    PutSealField(key, *field);
  }
  for (const std::string& permission : rights.permissions) PutSealField(key, permission);
  return key;
}

Result<std::string> SnapshotOf(DocumentDb& db, SearchMemo& memo) {
  if (memo.snapshot) return *memo.snapshot;
  SURETY_ASSIGN_OR_RETURN(std::string snapshot, ReadMeta(db, "snapshot"));
  if (snapshot.empty()) snapshot = HexOf(Sha256Of({}));   // nothing was ever added: as after all was removed
  memo.snapshot = snapshot;
  return snapshot;
}

Result<QuietTime> QuietTimeAt(DocumentDb& db, SearchMemo& memo, int64_t t_ns) {
  if (memo.quiet && memo.quiet->Contains(t_ns)) return *memo.quiet;
  SURETY_ASSIGN_OR_RETURN(auto least, DocumentStatement::Prepare(
      db, "SELECT min(t), count(t) FROM (SELECT min(from_ns) AS t FROM document WHERE from_ns > ?1 UNION ALL "
          "SELECT min(to_ns) FROM document WHERE to_ns > ?1 AND to_ns < 9223372036854775807)"));
  SURETY_ASSIGN_OR_RETURN(const bool row, least.Int(t_ns).Step());
  QuietTime quiet{t_ns, std::numeric_limits<int64_t>::max(), false};
  if (row && least.IntAt(1) > 0) quiet = {t_ns, least.IntAt(0), true};
  memo.quiet = quiet;
  return quiet;
}

}  // namespace surety::gateway
