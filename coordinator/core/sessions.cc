#include "coordinator/core/sessions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"

namespace paracord {
namespace {

constexpr int64_t kParkMs = 1000;      // a parked call is answered after this time at most
constexpr int64_t kBackoffMs = 10000;  // the duration of a rest
constexpr int64_t kHearMs = 2000;      // the time to hear from everybody after a suspension

template <class Reply>
Reply RejoinReply(const std::string& why) {
  Reply reply;
  reply.set_rejoin(why);
  return reply;
}

}  // namespace

Sessions::Sessions(uint64_t last_id, const std::vector<std::string>& named, Effects& effects)
    : effects_(effects), last_id_(last_id), unnotified_(named.begin(), named.end()) {}

WorkerSession* Sessions::Find(uint64_t id) {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second;
}

bool Sessions::AnyOther(const std::string& task) const {
  return std::ranges::any_of(sessions_, [&](const auto& item) { return item.second.task != task; });
}

std::optional<int64_t> Sessions::HeardMs(uint64_t id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? std::nullopt : std::optional(it->second.last_seen_ms);
}

std::optional<uint64_t> Sessions::Of(const std::string& task) const {
  const auto it = session_of_.find(task);
  return it == session_of_.end() ? std::nullopt : std::optional(it->second);
}

bool Sessions::BeginLife(const std::string& task, const std::string& boot_id, bool from_before) {
  if (boot_of_.size() >= kSessionsMax) {
    boot_of_.clear();
    reports_counted_.clear();
    given_.clear();  // their reports are believed from now on
  }
  if (displaced_.size() >= kSessionsMax) displaced_.clear();
  std::string& newest = boot_of_[task];
  if (newest == boot_id) return false;
  const bool other = !newest.empty();
  if (other) displaced_.insert(newest);
  reports_counted_.erase(task);
  given_.insert_or_assign(task, GivenSplits(from_before));
  newest = boot_id;
  return other;
}

std::optional<std::string> Sessions::NoteNumerics(const std::string& task,
                                                  const std::string& numerics) {
  if (numerics_.empty()) {
    numerics_task_ = task;
    numerics_ = numerics;
  }
  if (numerics == numerics_ || !std::exchange(same_numerics_, false)) return std::nullopt;
  return absl::StrCat(numerics_task_, " with \"", numerics_, "\"");
}

WorkerSession* Sessions::Open(const std::string& task, std::string device, int64_t now_ms) {
  if (sessions_.size() >= kSessionsMax) return nullptr;
  TakeId();
  WorkerSession& session = sessions_[last_id_];
  by_id_[last_id_] = &session;
  session.id = last_id_;
  session.task = task;
  session.device = std::move(device);
  session.joined_ms = session.last_seen_ms = session.counted_ms = now_ms;
  session_of_[task] = session.id;
  Told(task);
  return &session;
}

std::optional<WorkerSession> Sessions::Close(uint64_t id, const std::string& why, bool logged) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return std::nullopt;
  WorkerSession session = std::move(it->second);
  sessions_.erase(it);
  by_id_.erase(id);
  session_of_.erase(session.task);
  if (logged) {
    effects_.Emit(
        Log{Log::Level::kInfo, absl::StrCat(session.task, " left: ", why), session.task, why});
  }
  if (session.hold.has_value()) {
    effects_.Emit(AnswerHold{*session.hold, RejoinReply<WorkerHoldReply>(why)});
  }
  if (session.parked.has_value()) {
    effects_.Emit(AnswerWork{*session.parked, RejoinReply<WorkReply>(why)});
  }
  return session;
}

WorkerSession* Sessions::TakeHold(const WorkerHoldEvent& event, int64_t now_ms) {
  WorkerSession* const session = Find(event.session);
  if (session == nullptr) {
    effects_.Emit(AnswerHold{event.call, RejoinReply<WorkerHoldReply>("no such session")});
    return nullptr;
  }
  if (session->hold.has_value()) {
    effects_.Emit(AnswerHold{*session->hold, absl::CancelledError("held again")});
  }
  session->last_seen_ms = now_ms;
  return session;
}

