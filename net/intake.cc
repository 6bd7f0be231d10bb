#include "net/intake.h"

#include <utility>

namespace paracord {

uint64_t Intake::Begin() {
  MutexLock lock(mu_);
  calls_[++last_];
  return last_;
}

uint64_t Intake::bytes() const {
  MutexLock lock(mu_);
  return bytes_;
}

bool Intake::IsOldest(uint64_t call) const {
  for (const auto& [id, other] : calls_) {
    if (other.arriving) return id == call;
  }
  return false;
}

bool Intake::Take(uint64_t call, uint64_t bytes, std::function<void()> resume) {
  MutexLock lock(mu_);
  Call& taking = calls_.at(call);
  taking.bytes += bytes;
  bytes_ += bytes;
  if (bytes_ <= bytes_max_ || IsOldest(call)) return true;
  taking.resume = std::move(resume);
  return false;
}

// All, where there is room: each asks again with what it has read then.
Intake::Resumes Intake::WhoMayGoOn() {
  Resumes resumes;
  for (auto& [id, call] : calls_) {
    if (call.resume == nullptr) continue;
    if (bytes_ > bytes_max_ && !IsOldest(id)) break;
    resumes.push_back(std::exchange(call.resume, nullptr));
  }
  return resumes;
}

void Intake::Arrived(uint64_t call) {
  Resumes resumes;
  {
    MutexLock lock(mu_);
    calls_.at(call).arriving = false;
    resumes = WhoMayGoOn();
  }
  for (const auto& resume : resumes) resume();
}

void Intake::End(uint64_t call) {
  Resumes resumes;
  std::function<void()> forgotten;
  {
    MutexLock lock(mu_);
    const auto it = calls_.find(call);
    bytes_ -= it->second.bytes;
    forgotten = std::move(it->second.resume);
    calls_.erase(it);
    resumes = WhoMayGoOn();
  }
  for (const auto& resume : resumes) resume();
}

}  // namespace paracord
