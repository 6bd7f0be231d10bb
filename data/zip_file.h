// Reads the members of a zip archive (PKWARE's APPNOTE, with zip64) that are stored or deflated, as
// those of numpy's .npz files. Reads the directory of the archive into memory, but no member. Used
// by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "data/byte_stream.h"

namespace paracord {

struct ZipMember {
  std::string name;
  uint16_t method = 0;  // 0: stored, 8: deflated
  uint16_t flags = 0;
  uint32_t crc = 0;
  uint64_t packed_bytes = 0;
  uint64_t header_offset = 0;
};

// Returns the members; of several with the same name only the last. Errors name the path.
absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(const ReadFile& file,
                                                        const std::string& path);

// Opens a member as a stream named PATH["NAME"]. ByteStream::ExpectEnd checks the CRC.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenZipMember(Files& files, const std::string& path,
                                                          const ZipMember& member);

}  // namespace paracord
