// The clients that this process has refused or cut off: how many, by whom and why, for metrics and
// for whoever wants to hear of each. Shared by the listeners of a process and by those who show it;
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/mutex.h"

namespace paracord {

class RefusedPeers {
 public:
  // Why, in a word, for metrics.
  enum class Cause { kTls, kRight, kResets, kFrames };
  static const char* NameOf(Cause cause) {
    switch (cause) {
      case Cause::kTls:
        return "tls";
      case Cause::kRight:
        return "right";
      case Cause::kResets:
        return "resets";
      case Cause::kFrames:
        return "frames";
    }
    return "";
  }

  // `hear` gets a sentence for each refusal that is logged, on the thread of a listener.
  void Tell(std::function<void(const std::string& sentence)> hear) {
    MutexLock lock(mu_);
    hear_ = std::move(hear);
  }
  // Counts a refusal; with a sentence, which is not empty, somebody hears of it.
  void Note(Cause cause, const std::string& sentence) {
    MutexLock lock(mu_);
    ++counts_[cause];
    if (!sentence.empty() && hear_ != nullptr) hear_(sentence);
  }
  std::map<Cause, uint64_t> counts() const {
    MutexLock lock(mu_);
    return counts_;
  }

 private:
  mutable Mutex mu_;
  std::map<Cause, uint64_t> counts_ ABSL_GUARDED_BY(mu_);
  std::function<void(const std::string&)> hear_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
