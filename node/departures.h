// The roles of a node that have left, and the process's exit code and reason. Owned by the Node.
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

  // Records a role's departure. Returns false if the role had left before.
  bool Add(Role role, int code, const std::string& reason);
  // Records that the node told a role to leave because of another role.
  void Tell(Role role) { told_.insert(role); }

  bool Has(Role role) const { return left_.contains(role); }
  const Departure& Of(Role role) const { return left_.at(role); }

  // Returns the exit code and reason of one role as those of the process; the reason gets the
  // role's name. A role that left on its own is preferred to one that was told to leave; then the
  // coordinator is preferred, because it knows how the job ended; then the greater code. At least
  // one role must have left.
  Departure Last() const;

 private:
  std::map<Role, Departure> left_;
  std::set<Role> told_;
};

}  // namespace paracord
