#include "exchange/rows.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/bytes.h"

namespace paracord {
namespace {

constexpr uint64_t kGreatest = std::numeric_limits<uint64_t>::max();

// Reads varint ids that may be cut anywhere.
class IdReader {
 public:
  enum class Read { kMore, kId, kWrong };

  Read Take(char c, uint64_t& id) {
    const auto byte = static_cast<uint8_t>(c);
    if (shift_ == 63 && byte > 1) return Read::kWrong;
    more_ |= static_cast<uint64_t>(byte & 0x7f) << shift_;
    if (byte >= 0x80) {
      shift_ += 7;
      return shift_ > 63 ? Read::kWrong : Read::kMore;
    }
    if (!may_follow_ || more_ > kGreatest - least_) return Read::kWrong;
    id = least_ + more_;
    may_follow_ = id != kGreatest;
    least_ = id + 1;
    more_ = 0;
    shift_ = 0;
    return Read::kId;
  }

 private:
  uint64_t least_ = 0;  // the next id is at least this
  uint64_t more_ = 0;   // value so far of an incomplete varint
  int shift_ = 0;
  bool may_follow_ = true;  // false after the greatest possible id
};

}  // namespace

void NameRows(std::span<const uint64_t> ids, uint32_t partition, Piece::Part part, RowSet& set,
              std::vector<PieceView>& pieces) {
  std::string bytes;
  uint64_t least = 0;  // the next id is at least this
  for (const uint64_t id : ids) {
    AppendVarint(id - least, bytes);
    least = id + 1;
  }
  set.set_count(ids.size());
  set.set_bytes(bytes.size());
  if (!bytes.empty()) pieces.push_back({partition, 0, absl::Cord(std::move(bytes)), part});
}

uint64_t CountIds(const DecodedRequest& request) {
  uint64_t bytes = 0;  // an id takes at least one
  for (const PieceView& piece : request.pieces) {
    if (piece.part != Piece::VALUES) bytes += piece.data.size();
  }
  uint64_t ids = 0;
  const auto count = [&](const RowSet& rows) { ids += std::min(rows.count(), bytes - ids); };
  for (const PartitionPush& push : request.header.push()) count(push.rows());
  for (const PartitionPull& pull : request.header.pull()) count(pull.rows());
  return ids;
}

absl::StatusOr<RowIds> DecodeRows(uint64_t count, const absl::Cord& bytes) {
  if (count > bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " rows in ", bytes.size(), " bytes of ids"));
  }
  RowIds ids;
  ids.reserve(count);
  uint64_t read = 0;
  IdReader reader;
  for (const absl::string_view chunk : bytes.Chunks()) {
    for (const char byte : chunk) {
      if (ids.size() == count) {
        return absl::InvalidArgumentError(
            absl::StrCat(bytes.size() - read, " bytes of ids follow the last of ", count, " rows"));
      }
      ++read;
      uint64_t id = 0;
      const IdReader::Read got = reader.Take(byte, id);
      if (got == IdReader::Read::kMore) continue;
      if (got == IdReader::Read::kWrong) {
        return absl::InvalidArgumentError(
            absl::StrCat("the id of row ", ids.size(), " of ", count, " is malformed"));
      }
      ids.push_back(id);
    }
  }
  if (ids.size() == count) return ids;
  return absl::InvalidArgumentError(
      absl::StrCat("the id of row ", ids.size(), " of ", count, " is malformed"));
}

}  // namespace paracord
