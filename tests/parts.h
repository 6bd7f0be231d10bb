// What a receiver gets of a message's parts.
#pragma once

#include "common/rpc.h"

namespace paracord {

inline absl::Cord Joined(const Parts& parts) {
  absl::Cord whole;
  for (const absl::Cord& part : parts) whole.Append(part);
  return whole;
}

}  // namespace paracord
