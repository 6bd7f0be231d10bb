// A ParameterSession with the ps of a cluster. Has a copy of the parameters (parameter_copy.h),
// repeats a call to a ps until the ps answers or the tries are used up, and may send gradients
// before the exchange (staged_push.h). Owned by the trainer, used on the event loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/environment.h"
#include "common/gate.h"
#include "common/rpc.h"
#include "common/trace.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"
#include "worker/norms_carrier.h"
#include "worker/parameter_copy.h"
#include "worker/parameter_session.h"
#include "worker/staged_push.h"

namespace paracord {

struct PsSessionOptions {
  std::string task;             // this worker's task, such as "worker:1"
  int64_t exchange_ms = 10000;  // the deadline of a call
  uint32_t tries = 3;           // how often an exchange calls a ps that does not answer
  TransferOptions transfer;
  bool overlap = false;  // the job's `overlap`: values may be read during an exchange
  uint64_t staged_push_bytes = kStagedPushBytes;
};

class PsSession : public ParameterSession {
 public:
  // `stale` is called when the session is over, because a ps no longer takes part in the session or
  // has sent an impossible answer; `stale` may destroy the PsSession. `links` has one link for each
  // ps; the links must outlive the PsSession.
  PsSession(PsSessionOptions options, Session session, std::shared_ptr<Workload> workload,
            std::vector<Link*> links, Environment environment,
            std::function<void(std::string why)> stale);

  void Open(std::function<void()> done) override;
  bool Has(const SharedRows& rows) const override;
  std::shared_ptr<StepArrays> Begin(const SharedRows& rows, uint32_t place) override;
  void End() override;
  void GiveUp(const StepArrays& step) override;
  void Exchange(ExchangeOrder order, const std::shared_ptr<StepArrays>& step, DoneFn done) override;
  HeldValues values() const override { return {copy_->values(), copy_}; }
  std::string WaitsFor() const override;

 private:
  class Step;
  struct PsTries {
    uint32_t sent = 0;     // calls sent
    uint32_t no_room = 0;  // how many calls the ps refused for lack of memory; they are no tries
    int64_t no_room_since_ms = 0;
    bool answered = false;
    int64_t first_sent_ms = 0;
    std::string problem;         // why the last try failed
    bool staged = false;         // the last call left out gradients that had been sent before
    bool shares_memory = false;  // the answer to the last call may lie in memory of the ps
    int64_t begun = kTraceOff;   // for traces, when the last call began
    // For traces, when the answer to the last call began to come: "push" ends and "pull" begins.
    std::shared_ptr<std::atomic<int64_t>> answering;
  };
  struct Calls {
    ExchangeOrder order;
    std::shared_ptr<StagedPushSender> early;  // gradients sent before the exchange
    uint32_t open = 0;                        // the number of ps that have yet to answer
    std::vector<PsTries> tries;               // index: ps
    ExchangeResult result;
    bool repeated = false;  // a call failed and is repeated; the failed call may still be sending
    DoneFn done;            // null: no exchange is under way
    std::vector<std::pair<uint32_t, absl::Cord>> parked;  // (ps, reply) that came before End
  };

  void Send(uint32_t ps);
  void TracePush(uint32_t ps) const;
  void TracePull(uint32_t ps) const;
  void Answered(uint32_t ps, absl::StatusOr<absl::Cord> reply);
  absl::Status Take(uint32_t ps, const absl::Cord& reply);
  bool SendAgain(uint32_t ps, const absl::Status& error);
  std::optional<int64_t> RetryAfter(PsTries& tries, const absl::Status& error) const;
  void Finish();

  const PsSessionOptions options_;
  const Session session_;
  const std::shared_ptr<Workload> workload_;
  const std::vector<Link*> links_;
  const Environment environment_;
  const std::function<void(std::string)> stale_;
  const bool pushes_early_;
  const std::shared_ptr<StagedPushPauses> early_pauses_;

  NormsCarrier norms_;
  std::shared_ptr<ParameterCopy> copy_;  // shared with the executor
  bool reading_ = false;                 // between Begin and End
  uint64_t exchange_id_ = 0;
  Calls calls_;
  const Gate gate_;
};

}  // namespace paracord
