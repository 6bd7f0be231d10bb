// Attacks of strangers on a daemon's port, each in threads of its own until it is told to stop.
// They have no credentials and know no more than Describe tells. Used by the flood test.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "proto/paracord.pb.h"

namespace paracord::flood {

struct Attack {
  std::string name;
  // Attacks until `stop`; `described` is what the ps has told.
  std::function<void(const std::string& address, const PsDescription& described,
                     const std::atomic<bool>& stop)>
      run;
};

const std::vector<Attack>& Attacks();

}  // namespace paracord::flood
