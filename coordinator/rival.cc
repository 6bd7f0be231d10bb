#include "coordinator/rival.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "coordinator/core/job_state.h"
#include "coordinator/generations.h"
#include "net/rpc_proto.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr int64_t kAskMs = 1000;  // the delay of a start whose rival is gone
constexpr int64_t kAgainMs = 250;

// The run id in the newest job.state; "" if it cannot be read.
std::string RunIdIn(Files& files, const std::string& dir) {
  const auto states = NumbersOf(files, dir, kStatePrefix);
  if (!states.ok() || states->empty()) return "";
  const std::string path = absl::StrCat(dir, "/", kStatePrefix, states->back());
  const absl::StatusOr<std::string> text = files.ReadWhole(path);
  if (!text.ok()) return "";
  const absl::StatusOr<JobState> state = ParseJobState(*text, path);
  return state.ok() ? state->run_id : "";
}

}  // namespace

std::string AddressIn(Files& files, const std::string& dir) {
  const absl::StatusOr<std::string> text = files.ReadWhole(absl::StrCat(dir, "/", kAddressName));
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

bool IsStatus(const nlohmann::json& answer) {
  const auto is = [&](const char* key, bool (nlohmann::json::*type)() const) {
    return answer.contains(key) && (answer[key].*type)();
  };
  return answer.is_object() && is("phase", &nlohmann::json::is_string) &&
         is("run_id", &nlohmann::json::is_string) &&
         is("generation", &nlohmann::json::is_number_unsigned);
}

absl::StatusOr<bool> LeadsJob(Files& files, const std::string& dir, const nlohmann::json& answer) {
  if (!IsStatus(answer) || answer["phase"] == "ended") return false;
  // By now another job may listen at a stale address. A rival one generation behind may be claiming
  // its next one.
  ASSIGN_OR_RETURN(const uint64_t newest, NewestGeneration(files, dir));
  if (answer["generation"].get<uint64_t>() + 1 < newest) return false;
  const std::string run_id = RunIdIn(files, dir);
  return run_id.empty() || answer["run_id"] == run_id;
}

RivalCheck::RivalCheck(Environment environment, std::string dir, std::string own_address,
                       int64_t patience_ms)
    : environment_(environment),
      dir_(std::move(dir)),
      own_address_(std::move(own_address)),
      patience_ms_(patience_ms),
      log_("coordinator") {}

void RivalCheck::Start(std::function<void(const absl::Status&)> done) {
  done_ = std::move(done);
  started_ms_ = environment_.loop.NowMs();
  const auto found = std::make_shared<std::string>();
  environment_.executor.Run(
      [found, &files = environment_.files, dir = dir_] {
        *found = AddressIn(files, dir);
        const bool socket_gone =
            found->starts_with("unix:") && ::access(found->substr(5).c_str(), F_OK) != 0;
        if (socket_gone) found->clear();
      },
      gate_.Enter([this, found] {
        rival_ = std::move(*found);
        if (rival_.empty() || rival_ == own_address_) return done_(absl::OkStatus());
        link_ = environment_.network.Dial(rival_);
        Ask();
      }));
}

void RivalCheck::Ask() {
  StatusRequest request;
  request.set_history_from(kNoHistory);
  CallProto<StatusReply>(
      *link_, method::kStatus, request, kAskMs,
      gate_.EnterOn(environment_.loop, [this](const absl::StatusOr<StatusReply>& reply) {
        Judge(reply.ok() ? reply->json() : std::string());
      }));
}

void RivalCheck::Judge(const std::string& answer) {
  const auto leads = std::make_shared<bool>(false);
  environment_.executor.Run(
      [leads, &files = environment_.files, dir = dir_, answer] {
        *leads = LeadsJob(files, dir, JsonOf(answer)).value_or(false);
      },
      gate_.Enter([this, leads] { Judged(*leads); }));
}

void RivalCheck::Judged(bool leads) {
  if (!leads) return done_(absl::OkStatus());
  if (environment_.loop.NowMs() - started_ms_ >= patience_ms_) {
    return done_(
        absl::AlreadyExistsError(absl::StrCat("another coordinator leads this job and answers at ",
                                              rival_, ": stop it first, or leave the job to it")));
  }
  if (!std::exchange(said_, true)) {
    log_.Warn("another coordinator answers at {}: waiting for it to leave, at most {} s", rival_,
              patience_ms_ / 1000);
  }
  environment_.loop.PostAfter(kAgainMs, gate_.Enter([this] { Ask(); }));
}

}  // namespace paracord
