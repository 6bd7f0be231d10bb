#include "worker/evaluator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "net/rpc_proto.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"
#include "proto/protocol.h"
#include "storage/claim.h"

namespace paracord {
namespace {

constexpr int64_t kAskMs = 1000, kAskAgainMs = 5000;
constexpr int64_t kPatienceMs = 60000;  // time to mount shared storage

}  // namespace

Evaluator::Evaluator(EvaluatorOptions options, OpenWorkloadFn open, Environment environment,
                     std::function<void(int exit_code, std::string reason)> exit)
    : options_(std::move(options)),
      environment_(environment),
      exit_(std::move(exit)),
      log_(options_.task),
      scorer_(
          std::make_shared<CheckpointScorer>(environment_.files, options_.dir, std::move(open))),
      stop_(std::make_shared<std::atomic<bool>>(false)) {}

Evaluator::~Evaluator() { stop_->store(true); }

void Evaluator::Start() {
  Look();
  if (!options_.coordinator.empty()) AskForDir();
}

void Evaluator::AskForDir() {
  if (exiting_) return;
  coordinator_ = environment_.network.Dial(options_.coordinator);
  StatusRequest request;
  request.set_history_from(kNoHistory);
  CallProto<StatusReply>(
      *coordinator_, method::kStatus, request, kAskMs,
      gate_.EnterOn(environment_.loop, [this](const absl::StatusOr<StatusReply>& reply) {
        Answered(reply.ok() ? reply->json() : std::string());
      }));
}

void Evaluator::Answered(const std::string& answer) {
  const nlohmann::json status = JsonOf(answer);
  const auto text = [&](const char* key) {
    return status.is_object() && status.contains(key) && status[key].is_string()
               ? status[key].get<std::string>()
               : std::string();
  };
  const std::string boot_id = text("coordinator"), theirs = text("dir");
  uint64_t generation = 0;
  if (!boot_id.empty() && status.contains("generation") &&
      status["generation"].is_number_unsigned()) {
    generation = status["generation"].get<uint64_t>();
  }
  const auto again = [this] {
    environment_.loop.PostAfter(kAskAgainMs, gate_.Enter([this] { AskForDir(); }));
  };
  if (generation == 0) return again();
  const auto same = std::make_shared<bool>(true);
  environment_.executor.Run(
      [same, &files = environment_.files, dir = options_.dir, generation, boot_id] {
        const std::string claim = ClaimText(generation, boot_id);
        *same = SeesClaim(files, dir, generation, claim).value_or(false);
      },
      gate_.Enter([this, same, theirs, again] {
        if (*same) return;
        OtherDir(theirs);
        again();
      }));
}

void Evaluator::OtherDir(const std::string& theirs) {
  const int64_t now_ms = environment_.loop.NowMs();
  const std::string where =
      absl::StrCat("--dir is not the same directory as the coordinator's: ", options_.dir,
                   options_.host.empty() ? "" : " on host ", options_.host, " here, ", theirs,
                   " there (at ", options_.coordinator, ")");
  if (!other_dir_since_ms_.has_value()) {
    other_dir_since_ms_ = now_ms;
    log_.Warn("{}", where);
  }
  // A job whose coordinator has left may still have checkpoints to score.
  if (found_ || now_ms - *other_dir_since_ms_ < kPatienceMs) return;
  Exit(ExitCode::kConfiguration, where);
}

void Evaluator::Look() {
  if (exiting_) return;
  looking_ = true;
  const auto look = std::make_shared<CheckpointScorer::Look>();
  environment_.executor.Run(
      [look, scorer = scorer_, stop = stop_, now = environment_.loop.UnixMs()] {
        *look = scorer->LookOnce(now, *stop);
      },
      gate_.Enter([this, look] { Looked(*look); }));
}

void Evaluator::Looked(const CheckpointScorer::Look& look) {
  looking_ = false;
  found_ = found_ || look.scored;
  for (const std::string& line : look.said) log_.Info("{}", line);
  if (stop_->load()) return Exit(ExitCode::kDrained, "drained");
  if (look.leave.has_value()) return Exit(look.leave->first, look.leave->second);
  environment_.loop.PostAfter(look.scored ? 0 : options_.poll_ms, gate_.Enter([this] { Look(); }));
}

void Evaluator::Drain() {
  stop_->store(true);
  if (!looking_) Exit(ExitCode::kDrained, "drained");
}

void Evaluator::Exit(ExitCode code, const std::string& reason) {
  if (std::exchange(exiting_, true)) return;
  log_.Info("leaves with exit code {}: {}", static_cast<int>(code), reason, "reason"_a = reason);
  exit_(static_cast<int>(code), reason);
}

}  // namespace paracord
