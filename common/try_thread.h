// Starts a thread if the system has room for another; for work that the caller can also do itself
// or in another way.
#pragma once

#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace paracord {

// Returns nullopt if the system's limits of processes or memory are reached.
template <class Body>
std::optional<std::thread> TryThread(Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace paracord
