#include "net/refused_peers.h"

#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace paracord {

const char* RefusedPeers::NameOf(Cause cause) {
  switch (cause) {
    case Cause::kTls:
      return "tls";
    case Cause::kGreeting:
      return "greeting";
    case Cause::kRight:
      return "right";
    case Cause::kStreams:
      return "streams";
    case Cause::kResets:
      return "resets";
    case Cause::kFrames:
      return "frames";
  }
  return "";
}

void RefusedPeers::Note(const Refusal& refusal) {
  const bool says = may_say_.Now();
  const std::string& certificate = refusal.certificate;
  const std::string sentence = absl::StrCat(
      refusal.what, " ", refusal.address,
      certificate.empty() ? "" : absl::StrCat(" (", certificate, ")"), ": ", refusal.why);
  if (says) {
    Logger("listener")
        .Warn("{}", sentence, "peer"_a = certificate, "address"_a = refusal.address,
              "reason"_a = refusal.why);
  }
  std::function<void(const std::string&)> hear;
  {
    MutexLock lock(mu_);
    const Who who(refusal.cause, certificate);
    const bool known = counts_.size() < kCertificatesMax || counts_.contains(who);
    ++counts_[known ? who : Who(refusal.cause, "")];
    if (!says) return;
    last_ = sentence;
    hear = hear_;
  }
  if (hear != nullptr) hear(sentence);  // called without the lock, because `hear` may call back
}

void RefusedPeers::Tell(std::function<void(const std::string& sentence)> hear) {
  MutexLock lock(mu_);
  hear_ = std::move(hear);
}

std::map<RefusedPeers::Who, uint64_t> RefusedPeers::counts() const {
  MutexLock lock(mu_);
  return counts_;
}

std::string RefusedPeers::last() const {
  MutexLock lock(mu_);
  return last_;
}

}  // namespace paracord
