// Numbers in shared memory, as payload of messages in tests.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "common/shared_memory.h"

namespace paracord {

using SharedFloats = std::vector<float, SharedAllocator<float>>;

inline absl::Cord CordOf(std::shared_ptr<SharedFloats> floats) {
  const absl::string_view bytes(reinterpret_cast<const char*>(floats->data()),
                                floats->size() * sizeof(float));
  return absl::MakeCordFromExternal(bytes, [held = std::move(floats)](absl::string_view) {});
}

}  // namespace paracord
