#include "worker/data/tf_record.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "storage/tf_record_writer.h"

namespace paracord {
namespace {

constexpr size_t kHeadBytes = 12, kTailBytes = 4;
constexpr uint64_t kDataBytesMax = uint64_t{1} << 30;

template <class T>
T Load(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

absl::Status Damaged(const std::string& what) { return absl::DataLossError(what); }

}  // namespace

absl::StatusOr<bool> TfRecordCutter::Next(FileCursor& cursor, std::string_view& data) const {
  ASSIGN_OR_RETURN(std::string_view text, cursor.Peek(kHeadBytes));
  if (text.empty()) return false;
  if (text.size() < kHeadBytes) return Damaged("the file ends inside the record's length");
  const auto length = Load<uint64_t>(text);
  if (Load<uint32_t>(text.substr(8)) != MaskedCrc(text.substr(0, 8))) {
    return Damaged("the checksum of the record's length is wrong");
  }
  if (length > kDataBytesMax) {
    return Damaged(
        absl::StrCat("the record is ", length, " bytes long, more than ", kDataBytesMax));
  }
  const size_t whole = kHeadBytes + static_cast<size_t>(length) + kTailBytes;
  ASSIGN_OR_RETURN(text, cursor.Peek(whole));
  if (text.size() < whole) {
    return Damaged(absl::StrCat("the file ends inside the record, whose length is ", length));
  }
  data = text.substr(kHeadBytes, static_cast<size_t>(length));
  if (Load<uint32_t>(text.substr(whole - kTailBytes)) != MaskedCrc(data)) {
    return Damaged("the checksum of the record's data is wrong");
  }
  cursor.Skip(whole);
  return true;
}

absl::StatusOr<bool> TfRecordCutter::Skip(FileCursor& cursor) const {
  std::string_view data;
  return Next(cursor, data);
}

}  // namespace paracord
