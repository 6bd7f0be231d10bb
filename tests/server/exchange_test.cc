#include <atomic>
#include <limits>
#include <thread>

#include "absl/strings/match.h"
#include "config/proofs.h"
#include "store/store.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

TEST_CASE("a push is applied and pulled back in one exchange") {
  TestPs ps;
  ps.Ready();
  DecodedRequest request = ps.PushOf(0, 0, 2.0f);
  ps.AddPulls(request);
  const auto reply = ps.Exchange(request);
  REQUIRE(reply.ok());
  CHECK(reply->values.at(0) == Floats(9, -2.0f));
  CHECK(reply->values.at(2) == Floats(2, -2.0f));
  CHECK(reply->values.at(3) == Floats(4, 0.0f));
  CHECK(reply->State(0).outcome() == PUSH_APPLIED);
  CHECK(reply->State(0).next() == 1);
  CHECK(reply->State(0).updates() == 1);
  CHECK(reply->State(0).bytes() == 36);
  CHECK(reply->State(3).outcome() == PUSH_NONE);
  CHECK(reply->State(3).updates() == 0);
}

TEST_CASE("a repeated push changes nothing, and one that comes too early neither") {
  TestPs ps;
  ps.Ready();
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  REQUIRE(ps.Exchange(ps.PushOf(0, 1, 1.0f)).ok());
  const auto again = ps.Exchange(ps.PushOf(0, 0, 1.0f));
  REQUIRE(again.ok());
  CHECK(again->State(1).outcome() == PUSH_ALREADY_APPLIED);
  CHECK(again->State(1).next() == 2);
  const auto early = ps.Exchange(ps.PushOf(0, 5, 1.0f));
  REQUIRE(early.ok());
  CHECK(early->State(2).outcome() == PUSH_GAP);
  CHECK(early->State(2).next() == 2);
  CHECK(ps.PullAll().values.at(0) == Floats(9, -2.0f));
  CHECK(ps.Describe().duplicates() == 3);
  CHECK(ps.Describe().refused() == 0);
  CHECK(ps.Describe().partitions(0).ledger().applied() == 2);
}

TEST_CASE("a push whose generation ends while it is under way enters nothing any more") {
  TestPs ps;
  ps.Ready();
  const auto content = ps.ps->content();
  std::atomic<uint64_t> newest = 1;
  UpdateCounters counters;
  WaitingPulls waiting(ps.loop, std::make_shared<MemoryShare>());
  const auto run = [&](uint32_t batch) {
    absl::Status status = absl::UnknownError("not answered");
    const Store store(*content, counters, waiting);
    store.Exchange(ps.PushOf(0, batch, 1.0f), PushFence(newest, 1),
                   [&](const absl::StatusOr<Parts>& reply) { status = reply.status(); });
    return status;
  };
  CHECK(run(0).ok());
  newest = 2;  // Adopt has done this much before the coordinator reads the ledgers
  CHECK(absl::IsAborted(run(1)));
  CHECK(ps.PullAll().values.at(0) == Floats(9, -1.0f));
  const PsDescription description = ps.Describe();
  for (const PartitionDescription& partition : description.partitions()) {
    CHECK(partition.ledger().applied() == (partition.has_ledger() ? 1 : 0));
  }
  newest = 1;
  CHECK(run(1).ok());
}

TEST_CASE("a rejected batch and one without a gradient advance the ledger alone") {
  TestPs ps;
  ps.Ready();
  DecodedRequest rejected = ps.PushOf(0, 0, 1.0f);
  rejected.header.set_rejected(true);
  rejected.pieces.clear();
  for (PartitionPush& push : *rejected.header.mutable_push()) push.set_bytes(0);
  const auto reply = ps.Exchange(rejected);
  REQUIRE(reply.ok());
  CHECK(reply->State(0).outcome() == PUSH_APPLIED);
  CHECK(reply->State(0).updates() == 0);

  DecodedRequest partial = ps.PushOf(0, 1, 1.0f);
  partial.header.mutable_push(0)->set_bytes(0);
  partial.pieces.erase(partial.pieces.begin());
  REQUIRE(ps.Exchange(partial).ok());
  const Pulled after = ps.PullAll();
  CHECK(after.values.at(0) == Floats(9, 0.0f));
  CHECK(after.values.at(1) == Floats(6, -1.0f));
  const PsDescription description = ps.Describe();
  for (int i = 0; i < 3; ++i) {
    CHECK(description.partitions(i).ledger().rejected() == 1);
    CHECK(description.partitions(i).ledger().applied() == 1);
    CHECK(description.partitions(i).updates() == (i == 0 ? 0 : 1));
  }
  CHECK_FALSE(description.partitions(3).has_ledger());
}

