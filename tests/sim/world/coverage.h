// Tells which probes (common/probe.h) were reached during the lifetime of this object. A run over
// many seeds fails if some probe was never reached. Owned by a test.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/probe.h"

namespace paracord {

class Coverage {
 public:
  Coverage() {
    for (const ProbeCount& probe : ProbeCounts()) before_[std::string(probe.name)] = probe.hits;
  }

  // Returns the sorted names of probes with `prefix` that were not reached since construction.
  std::vector<std::string> Missing(std::string_view prefix) const {
    std::vector<std::string> missing;
    for (const ProbeCount& probe : ProbeCounts()) {
      const std::string name(probe.name);
      if (name.starts_with(prefix) && before_.at(name) == probe.hits) missing.push_back(name);
    }
    return missing;
  }

 private:
  std::map<std::string, uint64_t> before_;
};

}  // namespace paracord
