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

  // Returns the exit code of the process, and a reason with the role's name. Both are those of one
  // role: roles that left on their own come before roles that were told to leave; then the
  // coordinator comes first, because it knows how the job ended; then the greater code. At least
  // one role must have left.
  Departure Last() const;

 private:
  std::map<Role, Departure> left_;
  std::set<Role> told_;
};

}  // namespace paracord
