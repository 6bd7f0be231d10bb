// Converts a message of a shared connection (net/shared_connection.h) into packets. For payload in
// shared memory the packets name its place. Other payload is carried inline in chunks of up to 8
// KiB; larger chunks are first copied into shared memory. Called without the connection's lock,
// because the copies take time.
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
// The most inline bytes of a message, which are its small tensors and headers.
inline constexpr uint64_t kInlineBytesMax = 64 << 20;
inline constexpr uint64_t kPlacesMax = 1 << 20;  // the most places of a message

struct SharedMessage {
  std::vector<std::string> packets;  // serialized SharedPackets, in the order to send
  std::vector<absl::Cord> kept;      // hold the memory that the packets' places name
  std::vector<uint64_t> segments;    // the segments of all places, each listed once
  std::string_view problem;          // why the message cannot be sent; "": it can
};

// `first` is the first packet without its payload; `parts` are the payload.
SharedMessage MakeSharedMessage(SharedPacket first, const Parts& parts);

}  // namespace paracord