TEST_CASE("a batch is rejected with the coordinator's proof alone, where it has told its key") {
  TestPs ps;
  AdoptRequest adopt = ps.AdoptOrder(1);
  adopt.set_proof_key("key");
  REQUIRE(ps.Call<PsDescription>(method::kAdopt, adopt).ok());
  REQUIRE(ps.Load().ok());
  DecodedRequest rejected = ps.PushOf(0, 0, 1.0f);
  rejected.header.set_proof(LeaseProofOf("key", 1, 0, 0));
  rejected.header.set_rejected(true);
  rejected.pieces.clear();
  for (PartitionPush& push : *rejected.header.mutable_push()) push.set_bytes(0);
  const auto refuse = [&] {
    const absl::Status refused = ps.Exchange(rejected).status();
    CHECK(absl::IsInvalidArgument(refused));
    CHECK(absl::StrContains(refused.message(), "batch 0 of split 0 of epoch 0 is pushed as rej"));
  };
  refuse();
  rejected.header.set_rejection(RejectionOf("another key", rejected.header.batch()));
  refuse();
  BatchId next = rejected.header.batch();
  next.set_batch(1);
  rejected.header.set_rejection(RejectionOf("key", next));
  refuse();
  CHECK(ps.Describe().partitions(0).ledger().rejected() == 0);
  CHECK(ps.Describe().refused() == 3);
  rejected.header.set_rejection(RejectionOf("key", rejected.header.batch()));
  CHECK(ps.Exchange(rejected).ok());
  CHECK(ps.Describe().partitions(0).ledger().rejected() == 1);
  DecodedRequest sound = ps.PushOf(0, 1, 1.0f);  // a batch with gradients needs no rejection
  sound.header.set_proof(LeaseProofOf("key", 1, 0, 0));
  CHECK(ps.Exchange(sound).ok());

  adopt = ps.AdoptOrder(2, "c2");  // the next coordinator has another key
  adopt.set_proof_key("another key");
  REQUIRE(ps.Call<PsDescription>(method::kAdopt, adopt).ok());
  rejected.header = ps.PushOf(1, 0, 1.0f).header;
  for (PartitionPush& push : *rejected.header.mutable_push()) push.set_bytes(0);
  rejected.header.set_rejected(true);
  rejected.header.set_proof(LeaseProofOf("another key", 2, 0, 1));
  rejected.header.set_rejection(RejectionOf("key", rejected.header.batch()));
  const absl::Status refused = ps.Exchange(rejected).status();
  CHECK(
      absl::StrContains(refused.message(), "batch 0 of split 1 of epoch 0 is pushed as rejected"));
}

