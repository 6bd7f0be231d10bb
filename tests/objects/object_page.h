// A page of an object store's list, for stores in tests and in the simulation.
#pragma once

#include <string>
#include <utility>

#include "objects/object_store.h"

namespace paracord {

// Adds `path`, the next in order, if it begins with `prefix` and comes after `from`. Returns false
// if the page is full.
inline bool AddToPage(const std::string& path, const std::string& prefix, bool deep,
                      const std::string& from, size_t page, ObjectList& list) {
  if (!path.starts_with(prefix)) return true;
  std::string name = path.substr(prefix.size());
  const size_t slash = name.find('/');
  if (!deep && slash != std::string::npos) name.resize(slash + 1);
  if (!from.empty() && name <= from) return true;
  if (!list.names.empty() && list.names.back() == name) return true;
  if (list.names.size() == page) {
    list.next = list.names.back();
    return false;
  }
  list.names.push_back(std::move(name));
  return true;
}

}  // namespace paracord
