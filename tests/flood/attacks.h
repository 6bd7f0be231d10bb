// Attacks by strangers on a daemon's port, each in new threads until told to stop. Attackers have
// no credentials and know only what Describe tells. Used by the flood test.
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
  // Attacks until `stop`. `described`: the ps's answer to Describe.
  std::function<void(const std::string& address, const PsDescription& described,
                     const std::atomic<bool>& stop)>
      run;
};

const std::vector<Attack>& Attacks();

}  // namespace paracord::flood