TEST_CASE("a push whose split was not leased is refused, where the ps was told the key") {
  TestPs ps;
  AdoptRequest adopt = ps.AdoptOrder(7);
  adopt.set_proof_key("key");
  REQUIRE(ps.Call<PsDescription>(method::kAdopt, adopt).ok());
  REQUIRE(ps.Load().ok());
  DecodedRequest push = ps.PushOf(3, 0, 1.0f, /*epoch=*/900);
  push.header.set_worker("worker:2");
  for (const std::string& proof :
       {std::string(), LeaseProofOf("another", 7, 900, 3), LeaseProofOf("key", 6, 900, 3),
        LeaseProofOf("key", 7, 0, 3), LeaseProofOf("key", 7, 900, 2)}) {
    push.header.set_proof(proof);
    const absl::Status refused = ps.Exchange(push).status();
    CHECK(absl::IsPermissionDenied(refused));
    CHECK(absl::StartsWith(refused.message(), "worker:2 pushes batch 0 of split 3 of epoch 900 "));
  }
  CHECK(ps.Describe().refused() == 5);
  CHECK(ps.Describe().partitions(0).updates() == 0);
  // The proof of a split is valid for each of its batches.
  for (uint32_t batch = 0; batch < 2; ++batch) {
    push = ps.PushOf(3, batch, 1.0f, 900);
    push.header.set_proof(LeaseProofOf("key", 7, 900, 3));
    CHECK(ps.Exchange(push).ok());
  }
  CHECK(ps.Describe().partitions(0).updates() == 2);
  CHECK(ps.PullAll().values.size() == 4);  // a pull needs no proof
}

TEST_CASE("values travel back only if they are not what the worker has") {
  TestPs ps;
  ps.Ready();
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  DecodedRequest pull;
  *pull.header.mutable_fence() = ps.MakeFence();
  ps.AddPulls(pull);
  pull.header.mutable_pull(0)->set_known_version(1);
  pull.header.mutable_pull(1)->set_known_version(0);
  const auto reply = ps.Exchange(pull);
  REQUIRE(reply.ok());
  CHECK_FALSE(reply->values.contains(0));
  CHECK(reply->State(0).bytes() == 0);
  CHECK(reply->State(0).updates() == 1);
  CHECK(reply->values.contains(1));
  CHECK(reply->values.contains(2));  // the worker has no copy of this partition
}

TEST_CASE("a gradient may come in pieces of any size and order") {
  TestModel model;
  model.variables[0] = TestVariable("dense/kernel", {5, 200000});
  TestPs ps(model);
  ps.Ready();
  DecodedRequest request = ps.PushOf(0, 0, 1.0f);
  Floats gradient(ps.model.Elements(0));
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 1000);
  const absl::Cord whole = CordOf(gradient);
  request.pieces.erase(request.pieces.begin());
  SeededRandom random(3);
  std::vector<PieceView> pieces;
  for (uint64_t at = 0; at < whole.size();) {
    const uint64_t size =
        std::min<uint64_t>(whole.size() - at, static_cast<uint64_t>(random.Between(1, 300001)));
    pieces.push_back({0, at, whole.Subcord(at, size)});
    at += size;
  }
  while (!pieces.empty()) {
    const size_t pick =
        static_cast<size_t>(random.Between(0, static_cast<int64_t>(pieces.size()) - 1));
    request.pieces.push_back(pieces[pick]);
    pieces.erase(pieces.begin() + static_cast<int64_t>(pick));
  }
  REQUIRE(ps.Exchange(request).ok());
  const Pulled after = ps.PullAll();
  bool equal = true;
  for (size_t i = 0; i < gradient.size(); ++i) equal &= after.values.at(0)[i] == -gradient[i];
  CHECK(equal);
}

struct Malformed {
  const char* what;
  std::function<void(DecodedRequest&)> damage;
};

std::function<void(DecodedRequest&)> WithNumber(float value) {
  return [value](DecodedRequest& r) {
    Floats gradient(9, 1.0f);
    gradient[8] = value;
    r.pieces[0].data = CordOf(gradient);
  };
}

