// The greeting with which both sides begin a stream (net/stream_connection.h). In plain text, a
// listener tells streams from gRPC by the client's greeting. The listener's says that the client
// was let in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/channel.h"

namespace paracord {

// No gRPC connection begins with the greeting's first byte. A client that shows the token adds a
// space and the token before the end of the line.
inline constexpr char kStreamGreeting[] = "paracord/1\n";
inline constexpr size_t kGreetedTokenMax = 1024;  // the most bytes of a token

// Sends our greeting, with `token` unless that is empty, and waits for the peer's greeting. Returns
// false if another byte comes, the peer has gone, or the greeting is not complete within
// `patience_ms`. `*silent` becomes true if no byte came in that time.
bool GreetStream(Channel& channel, int64_t patience_ms, bool* silent = nullptr,
                 const std::string& token = "");

// A client's greeting while it arrives, on the listening side. Used by one thread at a time.
class ClientGreeting {
 public:
  enum class Step { kMore, kWhole, kBad, kGone };
  // Receives the available bytes of the greeting, and nothing behind it, without waiting. kBad: the
  // client speaks another protocol, or shows a token above kGreetedTokenMax. kGone: it has closed
  // the connection.
  Step Receive(Channel& channel);
  // The token of a whole greeting; empty if the client shows none.
  std::string_view token() const;
  // Sends the listener's greeting. Returns false if the client has gone.
  static bool Answer(Channel& channel);

 private:
  std::string line_;
};

}  // namespace paracord
