// Calls a ps as the bytes say, and compares it with a model of its contents: each batch is entered
// exactly once and in the order of its split, a refused call changes nothing, the ps obeys only the
// newest generation, and a pull of a state waits no longer than necessary.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "config/proofs.h"
#include "tests/fuzz/ps.h"

namespace paracord::fuzz {
namespace {

class Pair {
 public:
  explicit Pair(bool lanes) : lanes_(lanes), ps_(lanes) {}

  void Run(Input& input) {
    while (!input.empty()) {
      switch (input.Number(10)) {
        case 0:
          Adopt(input);
          break;
        case 1:
          Load();
          break;
        case 2:
        case 3:
          Push(input);
          break;
        case 4:
          PushStaged(input);
          break;
        case 5:
        case 6:
          PushWrongly(input);
          break;
        case 7:
          Snapshot(input);
          break;
        case 8:
          ps_.loop.Advance(static_cast<int64_t>(input.Number(60000)));
          break;
        case 9:
          PullState(input);
          break;
        default:
          Pull();
      }
      LookAtWaiting();
    }
    Compare();
    if (loaded_generation_ > 0) Pull();
  }

 private:
  struct Target {
    uint64_t epoch, split;
    uint32_t batch;
    float value;
  };

  void Adopt(Input& input) {
    const uint64_t generation = input.Number(8);
    const std::string coordinator = input.Number(255) % 2 == 0 ? "c" : "d";
    const bool same = generation == generation_ && coordinator == coordinator_;
    const bool newer = generation > generation_;
    Demand(ps_.Adopt(generation, coordinator).ok() == (generation > 0 && (same || newer)),
           "the newest generation is obeyed");
    if (!newer) return;
    generation_ = generation;
    coordinator_ = coordinator;
  }

  void Load() {
    if (ps_.exits > 0) return;
    const bool done = ps_.Load(coordinator_).ok();
    Demand(done == (generation_ > 0), "an adopted ps loads");
    // A Load that is repeated, because its answer was lost, changes nothing.
    if (!done || loaded_generation_ == generation_) return;
    loaded_generation_ = generation_;
    next_.clear();
    applied_ = rejected_ = 0;
    value_ = 0;
  }

  static Target Draw(Input& input) {
    Target target;
    target.epoch = input.Number(Ps::kEpochs - 1);
    target.split = input.Number(Ps::kSplits - 1);
    target.batch = static_cast<uint32_t>(input.Number(Ps::kSplitBatches - 1));
    target.value = static_cast<float>(input.Number(7)) - 3;
    return target;
  }

  // Checks the outcome of a valid push.
  void Expect(const Target& target, bool rejected, const absl::StatusOr<absl::Cord>& reply) {
    if (loaded_generation_ == 0 || ps_.ps->content() == nullptr)
      return Demand(!reply.ok(), "nothing is held");
    Demand(reply.ok(), "a sound push is answered");
    uint32_t& next = next_[target.epoch * Ps::kSplits + target.split];
    const PushOutcome expected = target.batch == next  ? PUSH_APPLIED
                                 : target.batch < next ? PUSH_ALREADY_APPLIED
                                                       : PUSH_GAP;
    if (expected == PUSH_APPLIED) {
      ++next;
      ++(rejected ? rejected_ : applied_);
      if (!rejected) value_ -= target.value;
    }
    const absl::StatusOr<DecodedReply> decoded = DecodeExchangeReply(*reply);
    Demand(decoded.ok() && decoded->header.partitions_size() == Ps::kTrained,
           "every partition says what became of a push");
    for (const PartitionState& state : decoded->header.partitions()) {
      Demand(state.outcome() == expected && state.next() == next, "a batch is entered once");
    }
  }

  DecodedRequest Sound(Input& input, Target& target, bool& rejected) {
    target = Draw(input);
    DecodedRequest request = ps_.PushOf(target.epoch, target.split, target.batch, target.value);
    rejected = input.Number(255) % 4 == 3;
    if (!rejected) return request;
    request.header.set_rejected(true);
    request.header.set_rejection(RejectionOf(Ps::kProofKey, request.header.batch()));
    for (PartitionPush& push : *request.header.mutable_push()) push.set_bytes(0);
    request.pieces.clear();
    return request;
  }

  void Push(Input& input) {
    Target target{};
    bool rejected = false;
    const DecodedRequest request = Sound(input, target, rejected);
    Expect(target, rejected, ps_.Send(method::kExchange, Ps::Encoded(request))->reply);
  }