const std::vector<Malformed> kMalformedPushes = {
    {"NaN", WithNumber(std::nanf(""))},
    {"infinity", WithNumber(std::numeric_limits<float>::infinity())},
    {"minus infinity", WithNumber(-std::numeric_limits<float>::infinity())},
    {"NaN in the last partition",
     [](auto& r) {
       r.pieces[2].data = CordOf({1.0f, std::nanf("")});
     }},
    {"no piece", [](auto& r) { r.pieces.erase(r.pieces.begin()); }},
    {"no pieces at all", [](auto& r) { r.pieces.clear(); }},
    {"short", [](auto& r) { r.pieces[0].data.RemoveSuffix(4); }},
    {"short by a byte", [](auto& r) { r.pieces[0].data.RemoveSuffix(1); }},
    {"long", [](auto& r) { r.pieces[0].data.Append("1234"); }},
    {"empty piece",
     [](auto& r) {
       r.pieces.push_back({0, 36, absl::Cord()});
     }},
    {"empty piece alone", [](auto& r) { r.pieces[0].data.Clear(); }},
    {"not from the start", [](auto& r) { r.pieces[0].offset = 4; }},
    {"offset beyond", [](auto& r) { r.pieces[0].offset = 1000; }},
    {"offset that overflows", [](auto& r) { r.pieces[0].offset = ~uint64_t{0} - 8; }},
    {"gap between pieces",
     [](auto& r) {
       r.pieces[0].data.RemoveSuffix(8);
       r.pieces.push_back({0, 32, absl::Cord("1234")});
     }},
    {"overlapping pieces",
     [](auto& r) {
       r.pieces.push_back({0, 32, absl::Cord("1234")});
     }},
    {"the same piece twice", [](auto& r) { r.pieces.push_back(r.pieces[0]); }},
    {"piece after the end",
     [](auto& r) {
       r.pieces.push_back({0, 36, absl::Cord("1234")});
     }},
    {"piece of an unknown partition",
     [](auto& r) {
       r.pieces.push_back({17, 0, absl::Cord("1234")});
     }},
    {"piece of one not trained",
     [](auto& r) {
       r.pieces.push_back({3, 0, CordOf(Floats(4, 1.0f))});
     }},
    {"pieces swapped", [](auto& r) { std::swap(r.pieces[0].partition, r.pieces[1].partition); }},
    {"bytes too few", [](auto& r) { r.header.mutable_push(0)->set_bytes(32); }},
    {"bytes too many", [](auto& r) { r.header.mutable_push(0)->set_bytes(40); }},
    {"bytes enormous", [](auto& r) { r.header.mutable_push(0)->set_bytes(~uint64_t{0}); }},
    {"bytes 0 with a piece", [](auto& r) { r.header.mutable_push(0)->set_bytes(0); }},
    {"unknown partition", [](auto& r) { r.header.mutable_push(0)->set_partition(17); }},
    {"unknown partition too", [](auto& r) { r.header.add_push()->set_partition(17); }},
    {"named twice", [](auto& r) { *r.header.add_push() = r.header.push(0); }},
    {"one left out",
     [](auto& r) {
       r.header.mutable_push()->RemoveLast();
       r.pieces.pop_back();
     }},
    {"all left out",
     [](auto& r) {
       r.header.clear_push();
       r.pieces.clear();
     }},
    {"one that is not trained", [](auto& r) { r.header.add_push()->set_partition(3); }},
    {"gradient in a rejected batch", [](auto& r) { r.header.set_rejected(true); }},
    {"piece in a rejected batch",
     [](auto& r) {
       r.header.set_rejected(true);
       for (PartitionPush& push : *r.header.mutable_push()) push.set_bytes(0);
     }},
    {"batch outside its split", [](auto& r) { r.header.mutable_batch()->set_batch(10); }},
    {"split outside the plan", [](auto& r) { r.header.mutable_batch()->set_split(10); }},
    {"epoch outside all plans", [](auto& r) { r.header.mutable_batch()->set_epoch(~uint64_t{0}); }},
    {"pull of an unknown partition", [](auto& r) { r.header.add_pull()->set_partition(9); }},
    {"pull twice",
     [](auto& r) {
       r.header.add_pull()->set_partition(1);
       r.header.add_pull()->set_partition(1);
     }},
};

