#include "sim/world/trace.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paracord {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

}  // namespace

const char* EventKindName(EventKind kind) {
  switch (kind) {
    case EventKind::kWorld:
      return "world";
    case EventKind::kPost:
      return "post";
    case EventKind::kTimer:
      return "timer";
    case EventKind::kWork:
      return "work";
    case EventKind::kWorkDone:
      return "work_done";
    case EventKind::kRequest:
      return "request";
    case EventKind::kHandle:
      return "handle";
    case EventKind::kReply:
      return "reply";
    case EventKind::kFailure:
      return "failure";
    case EventKind::kCancel:
      return "cancel";
    case EventKind::kDeath:
      return "death";
    case EventKind::kFile:
      return "file";
  }
  return "?";
}

uint64_t HashBytes(std::string_view bytes) {
  uint64_t hash = bytes.size();
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = Mix(hash, word);
    bytes.remove_prefix(8);
  }
  uint64_t word = 0;
  if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
  return Mix(hash, word);
}

uint64_t HashCord(const absl::Cord& bytes) {
  if (const auto flat = bytes.TryFlat()) return HashBytes({flat->data(), flat->size()});
  return HashBytes(std::string(bytes));
}

void Trace::Record(int64_t time_us, EventKind kind, uint32_t node, const char* label,
                   uint64_t detail) {
  hash_ = Mix(hash_, static_cast<uint64_t>(time_us));
  hash_ = Mix(hash_, (uint64_t{node} << 8) | static_cast<uint64_t>(kind));
  hash_ = Mix(hash_, detail);
  Line& line = last_[events_++ % last_.size()];
  line = {time_us, kind, node, label, detail};
  if (out_ != nullptr) *out_ << Text(line) << '\n';
}

std::string Trace::Text(const Line& line) {
  return absl::StrFormat("%12d us  node %-3d %-9s %s %016x", line.time_us, line.node,
                         EventKindName(line.kind), line.label, line.detail);
}

std::string Trace::Last(uint64_t count) const {
  count = std::min({count, events_, static_cast<uint64_t>(last_.size())});
  std::string text;
  for (uint64_t i = events_ - count; i < events_; ++i) {
    absl::StrAppend(&text, Text(last_[i % last_.size()]), "\n");
  }
  return text;
}

}  // namespace paracord
