// Which roles of a node have left, and with which exit code and reason the process ends. Owned by
// the Node. Pure.
#pragma once

#include <map>
#include <set>
#include <string>

#include "config/cluster.h"

namespace paracord {

class Departures {
 public:
  struct Departure {
    int code = 0;
    std::string reason;
  };

  // Notes that a role has left. Returns false if it had left before.
  bool Add(Role role, int code, const std::string& reason);
  // Notes that a role has to leave because another one has.
  void Tell(Role role) { told_.insert(role); }

  bool Has(Role role) const { return left_.contains(role); }
  const Departure& Of(Role role) const { return left_.at(role); }

  // Returns the departure whose code the process ends with, and whose role its reason names. A role
  // that was told to leave does not count if another one left by itself. The coordinator counts
  // before worker and ps, because it knows how the job has ended; of these the greater code counts.
  // At least one role has left.
  Departure Last() const;

 private:
  std::map<Role, Departure> left_;
  std::set<Role> told_;
};

}  // namespace paracord
