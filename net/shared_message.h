// A message of a shared connection (net/shared_connection.h) as the packets that carry it: small
// payload in them, and places in shared memory for large payload. Made without any lock, since
// payload that is in no shared memory is copied there once.
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
inline constexpr uint64_t kInlineBytesMax = 64 << 20;  // of a message: small tensors and headers
inline constexpr uint64_t kPlacesMax = 1 << 20;        // of a message

struct SharedMessage {
  std::vector<std::string> packets;  // in order
  std::vector<absl::Cord> kept;      // the memory in which packets name places
  std::vector<uint64_t> segments;    // that these places are in, each once
  std::string_view problem;          // why it cannot be sent; "": it can
};

// `first` has all of the message but its bytes, `parts` are these.
SharedMessage MakeSharedMessage(SharedPacket first, const Parts& parts);

}  // namespace paracord
