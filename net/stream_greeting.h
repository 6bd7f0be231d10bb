// The greeting at the front of a stream (net/stream_connection.h), on both sides. A listener tells
// streams from gRPC by the greeting; the dialling side learns that the listener let it in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/channel.h"

namespace paracord {

// No gRPC connection begins with the first byte. A client with a token adds a space and the token
// before the end of the line.
inline constexpr char kStreamGreeting[] = "paracord/1\n";
inline constexpr size_t kGreetedTokenMax = 1024;

// Sends our greeting, with `token` unless empty, and waits for the peer's. Returns false if none
// comes; sets `silent` to true if the peer sent nothing at all.
bool GreetStream(Channel& channel, int64_t patience_ms, bool* silent = nullptr,
                 const std::string& token = "");

// A client's greeting while it arrives, on the listening side. Used by one thread at a time.
class ClientGreeting {
 public:
  enum class Step { kMore, kWhole, kBad };
  // Receives the available bytes of the greeting, and nothing behind it, without waiting. kBad: the
  // client speaks another protocol, or has gone.
  Step Receive(Channel& channel);
  // The token of a whole greeting; empty if the client shows none.
  std::string_view token() const;
  // Answers a whole greeting. Returns false if the client has gone.
  static bool Answer(Channel& channel);

 private:
  std::string line_;
};

}  // namespace paracord