TEST_CASE("a malformed push is refused whole: no byte, count or ledger changes") {
  TestPs ps;
  ps.Ready();
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  const auto values = ps.PullAll().values;
  REQUIRE(kMalformedPushes.size() >= 30);
  uint64_t refused = 0;
  for (const Malformed& malformed : kMalformedPushes) {
    CAPTURE(malformed.what);
    PsDescription before = ps.Describe();
    DecodedRequest request = ps.PushOf(0, 1, 5.0f);
    malformed.damage(request);
    const absl::Status status = ps.Exchange(request).status();
    CAPTURE(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    PsDescription after = ps.Describe();
    CHECK(after.refused() == ++refused);
    after.clear_refused();
    before.clear_refused();
    CHECK(after.SerializeAsString() == before.SerializeAsString());
    CHECK(ps.PullAll().values == values);
  }
  CHECK(ps.Exchange(ps.PushOf(0, 1, 5.0f)).ok());  // the refused push has left nothing behind
}

TEST_CASE("a push without a batch, and bytes that are no exchange, are refused") {
  TestPs ps;
  ps.Ready();
  DecodedRequest request = ps.PushOf(0, 0, 1.0f);
  request.header.clear_batch();
  CHECK(absl::IsInvalidArgument(ps.Exchange(request).status()));
  CHECK(absl::IsInvalidArgument(ps.ExchangeBytes(absl::Cord("\x7a")).status()));
  CHECK(ps.PullAll().values.at(0) == Floats(9, 0.0f));
}

TEST_CASE("pushes from many threads add up to their serial sum, each once") {
  TestModel model;
  model.variables[0] = TestVariable("dense/kernel", {5, 50000});
  TestPs ps(model);
  ps.Ready();
  // Two threads push every split in parallel. For each batch, one of the two pushes is applied.
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  const DecodedRequest base = ps.PushOf(0, 0, 1.0f);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t split = static_cast<uint64_t>(t) / 2; split < 4; split += 2) {
        for (uint32_t batch = 0; batch < 10; ++batch) {
          DecodedRequest request = base;
          request.header.mutable_batch()->set_split(split);
          request.header.mutable_batch()->set_batch(batch);
          const auto reply = ps.Exchange(request);
          if (!reply.ok() || reply->State(0).outcome() == PUSH_GAP) ++failures;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  const Pulled after = ps.PullAll();
  CHECK(after.values.at(0) == Floats(150000, -40.0f));
  CHECK(after.values.at(2) == Floats(2, -40.0f));
  CHECK(ps.Describe().duplicates() == 3 * 40);
  CHECK(ps.Describe().partitions(0).updates() == 40);
}

TEST_CASE("no pull sees half an update, and what was pulled never changes") {
  TestModel model;
  model.variables[0] = TestVariable("dense/kernel", {5, 200000});  // several chunks in a partition
  TestPs ps(model);
  ps.Ready();
  const DecodedRequest base = ps.PushOf(0, 0, 1.0f);
  DecodedRequest pull;
  *pull.header.mutable_fence() = base.header.fence();
  pull.header.add_pull()->set_partition(0);
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::thread reader([&] {
    while (!stop) {
      const auto reply = ps.Exchange(pull);
      if (!reply.ok()) {
        ++torn;
        continue;
      }
      const Floats& values = reply->values.at(0);
      const float expected = -static_cast<float>(reply->State(0).updates());
      for (const float value : values) torn += value != expected ? 1 : 0;
    }
  });
  for (uint64_t split = 0; split < 5; ++split) {
    for (uint32_t batch = 0; batch < 10; ++batch) {
      DecodedRequest request = base;
      request.header.mutable_batch()->set_split(split);
      request.header.mutable_batch()->set_batch(batch);
      REQUIRE(ps.Exchange(request).ok());
    }
  }
  stop = true;
  reader.join();
  CHECK(torn == 0);
}

TEST_CASE("an update that is not finite marks its partition, for good") {
  TestPs ps;
  ps.Ready();
  const float huge = std::numeric_limits<float>::max();
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, huge)).ok());
  CHECK(ps.Describe().partitions(0).healthy());
  REQUIRE(ps.Exchange(ps.PushOf(0, 1, huge)).ok());
  CHECK_FALSE(ps.Describe().partitions(0).healthy());
  CHECK(ps.Describe().partitions(3).healthy());
  REQUIRE(ps.Exchange(ps.PushOf(0, 2, 0.0f)).ok());
  CHECK_FALSE(ps.Describe().partitions(0).healthy());
}

}  // namespace
}  // namespace paracord
