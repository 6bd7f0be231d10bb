// Writes the TFRecord container (tensorflow/core/lib/io/record_writer.h). A record is its length (8
// bytes, little-endian), the masked CRC-32C of the length, the data, and the masked CRC-32C of the
// data. The caller decides what the data are, syncs the file, and uses a writer in one thread only.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// Returns the CRC-32C, masked as TFRecord does: a plain CRC is weak over data that contain CRCs.
uint32_t MaskedCrc(std::string_view bytes);

class TfRecordWriter {
 public:
  explicit TfRecordWriter(WriteFile& file) : file_(file) {}
  absl::Status Append(std::string_view data);

 private:
  WriteFile& file_;
};

}  // namespace paracord