  // Stages some of the pieces before the push, once or twice.
  void PushStaged(Input& input) {
    Target target{};
    bool rejected = false;
    DecodedRequest request = Sound(input, target, rejected);
    if (rejected) return;
    DecodedRequest stage;
    *stage.header.mutable_fence() = request.header.fence();
    stage.header.set_worker("w");
    stage.header.mutable_staged()->set_id("push");
    stage.pieces = {request.pieces.back()};
    stage.header.mutable_staged()->set_bytes(PieceBytes(stage.pieces));
    request.pieces.pop_back();
    request.header.set_worker("w");
    request.header.mutable_staged()->set_id("push");
    request.header.mutable_staged()->set_calls(1);
    const bool kept = ps_.Send(method::kStage, Ps::Encoded(stage))->reply.ok();
    if (!kept) return Demand(ps_.ps->content() == nullptr, "a sound part of a push is kept");
    const uint64_t calls = input.Number(2);
    if (calls == 2) {  // a second staging makes the push differ from its announcement
      (void)ps_.Send(method::kStage, Ps::Encoded(stage));
      Refused(request);
      return;
    }
    Expect(target, false, ps_.Send(method::kExchange, Ps::Encoded(request))->reply);
    if (calls == 1) Refused(request);  // the staged pieces are gone
  }

  void PushWrongly(Input& input) {
    Target target{};
    bool rejected = false;
    DecodedRequest request = Sound(input, target, rejected);
    ExchangeRequest& header = request.header;
    switch (input.Number(13)) {
      case 0:
        header.mutable_fence()->set_generation(generation_ + 1);
        break;
      case 1:
        header.mutable_fence()->set_boot_id("other");
        break;
      case 2:
        header.mutable_fence()->set_run_id("other");
        break;
      case 3:
        header.mutable_push()->RemoveLast();
        break;
      case 4:
        *header.add_push() = header.push(0);
        break;
      case 5:
        header.mutable_push(0)->set_partition(Ps::kTrained);  // not trained
        break;
      case 6:
        header.mutable_batch()->set_epoch(Ps::kEpochs + input.Number(UINT64_MAX) / 2);
        break;
      case 7:
        header.mutable_batch()->set_batch(Ps::kSplitBatches +
                                          static_cast<uint32_t>(input.Number(UINT32_MAX) / 2));
        break;
      case 8:
        header.add_pull()->set_partition(99);
        break;
      case 9:
        if (rejected) return;
        SetElement(request, std::numeric_limits<float>::quiet_NaN());
        break;
      case 10:
        if (rejected) return;
        header.set_rejected(true);
        break;
      case 11:
        if (!rejected) return;
        header.set_rejection(RejectionOf("another key", header.batch()));
        break;
      case 12:  // no gradients are added up in this job
        header.set_lanes(2 + static_cast<uint32_t>(input.Number(UINT32_MAX - 2)));
        ShowProofs(header);
        break;
      default:
        if (rejected) return;
        header.mutable_push(0)->set_encoding(static_cast<Encoding>(1 + input.Number(6)));
    }
    Refused(request);
  }

  // Adds the proofs of all lanes in a run, if there are few.
  void ShowProofs(ExchangeRequest& header) const {
    BatchId lane = header.batch();
    std::string proofs;
    for (uint32_t i = 0; i < std::min(header.lanes(), 8u); ++i, lane.set_split(lane.split() + 1)) {
      proofs += LeaseProofOf(Ps::kProofKey, generation_, lane.epoch(), lane.split());
    }
    header.set_proof(proofs);
  }

  static void SetElement(DecodedRequest& request, float value) {
    std::string bytes(request.pieces.back().data);
    std::memcpy(bytes.data(), &value, sizeof value);
    request.pieces.back().data = absl::Cord(bytes);
  }

  void Refused(const DecodedRequest& request) {
    Demand(!ps_.Send(method::kExchange, Ps::Encoded(request))->reply.ok(),
           "an unsound push is refused");
    Compare();
  }

  // Orders a snapshot, which fails, because nothing can be written.
  void Snapshot(Input& input) {
    SnapshotRequest request;
    *request.mutable_fence() = ps_.MakeFence();
    request.set_coordinator_boot_id(coordinator_);
    request.set_round(input.Number(3));
    request.set_directory("round-g" + std::to_string(generation_) + "-r1");
    request.set_ps_count(1);
    Demand(!ps_.Send(method::kSnapshot, request)->reply.ok(), "no file can be written");
  }

  void Compare() {
    const PsDescription now = ps_.Describe();
    Demand(now.generation() == generation_ && now.coordinator_boot_id() == coordinator_,
           "one coordinator is obeyed");
    if (loaded_generation_ == 0 || ps_.ps->content() == nullptr) return;
    uint64_t finished = 0, open = 0;
    for (const auto& [split, next] : next_) {
      finished += next == Ps::kSplitBatches;
      open += next > 0 && next < Ps::kSplitBatches;
    }
    for (const PartitionDescription& partition : now.partitions()) {
      if (partition.id() >= Ps::kTrained) continue;
      const Ledger& ledger = partition.ledger();
      uint64_t in_intervals = 0;
      for (const SplitInterval& each : ledger.finished()) {
        in_intervals += each.last() - each.first() + 1;
      }
      Demand(ledger.applied() == applied_ && ledger.rejected() == rejected_,
             "what is entered is counted");
      Demand(in_intervals == finished && static_cast<uint64_t>(ledger.open_size()) == open,
             "a ledger has what was entered");
    }
  }

