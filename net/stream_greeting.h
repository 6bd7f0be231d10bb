// The greeting that begins a stream (net/stream_connection.h) on both sides, by which a listener
// tells it from gRPC on the same port, and by which the side that dialled knows that it was let in.
#pragma once

#include <cstdint>
#include <functional>
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

// Waits for the greeting of a client and answers it. Returns false if it does not come, or if
// `lets_in` returns false of its token, which is empty if the client shows none.
bool AnswerGreeting(Channel& channel, int64_t patience_ms,
                    const std::function<bool(std::string_view token)>& lets_in);

}  // namespace paracord
