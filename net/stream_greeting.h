// The greeting that begins a stream (net/stream_connection.h) on both sides, by which a listener
// tells it from gRPC on the same port, and by which the side that dialled knows that it was let in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/channel.h"

namespace paracord {

// No gRPC connection begins with the first byte. A client that shows a token has a space and the
// token before the end of the line.
inline constexpr char kStreamGreeting[] = "paracord/1\n";
inline constexpr size_t kGreetedTokenMax = 1024;

// Sends our greeting, with `token` unless it is empty, and waits for the peer's. Returns false if
// it does not come; `silent` is set to true if the peer sent nothing at all.
bool GreetStream(Channel& channel, int64_t patience_ms, bool* silent = nullptr,
                 const std::string& token = "");

// The greeting of a client as it comes, on the side that listens. Used by one thread at a time.
class ClientGreeting {
 public:
  enum class Step { kMore, kWhole, kBad };
  // Receives as much of the greeting as has come, and nothing of what follows it, without waiting.
  // kBad says that the client speaks something else, or has gone.
  Step Receive(Channel& channel);
  // The token of a whole greeting; empty if the client shows none.
  std::string_view token() const;
  // Answers a whole greeting. Returns false if the client has gone.
  static bool Answer(Channel& channel);

 private:
  std::string line_;
};

}  // namespace paracord