  void Pull() {
    DecodedRequest request;
    *request.header.mutable_fence() = ps_.MakeFence();
    for (uint32_t id = 0; id < Ps::kPartitions; ++id) {
      request.header.add_pull()->set_partition(id);
    }
    const auto call = ps_.Send(method::kExchange, Ps::Encoded(request));
    if (loaded_generation_ == 0 || ps_.ps->content() == nullptr) {
      return Demand(!call->reply.ok(), "nothing is held");
    }
    Demand(call->reply.ok(), "values are read");
    const DecodedReply reply = DecodeExchangeReply(*call->reply).value();
    std::array<uint64_t, Ps::kPartitions> elements{};
    for (const PieceView& piece : reply.pieces) {
      const std::string bytes(piece.data);
      for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, bytes.data() + at, sizeof value);
        Demand(value == (piece.partition < Ps::kTrained ? value_ : 0), "values are the model's");
      }
      elements[piece.partition] += bytes.size() / sizeof(float);
    }
    for (uint32_t id = 0; id < Ps::kPartitions; ++id) {
      Demand(elements[id] == Ps::kElements[id], "all values are read");
    }
  }

  // Returns whether the first `state` rounds of the job are entered, whole.
  bool HasCome(uint64_t state) const {
    for (uint64_t split = 0; split < Ps::kEpochs * Ps::kSplits; ++split) {
      const uint64_t before = split / Ps::kSplits * Ps::kSplitBatches;
      const uint64_t wanted =
          state < before ? 0 : std::min<uint64_t>(state - before, Ps::kSplitBatches);
      const auto next = next_.find(split);
      if ((next == next_.end() ? 0 : next->second) < wanted) return false;
    }
    return true;
  }

  void PullState(Input& input) {
    DecodedRequest request;
    *request.header.mutable_fence() = ps_.MakeFence();
    request.header.add_pull()->set_partition(0);
    const uint64_t states = Ps::kEpochs * Ps::kSplitBatches;
    const uint64_t state = input.Number(states + 1);
    const auto wait_ms = static_cast<uint32_t>(input.Number(1000));
    request.header.set_state(state);
    request.header.set_wait_ms(wait_ms);
    const auto call = ps_.Send(method::kExchange, Ps::Encoded(request));
    const bool held = loaded_generation_ != 0 && ps_.ps->content() != nullptr;
    if (!held || !lanes_ || state > states) {
      return Demand(call->answered == 1 && !call->reply.ok(), "there is no such state");
    }
    const int64_t until_ms = ps_.loop.NowMs() + std::min<int64_t>(wait_ms, 500);
    waiting_.push_back({call, state, until_ms, generation_, loaded_generation_});
  }

  void LookAtWaiting() {
    std::erase_if(waiting_, [&](const Waiting& one) {
      if (one.generation != generation_ || one.loaded != loaded_generation_) {
        Demand(one.call->answered == 1 && !one.call->reply.ok(), "a pull ends with its generation");
        return true;
      }
      const bool come = HasCome(one.state);
      const bool over = !come && one.until_ms <= ps_.loop.NowMs();
      if (one.call->answered == 0) Demand(!come && !over, "nobody waits for nothing");
      if (one.call->answered == 0) return false;
      Demand(one.call->reply.ok(), "a pull that may wait is answered");
      const ExchangeReply reply = DecodeExchangeReply(*one.call->reply)->header;
      Demand(reply.waits() ? over && reply.missing_size() > 0 : come, "a pull waits as it has to");
      return true;
    });
  }

  struct Waiting {
    std::shared_ptr<FakeCall> call;
    uint64_t state = 0;
    int64_t until_ms = 0;
    uint64_t generation = 0;
    uint64_t loaded = 0;
  };

  const bool lanes_;
  Ps ps_;
  std::vector<Waiting> waiting_;
  uint64_t generation_ = 0;
  std::string coordinator_;
  uint64_t loaded_generation_ = 0;     // 0: nothing loaded
  std::map<uint64_t, uint32_t> next_;  // next batch by split, over all epochs
  uint64_t applied_ = 0;
  uint64_t rejected_ = 0;
  float value_ = 0;  // an integer, which float32 adds exactly
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Pair pair(input.Number(1) == 1);
  pair.Run(input);
  return 0;
}

}  // namespace paracord::fuzz