bool Sessions::LoseHold(const WorkerHoldLostEvent& event) {
  WorkerSession* const session = Find(event.session);
  if (session == nullptr || session->hold != event.call) return false;  // an earlier hold
  session->hold.reset();
  return true;
}

bool Sessions::IsNewReport(const WorkerSession& session, uint64_t number) {
  constexpr size_t kRemembered = 32;  // a worker has only a few in flight
  if (number == 0) return true;
  std::set<uint64_t>& counted = reports_counted_[session.task];
  if (!counted.insert(number).second) {
    PROBE("coordinator.report.repeated");
    return false;
  }
  if (counted.size() > kRemembered) counted.erase(counted.begin());
  return true;
}

void Sessions::Park(WorkerSession& session, CallId call, int64_t now_ms) {
  session.parked = call;
  session.parked_ms = now_ms;
  parked_.insert(session.id);
}

void Sessions::ServeParked(int64_t now_ms, const std::function<bool()>& look,
                           const std::function<bool(WorkerSession&, CallId)>& give,
                           const std::function<WorkReply(const WorkerSession&)>& wait) {
  for (auto it = parked_.begin(); it != parked_.end() && look();) {
    WorkerSession* const session = Find(*it);
    if (session == nullptr || !session->parked.has_value()) {
      it = parked_.erase(it);
      continue;
    }
    if (give(*session, *session->parked)) {
      session->parked.reset();
    } else if (now_ms - session->parked_ms >= kParkMs) {
      WorkReply reply = wait(*session);
      if (session->backoff_until_ms > now_ms) reply.set_wait("failed too often; resting");
      effects_.Emit(AnswerWork{*std::exchange(session->parked, std::nullopt), std::move(reply)});
    }
    it = session->parked.has_value() ? std::next(it) : parked_.erase(it);
  }
}

void Sessions::Rest(WorkerSession& session, int64_t now_ms, const std::string& did) {
  session.backoff_until_ms = now_ms + kBackoffMs;
  const bool all = std::ranges::all_of(
      sessions_, [&](const auto& item) { return item.second.backoff_until_ms > now_ms; });
  if (all) {
    PROBE("coordinator.rest.nobody");
    for (auto& [id, other] : sessions_) other.backoff_until_ms = now_ms;
  } else {
    effects_.Warn(
        absl::StrCat(session.task, " ", did, " and gets no lease for ", kBackoffMs / 1000, " s"));
  }
  session.failures_in_a_row = 0;
}

std::vector<uint64_t> Sessions::Silent(int64_t now_ms, int64_t silent_ms) const {
  std::vector<uint64_t> silent;
  for (const auto& [id, session] : sessions_) {
    if (now_ms - session.last_seen_ms > silent_ms) silent.push_back(id);
  }
  return silent;
}

void Sessions::Forgive(int64_t stopped_ms, int64_t now_ms) {
  heard_all_at_ms_ = now_ms + kHearMs;
  for (auto& [id, session] : sessions_) {
    session.last_seen_ms = std::min(now_ms, session.last_seen_ms + stopped_ms);
  }
}

void Sessions::Asked(const std::string& task) {
  if (unnotified_.size() < kSessionsMax) unnotified_.insert(task);
  if (asking_.size() < kSessionsMax) asking_.insert(task);
}

void Sessions::TellAll(const Exit& exit) {
  for (auto& [id, session] : sessions_) {
    if (session.hold.has_value()) {
      effects_.Emit(AnswerHold{*session.hold, LeaveReply<WorkerHoldReply>(exit)});
    }
    if (session.parked.has_value()) {
      effects_.Emit(AnswerWork{*session.parked, LeaveReply<WorkReply>(exit)});
    }
    if (!session.hold.has_value() && !session.parked.has_value()) unnotified_.insert(session.task);
    session.hold.reset();
    session.parked.reset();
  }
}

}  // namespace paracord
