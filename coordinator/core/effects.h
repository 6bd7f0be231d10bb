// The effects of one step of the coordinator's core, in the order in which the shell carries them
// out. The core owns the only instance and takes all effects at the end of each step. Members of
// the core have a reference to the instance and append effects.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/events.h"

namespace paracord {

class Effects {
 public:
  template <class T>
  void Emit(T effect) {
    effects_.push_back(std::move(effect));
  }
  void Info(std::string text) { Emit(Log{Log::Level::kInfo, std::move(text)}); }
  void Warn(std::string text) { Emit(Log{Log::Level::kWarning, std::move(text)}); }
  // Warns of a problem with a task: "PEER WHAT: WHY".
  void Warn(const std::string& peer, const std::string& what, const std::string& why) {
    Emit(Log{Log::Level::kWarning, absl::StrCat(peer, " ", what, ": ", why), peer, why});
  }
  void Error(std::string text) { Emit(Log{Log::Level::kError, std::move(text)}); }

  // Returns all effects, and empties the list.
  std::vector<Effect> Take() { return std::exchange(effects_, {}); }

 private:
  std::vector<Effect> effects_;
};

}  // namespace paracord
