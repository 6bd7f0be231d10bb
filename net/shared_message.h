// Converts a message of a shared connection (net/shared_connection.h) into packets with small
// payload inline and places in shared memory for large payload. Works without a lock, because
// payload outside shared memory is first copied there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/cord.h"
#include "common/rpc.h"
#include "proto/shared_memory.pb.h"

namespace paracord {

inline constexpr size_t kPacketBytes = 32 << 10;
// Limit of a message: small tensors and headers.
inline constexpr uint64_t kInlineBytesMax = 64 << 20;
inline constexpr uint64_t kPlacesMax = 1 << 20;  // limit of a message

struct SharedMessage {
  std::vector<std::string> packets;  // in order
  std::vector<absl::Cord> kept;      // the memory named by the packets' places
  std::vector<uint64_t> segments;    // segments of the places, each once
  std::string_view problem;          // why the message cannot be sent; "": ready to send
};

// `first` describes the message without payload; `parts` are the payload.
SharedMessage MakeSharedMessage(SharedPacket first, const Parts& parts);

}  // namespace paracord
