// The coordinator's core takes events and gives effects. The shell (coordinator.h) turns calls,
// answers, timers and file results into events, and carries effects out. Plain data.
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

// A call of a worker's that waits for its answer; drawn by the shell, never reused.
using CallId = uint64_t;

// ---- events

struct TickEvent {};  // every kTickMs

struct JoinEvent {
  CallId call = 0;
  JoinRequest request;
};

struct WorkEvent {
  CallId call = 0;
  WorkRequest request;
};

struct WorkerHoldEvent {
  CallId call = 0;
  uint64_t session = 0;
};

struct WorkerHoldLostEvent {  // the connection broke: the process is gone, or cut off
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
  absl::Status status;  // ALREADY_EXISTS: another coordinator has it
};

struct JobStateWrittenEvent {
  absl::Status status;  // ABORTED: it is there, but a newer coordinator may not have seen it
};

struct RoundDirectoryMadeEvent {
  uint64_t round = 0;
  absl::Status status;
  std::string gone = "";  // one of the chain that has no manifest any more; "": all are there
};

struct RoundCommittedEvent {
  uint64_t round = 0;
  // ABORTED: it is there, but a newer coordinator may not have seen it. ALREADY_EXISTS: another
  // coordinator has completed the job.
  absl::Status status;
};

struct RoundGivenUpEvent {  // whose commit failed for good
  Manifest manifest;
  absl::StatusOr<bool> stands;  // whether the checkpoint is durable all the same; an error: unknown
};

struct SummaryWrittenEvent {
  absl::Status status;  // ABORTED: a newer coordinator leads, and the last word is its own
};

struct NewestGenerationEvent {
  absl::StatusOr<uint64_t> generation;  // newest claimed by any coordinator
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
  // The address to dial first: there is no connection yet, or somebody else was at the other end of
  // the one that there is. Empty: over the connection that there is.
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
  std::string directory;           // below DIR/checkpoints
  std::vector<std::string> chain;  // checkpoints to look for, which the round continues
};

struct CommitRound {
  uint64_t round = 0;
  std::string directory;  // from MakeRoundDirectory; the commit renames it to manifest.name
  Manifest manifest;
  CheckpointName newest_known;  // the newest committed checkpoint
  uint64_t generation = 0;      // now; manifest.generation may be older
};

struct RemoveCheckpoints {
  std::vector<std::string> directories;  // below DIR/checkpoints, each before what it continues
};

struct RemoveUncommittedRound {
  Manifest manifest;  // names the checkpoint; a committed checkpoint stays
};

struct WriteSummary {
  std::string contents;
  uint64_t generation = 0;  // the current generation
};

struct Log {
  enum class Level { kInfo, kWarning, kError };
  Level level = Level::kInfo;
  std::string text;
  // The task that the text is about, and why; fields of a log in JSON. Empty where there is none.
  std::string peer = "";
  std::string reason = "";
};

struct Exit {  // when everything before it has been carried out and answered
  int code = 0;
  std::string reason;
};

using Effect =
    std::variant<AnswerJoin, AnswerWork, AnswerHold, AnswerScale, CallPs, ClaimGeneration,
                 WriteJobState, FindNewestGeneration, MakeRoundDirectory, CommitRound,
                 RemoveCheckpoints, RemoveUncommittedRound, WriteSummary, Log, Exit>;

// Named numbers at one step, as TensorBoard charts them.
struct Chart {
  int64_t step = 0;  // batches done
  std::vector<std::pair<std::string, double>> values;
};

}  // namespace paracord
