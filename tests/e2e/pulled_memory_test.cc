// The memory of a real ps, by the kernel's count, while rows are pulled that fill its replies. The
// test is the ps's coordinator and its worker.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/shared_memory.h"
#include "config/job.h"
#include "e2e/process.h"
#include "exchange/codec.h"
#include "exchange/rows.h"
#include "net/grpc/network.h"
#include "net/rpc_proto.h"
#include "net/shared_network.h"
#include "proto/protocol.h"
#include "tests/fakes.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kUncounted = 32 * kMiB;  // what a ps may take beyond what it counts
constexpr int64_t kPullMs = 60000;

class LonePs {
 public:
  // Starts a ps, and has it hold a growing table without rows, of `dim` elements each. `shared`:
  // replies are read in the ps's memory, not from a socket.
  LonePs(uint64_t dim, bool shared) : dim_(dim) {
    REQUIRE(EnableSharedMemory());
    std::filesystem::create_directories(root_.path() + "/dir");
    const json cluster = {{"chief", {"unix:/nobody"}}, {"ps", {address_}}, {"worker", {"unix:/w"}}};
    process_.emplace(
        std::vector<std::string>{PARACORD_BIN_DIR "/paracord-ps", "--task", "ps:0", "--dir",
                                 root_.path() + "/dir", "--memory-limit", "2GiB"},
        Variables{{"TF_CONFIG", TextOf(json{{"cluster", cluster}})}}, root_.path() + "/ps.log");
    control_ = network_.Dial(address_);
    Load();
    link_ = shared ? shared_.DialBoot(address_, fence_.boot_id()) : network_.Dial(address_);
    Pull(1000);  // what the first call makes once is no reply
    begun_bytes_ = Resident();
    begun_counted_ = Counted();
  }

  uint64_t row_bytes() const { return dim_ * sizeof(float); }

  // Returns the reply, which has the initial values of ids that have no rows.
  absl::Cord Pull(uint64_t rows) {
    std::vector<uint64_t> ids(rows);
    std::iota(ids.begin(), ids.end(), uint64_t{1} << 40);
    ExchangeRequest header;
    *header.mutable_fence() = fence_;
    header.set_worker("worker:0");
    std::vector<PieceView> pieces;
    NameRows(ids, 0, Piece::PULL_IDS, *header.add_pull()->mutable_rows(), pieces);
    std::promise<absl::StatusOr<absl::Cord>> promise;
    link_->Call(method::kExchange, EncodeExchange(header, std::move(pieces)), kPullMs,
                [&](absl::StatusOr<absl::Cord> reply) { promise.set_value(std::move(reply)); });
    absl::StatusOr<absl::Cord> reply = promise.get_future().get();
    INFO(reply.status() << ReadText(root_.path() + "/ps.log"));
    REQUIRE(reply.ok());
    REQUIRE(reply->size() > rows * row_bytes());
    return *std::move(reply);
  }

  // What the ps takes more than before the first large pull, by the kernel and by its own count.
  uint64_t Resident() const {
    return MemoryOf("VmRSS") - std::min(begun_bytes_, MemoryOf("VmRSS"));
  }
  uint64_t Peak() const { return MemoryOf("VmHWM") - std::min(begun_bytes_, MemoryOf("VmHWM")); }
  uint64_t Counted() const { return Held("") - std::min(begun_counted_, Held("")); }
  // The bytes of a holder, or of all.
  uint64_t Held(const std::string& holder) const {
    uint64_t bytes = 0;
    const PsDescription described = Describe();
    for (const MemoryHeld& held : described.memory()) {
      if (holder.empty() || held.holder() == holder) bytes += held.bytes();
    }
    return bytes;
  }
  // Has the kernel forget the highest count so far.
  void ForgetPeak() const {
    WriteText(absl::StrCat("/proc/", process_->pid(), "/clear_refs"), "5");
  }

