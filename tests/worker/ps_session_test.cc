// A session with two ps that answer what the test says.
#include "worker/ps_session.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "exchange/codec.h"
#include "tests/fakes.h"
#include "tests/parts.h"

namespace paracord {
namespace {

class KeptCalls : public Link {
 public:
  void Call(std::string_view, Parts, int64_t, ReplyFn done) override {
    calls.push_back(std::move(done));
  }
  const std::string& address() const override { return address_; }

  std::vector<ReplyFn> calls;

 private:
  const std::string address_ = "unix:/ps";
};

class TwoWeights : public GradientProgram {
 public:
  TwoWeights() {
    for (const char* name : {"a", "b"}) {
      VariableSpec& weight = variables_.emplace_back();
      weight.set_name(name);
      weight.add_shape(1);
      weight.set_dtype(FLOAT32);
      weight.set_trainable(true);
    }
  }
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t, ConstTensors,
                                          MutableTensors) override {
    return 0;
  }
  absl::Status Evaluate(const Batch&, ConstTensors, std::vector<MetricState>&) override {
    return absl::UnimplementedError("no evaluation");
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch&, ConstTensors) override {
    return absl::UnimplementedError("no prediction");
  }

 private:
  std::vector<VariableSpec> variables_;
  std::vector<std::string> metric_names_;
};

TEST_CASE("a session that a reply ends takes none of the replies behind it") {
  ManualLoop loop;
  ManualExecutor executor(loop);
  NoNetwork network;
  PosixFiles files;
  SeededRandom random(1);
  KeptCalls links[2];
  Session opened;
  for (uint32_t i = 0; i < 2; ++i) {
    opened.add_ps()->set_boot_id(i == 0 ? "a" : "b");
    PartitionSpec& partition = *opened.add_partitions();
    partition.set_id(i);
    partition.set_variable(i);
    partition.set_row_end(1);
    partition.set_ps(i);
  }
  const auto workload = std::make_shared<Workload>();
  workload->program = std::make_unique<TwoWeights>();
  int stale = 0;
  std::unique_ptr<PsSession> session;
  session = std::make_unique<PsSession>(
      PsSessionOptions{.task = "worker:0", .transfer = {}, .overlap = true}, opened, workload,
      std::vector<Link*>{&links[0], &links[1]}, Environment{loop, network, files, executor, random},
      [&](const std::string&) {
        ++stale;
        session = nullptr;
      });
  session->Open([] {});
  loop.RunPosted();
  session->Exchange({}, nullptr, [](const ExchangeResult&) { FAIL("no exchange succeeds"); });
  const auto step = session->Begin(nullptr);
  for (KeptCalls& link : links) {  // each answers for a partition that nobody has
    ExchangeReply reply;
    reply.add_partitions()->set_partition(7);
    REQUIRE(link.calls.size() == 1);
    link.calls[0](Joined(EncodeExchange(reply, {})));
  }
  loop.RunPosted();
  CHECK(stale == 0);  // values are read meanwhile
  session->End();
  CHECK(stale == 1);
  CHECK(session == nullptr);
}

}  // namespace
}  // namespace paracord
