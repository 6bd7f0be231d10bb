// A thread where the system has room for one more. For work that can be done without: in the
// caller, or by another way.
#pragma once

#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace paracord {

// None: limits of processes or memory are reached (std::thread has no other way to say it).
template <class Body>
std::optional<std::thread> TryThread(Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace paracord
