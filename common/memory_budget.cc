#include "common/memory_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"
#include "common/memory_need.h"
#include "common/shared_memory.h"

namespace paracord {

void MemoryShare::SetMax(uint64_t bytes_max, uint64_t spare) {
  bytes_max_ = std::min(bytes_max, kUnlimited);
  spare_ = std::min(spare, kUnlimited);
}

bool MemoryShare::Reserve(uint64_t bytes) {
  const uint64_t bytes_max = bytes_max_;  // read once: SetMax may lower the limit meanwhile
  if (bytes > bytes_max) return false;
  int64_t held = bytes_;
  do {
    const uint64_t now = static_cast<uint64_t>(std::max<int64_t>(held, 0));
    if (now > bytes_max - bytes) return false;
  } while (!bytes_.compare_exchange_weak(held, held + static_cast<int64_t>(bytes)));
  return true;
}

MemoryBudget::MemoryBudget(uint64_t limit) : MemoryBudget(limit, Caps()) {}

MemoryBudget::MemoryBudget(uint64_t limit, Caps caps, uint64_t parts)
    : limit_(std::min(limit, kUnlimited)), caps_(caps), parts_(parts) {
  Divide(limit_ - std::min(limit_, kProgramBytes));
}

std::string MemoryBudget::LimitText() const {
  const std::string whole = absl::StrCat("--memory-limit ", HumanBytes(limit_ * parts_));
  return parts_ == 1 ? whole : absl::StrCat("the part ", HumanBytes(limit_), " of ", whole);
}

void MemoryBudget::Divide(uint64_t left) {
  restores_->SetMax(left, 0);
  const uint64_t round_rows = rows_in_rounds_ ? left / 4 : 0;
  round_rows_->SetMax(limited() ? round_rows : kUnlimited, 0);
  left -= round_rows;
  requests_->SetMax(std::min(caps_.requests, left / 16 * 3), std::min(caps_.one_request, left / 2));
  // Without a memory limit, a ps may give up waiting for slow readers any number of times.
  replies_->SetMax(std::min(caps_.replies, left / 8), limited() ? left / 16 : kUnlimited);
  staged_->SetMax(std::min(caps_.staged, left / 16), 0);
  snapshots_->SetMax(std::min(caps_.snapshots, left / 16 - left / 128), 0);
  buffers_->SetMax(std::min(caps_.buffers, left / 128), 0);
}

absl::Status MemoryBudget::HoldVariables(uint64_t bytes, uint64_t push_bytes, uint64_t round_bytes,
                                         bool round_rows) {
  const uint64_t rounds = std::min(round_bytes, kUnlimited);
  const uint64_t needed = MemoryNeed{bytes, push_bytes, rounds, round_rows}.LeastLimit();
  if (needed > limit_) {
    const auto whole = [&](uint64_t part) {
      return HumanBytes(std::min(part, kUnlimited) * parts_);
    };
    return absl::ResourceExhaustedError(
        absl::StrCat("variables and slots take ", HumanBytes(bytes), " and one push of them ",
                     HumanBytes(push_bytes),
                     rounds == 0 ? "" : absl::StrCat(", and rounds ", HumanBytes(rounds)),
                     ", for which at least ", whole(needed), " are needed, and --memory-limit is ",
                     whole(limit_),
                     parts_ == 1 ? ": give this ps more memory, or the job more ps"
                                 : ", of which the worker needs as much as the ps in it: give this "
                                   "worker more memory, or, where the job's `strategy` has several "
                                   "workers, the cluster more of them",
                     rounds == 0 ? "" : ", or \"round_batches\" a smaller number"));
  }
  rounds_ = rounds;
  rows_in_rounds_ = round_rows;
  variables_ = bytes;
  push_bytes_ = push_bytes;
  outgrown_ = false;
  const uint64_t held = std::min(bytes, kUnlimited) + rounds + kProgramBytes;
  Divide(limit_ - std::min(limit_, held));
  return absl::OkStatus();
}

absl::Status MemoryBudget::CheckBeside(uint64_t bytes, uint64_t push_bytes) const {
  const uint64_t least = std::min(bytes, kUnlimited) + variables_ + rounds_ + kProgramBytes;
  const uint64_t push = std::min(push_bytes, kUnlimited) + push_bytes_;
  if (least <= limit_ && (limit_ - least) / 2 >= push) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("variables and slots of ", HumanBytes(bytes), " beside ", HumanBytes(variables_),
                   " and pushes of ", HumanBytes(push), " need at least ",
                   HumanBytes((least + 2 * push) * parts_), ", and --memory-limit is ",
                   HumanBytes(limit_ * parts_), ": give this ps more memory, or the job more ps"));
}

bool MemoryBudget::CountVariables(uint64_t bytes) {
  variables_ = bytes;
  const uint64_t held = std::min(bytes, kUnlimited) + rounds_ + kProgramBytes;
  const uint64_t left = limit_ - std::min(limit_, held);
  const uint64_t push = 2 * push_bytes_;
  const uint64_t least = std::max(limit_ / 8, rows_in_rounds_ ? push / 3 * 4 : push);
  Divide(std::max(left, least));
  return left < least && !outgrown_.exchange(true);
}

bool MemoryBudget::MuchBesideVariables(uint64_t resident_bytes) const {
  const auto rows = static_cast<uint64_t>(std::max<int64_t>(round_rows_->bytes(), 0));
  const uint64_t variables = variables_ + rounds_ + rows;
  const uint64_t left = std::max(limit_ - std::min(limit_, variables), limit_ / 8);
  return resident_bytes - std::min(resident_bytes, variables) > left / 2;
}

std::vector<MemoryUse> MemoryBudget::Uses() const {
  std::vector<MemoryUse> uses = {
      {"variables", variables_, limit_ - std::min(limit_, kProgramBytes)}};
  // For dense variables, counts the maximum of their rounds.
  const auto rows = static_cast<uint64_t>(std::max<int64_t>(round_rows_->bytes(), 0));
  const uint64_t rows_max = rows_in_rounds_ ? round_rows_->bytes_max() : 0;
  if (rounds_ + rows_max > 0) uses.push_back({"rounds", rounds_ + rows, rounds_ + rows_max});
  const auto add = [&](const char* holder, const MemoryShare& share) {
    uses.push_back(
        {holder, static_cast<uint64_t>(std::max<int64_t>(share.bytes(), 0)), share.bytes_max()});
  };
  add("requests", *requests_);
  add("replies", *replies_);
  add("staged", *staged_);
  add("snapshots", *snapshots_);
  add("buffers", *buffers_);
  add("restores", *restores_);
  // Free but not yet returned to the kernel.
  uses.push_back({"arena", IdleSharedBytes(), kIdleKept});
  return uses;
}

}  // namespace paracord
