// Events and effects: the core takes events and returns effects. The shell (coordinator.h) turns
// calls, answers, timers and file results into events, and carries out the effects. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/core/job_state.h"
#include "proto/paracord.pb.h"
#include "storage/checkpoint.h"

namespace paracord {

// Identifies a call that waits for its answer; chosen by the shell, never reused.
using CallId = uint64_t;

// ---- events

struct TickEvent {};  // comes every kTickMs (limits.h)

struct JoinEvent {
  CallId call = 0;
  JoinRequest request;
};

struct WorkEvent {
  CallId call = 0;
  WorkRequest request;
};

struct WorkerHoldEvent {  // a call that a worker keeps open while its session lasts
  CallId call = 0;
  uint64_t session = 0;
};

struct WorkerHoldLostEvent {  // the connection of a WorkerHoldEvent's call broke
  CallId call = 0;
  uint64_t session = 0;
};

using PsRequest = std::variant<DescribeRequest, AdoptRequest, LoadRequest, SnapshotRequest,
                               PsHoldRequest, FinishRequest>;
using PsReply = std::variant<PsDescription, SnapshotReply, PsHoldReply, FinishReply>;

struct PsAnswerEvent {
  uint32_t ps = 0;
  uint64_t tag = 0;  // copied from the CallPs effect
  absl::StatusOr<PsReply> reply;
};

struct GenerationClaimedEvent {
  uint64_t generation = 0;
  absl::Status status;  // ALREADY_EXISTS: the number was claimed before
};

struct JobStateWrittenEvent {
  absl::Status status;  // ABORTED: written, but a newer coordinator may have missed it
};

struct RoundDirectoryMadeEvent {
  uint64_t round = 0;
  absl::Status status;
  std::string gone = "";  // a member of MakeRoundDirectory::chain without a manifest; "": none
};

struct RoundCommittedEvent {
  uint64_t round = 0;
  // ABORTED: a newer coordinator leads. The checkpoint may have been committed, but the newer
  // coordinator may not have seen it. ALREADY_EXISTS: another coordinator has completed the job.
  absl::Status status;
};

struct RoundGivenUpEvent {  // the answer to RemoveUncommittedRound
  Manifest manifest;
  // Whether the checkpoint was committed after all; an error: that is not known.
  absl::StatusOr<bool> stands;
};

struct SummaryWrittenEvent {
  absl::Status status;  // ABORTED: a newer coordinator leads and writes the summary
};

struct NewestGenerationEvent {
  absl::StatusOr<uint64_t> generation;  // the newest that any coordinator has claimed
  uint64_t obeyed = 0;                  // copied from FindNewestGeneration
};

struct DrainEvent {
  std::string signal = "SIGTERM";
};

struct ScaleEvent {
  CallId call = 0;
  ScaleRequest request;
};

using Event = std::variant<TickEvent, JoinEvent, WorkEvent, WorkerHoldEvent, WorkerHoldLostEvent,
                           PsAnswerEvent, GenerationClaimedEvent, JobStateWrittenEvent,
                           RoundDirectoryMadeEvent, RoundCommittedEvent, RoundGivenUpEvent,
                           SummaryWrittenEvent, NewestGenerationEvent, DrainEvent, ScaleEvent>;

// ---- effects, to be carried out in order

struct AnswerJoin {
  CallId call = 0;
  JoinReply reply;
};

struct AnswerWork {
  CallId call = 0;
  WorkReply reply;
};

struct AnswerHold {
  CallId call = 0;
  absl::StatusOr<WorkerHoldReply> reply;
};

struct AnswerScale {
  CallId call = 0;
  absl::StatusOr<ScaleReply> reply;
};

struct CallPs {
  uint32_t ps = 0;
  uint64_t tag = 0;
  int64_t deadline_ms = 0;
  PsRequest request;
  // The address to connect to before the call; empty: the present connection to the ps is used.
  std::string dial = "";
};

struct ClaimGeneration {
  uint64_t generation = 0;
};

struct WriteJobState {
  uint64_t generation = 0;
  JobState state;
};

struct FindNewestGeneration {
  uint64_t obeyed = 0;  // the generation that a ps obeys
};

struct MakeRoundDirectory {
  uint64_t round = 0;
  std::string directory;           // in the directory of the job's checkpoints
  std::vector<std::string> chain;  // the bases of the checkpoint: each needs a manifest
};

struct CommitRound {
  uint64_t round = 0;
  std::string directory;  // from MakeRoundDirectory; renamed to manifest.name
  Manifest manifest;
  CheckpointName newest_known;  // the newest committed checkpoint that the core knows
  uint64_t generation = 0;      // the current one; manifest.name.generation may be older
};

struct RemoveCheckpoints {
  // Names in the directory of the job's checkpoints; an increment comes before its base.
  std::vector<std::string> directories;
};

struct RemoveUncommittedRound {
  Manifest manifest;  // names a checkpoint, which stays if it was committed after all
};

struct WriteSummary {
  std::string contents;
  uint64_t generation = 0;  // the current generation
};

struct Log {
  enum class Level { kInfo, kWarning, kError };
  Level level = Level::kInfo;
  std::string text;
  // Fields of a JSON log: the task that the text is about, and the reason; "" if there is none.
  std::string peer = "";
  std::string reason = "";
};

struct Exit {  // the core's last effect: ends the process
  int code = 0;
  std::string reason;
};

using Effect =
    std::variant<AnswerJoin, AnswerWork, AnswerHold, AnswerScale, CallPs, ClaimGeneration,
                 WriteJobState, FindNewestGeneration, MakeRoundDirectory, CommitRound,
                 RemoveCheckpoints, RemoveUncommittedRound, WriteSummary, Log, Exit>;

// Named numbers at one step of training, as TensorBoard draws them.
struct Chart {
  int64_t step = 0;  // how many batches were done
  std::vector<std::pair<std::string, double>> values;
};

}  // namespace paracord