 private:
  template <class Reply, class Request>
  absl::StatusOr<Reply> Ask(std::string_view method, const Request& request) const {
    return AwaitProto<Reply>(*control_, method, request, 10000);
  }
  PsDescription Describe() const {
    const auto described = Ask<PsDescription>(method::kDescribe, DescribeRequest());
    INFO(described.status());
    REQUIRE(described.ok());
    return *described;
  }
  uint64_t MemoryOf(const std::string& key) const {
    const std::string text = ReadText(absl::StrCat("/proc/", process_->pid(), "/status"));
    const size_t at = text.find(key + ":");
    REQUIRE(at != std::string::npos);
    return std::strtoull(text.c_str() + at + key.size() + 1, nullptr, 10) * 1024;
  }
  void Load() {
    REQUIRE(WaitUntil(
        30000, [&] { return Ask<PsDescription>(method::kDescribe, DescribeRequest()).ok(); }));
    fence_.set_run_id("00112233445566778899aabbccddeeff");
    fence_.set_generation(1);
    fence_.set_boot_id(Describe().boot_id());
    fence_.set_protocol(kProtocol);
    AdoptRequest adopt;
    adopt.set_boot_id(fence_.boot_id());
    adopt.set_generation(1);
    adopt.set_coordinator_boot_id("test");
    adopt.set_protocol(kProtocol);
    REQUIRE(Ask<PsDescription>(method::kAdopt, adopt).ok());
    const absl::StatusOr<PsDescription> loaded = Ask<PsDescription>(method::kLoad, Order());
    INFO(loaded.status());
    REQUIRE(loaded.ok());
  }
  LoadRequest Order() const {
    Job job;
    job.name = "pulls";
    job.model = {{"class_name", "Sequential"}, {"config", {{"layers", json::array()}}}};
    job.train = {"npy", {{"features", "/f.npy"}, {"labels", "/l.npy"}}};
    job.loss = {"mean_squared_error"};
    job.optimizer = {"adagrad"};
    LoadRequest order;
    *order.mutable_fence() = fence_;
    order.set_coordinator_boot_id("test");
    order.set_job_json(JobToJson(job));
    order.mutable_plan()->set_records(1000);
    order.mutable_plan()->set_batch(1);
    order.mutable_plan()->set_split_batches(1000);
    VariableSpec& table = *order.add_variables();
    table.set_name("user/embeddings");
    table.add_shape(1);
    table.add_shape(dim_);
    table.set_dtype(FLOAT32);
    table.set_trainable(true);
    table.mutable_initializer()->set_name("random_uniform");
    table.mutable_table()->set_kind(TableSpec::GROWING);
    PartitionSpec& shard = *order.add_partitions();
    shard.set_name("user/embeddings/part_0");
    shard.set_row_end(1);
    return order;
  }

  const uint64_t dim_;
  TestDirectory root_;
  const std::string address_ = absl::StrCat("unix:", root_.path(), "/ps");
  GrpcNetwork network_;
  SharedNetwork shared_{network_};
  std::optional<Process> process_;
  std::unique_ptr<Link> control_, link_;
  Fence fence_;
  uint64_t begun_bytes_ = 0, begun_counted_ = 0;
};

TEST_CASE("pulls of a million rows take the memory that their ps counts") {
  const bool shared = GENERATE(true, false);
  CAPTURE(shared);
  LonePs ps(/*dim=*/16, shared);
  constexpr uint64_t kRows = 1'000'000;
  const uint64_t bytes = kRows * ps.row_bytes();
  std::vector<absl::Cord> replies;  // of shared memory the ps's own
  for (uint64_t pulls = 1; pulls <= 3; ++pulls) {
    const uint64_t before = ps.Resident();
    ps.ForgetPeak();
    replies.push_back(ps.Pull(kRows));
    const uint64_t counted = ps.Counted(), resident = ps.Resident();
    CAPTURE(pulls, before / kMiB, counted / kMiB, resident / kMiB, ps.Peak() / kMiB);
    if (shared) CHECK(ps.Held("replies") == pulls * bytes);
    CHECK(resident <= counted + kUncounted);
    // While it answers it also holds the ids, 8 bytes each.
    CHECK(ps.Peak() <= before + bytes + kRows * sizeof(uint64_t) + kUncounted);
    if (shared || pulls == 1) CHECK(ps.Peak() >= before + bytes / 2);
  }
}

TEST_CASE("a ps gives the memory of replies back after twelve pulls, each smaller than the last") {
  LonePs ps(/*dim=*/64, /*shared=*/true);
  constexpr uint64_t kStep = 80'000;  // rows, 20 MiB
  for (uint64_t steps = 12; steps > 0; --steps) ps.Pull(steps * kStep);
  CHECK(ps.Peak() > 12 * kStep * ps.row_bytes());
  CHECK(WaitUntil(30000, [&] { return ps.Held("replies") == 0; }));
  const bool back = WaitUntil(60000, [&] {
    return ps.Counted() <= kIdleKept && ps.Resident() <= ps.Counted() + kUncounted;
  });
  CAPTURE(ps.Resident() / kMiB, ps.Counted() / kMiB);
  CHECK(back);
}

}  // namespace
}  // namespace paracord::e2e
