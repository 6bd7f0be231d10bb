#include "storage/tf_record_writer.h"

#include <string>

#include "common/bytes.h"
#include "common/status_macros.h"
#include "storage/crc32c.h"

namespace paracord {

uint32_t MaskedCrc(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

absl::Status TfRecordWriter::Append(std::string_view data) {
  std::string head;
  AppendRaw(uint64_t{data.size()}, head);
  AppendRaw(MaskedCrc(head), head);
  RETURN_IF_ERROR(file_.Append(head));
  RETURN_IF_ERROR(file_.Append(data));
  std::string tail;
  AppendRaw(MaskedCrc(data), tail);
  return file_.Append(tail);
}

}  // namespace paracord
