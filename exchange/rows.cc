#include "exchange/rows.h"

#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/bytes.h"

namespace paracord {

RowSet EncodeRows(std::span<const uint64_t> ids) {
  RowSet rows;
  rows.set_count(ids.size());
  std::string& bytes = *rows.mutable_ids();
  uint64_t least = 0;  // the least id that may come next
  for (const uint64_t id : ids) {
    AppendVarint(id - least, bytes);
    least = id + 1;
  }
  return rows;
}

absl::StatusOr<RowIds> DecodeRows(const RowSet& rows) {
  std::string_view bytes = rows.ids();
  if (rows.count() > bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows.count(), " rows in ", bytes.size(), " bytes of ids"));
  }
  RowIds ids;
  ids.reserve(rows.count());
  uint64_t least = 0;
  bool may_follow = true;  // false: the last id was the greatest that there is
  for (uint64_t i = 0; i < rows.count(); ++i) {
    uint64_t more = 0;
    if (!may_follow || !TakeVarint(bytes, more) ||
        more > std::numeric_limits<uint64_t>::max() - least) {
      return absl::InvalidArgumentError(
          absl::StrCat("the id of row ", i, " of ", rows.count(), " is malformed"));
    }
    ids.push_back(least + more);
    may_follow = ids.back() != std::numeric_limits<uint64_t>::max();
    least = ids.back() + 1;
  }
  if (!bytes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes of ids follow the last of ", rows.count(), " rows"));
  }
  return ids;
}

}  // namespace paracord
