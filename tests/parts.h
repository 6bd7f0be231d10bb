// Joins the parts of a message, as its receiver does.
#pragma once

#include "common/rpc.h"

namespace paracord {

inline absl::Cord Joined(const Parts& parts) {
  absl::Cord whole;
  for (const absl::Cord& part : parts) whole.Append(part);
  return whole;
}

}  // namespace paracord
