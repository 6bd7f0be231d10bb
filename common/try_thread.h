// Starts a thread, unless the system has no room for another.
#pragma once

#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace paracord {

// Returns nullopt if the system gives this process no further thread.
template <class Body>
std::optional<std::thread> TryThread(Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace paracord
