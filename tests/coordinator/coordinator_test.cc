// What a coordinator makes of the directory that it finds, and leaves there.
#include "coordinator/coordinator.h"

#include <catch2/catch.hpp>
#include <optional>

#include "coordinator/job_state.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// Nobody ever answers.
class SilentNetwork : public NoNetwork {
 public:
  class SilentLink : public Link {
   public:
    void Call(std::string_view, Parts, int64_t, ReplyFn) override {}
    const std::string& address() const override { return address_; }

   private:
    const std::string address_ = "unix:/nobody";
  };
  std::unique_ptr<Link> Dial(const std::string&) override { return std::make_unique<SilentLink>(); }
};

Job SmallJob() {
  Job job;
  job.name = "j";
  job.model = nlohmann::json::object();
  job.train = {"npy", {{"features", "/f.npy"}, {"labels", "/l.npy"}}};
  job.loss = {"mean_squared_error"};
  job.optimizer = {"sgd"};
  return job;
}

// A coordinator in the directory that cannot begin within timeouts.start_s, as its life is.
int RunInVain(const TestDirectory& directory) {
  spdlog::set_level(spdlog::level::off);
  ManualLoop loop;
  ManualExecutor executor(loop);
  SilentNetwork network;
  PosixFiles files;
  SeededRandom random(1);
  std::optional<int> left;
  Coordinator coordinator(
      {.job = SmallJob(), .ps_addresses = {"unix:/nobody"}, .dir = directory.path()},
      {loop, network, files, executor, random}, [&](int code, std::string) { left = code; });
  coordinator.Start("");
  loop.Advance((SmallJob().timeouts.start_s + 10) * 1000);
  REQUIRE(left.has_value());
  return *left;
}

TEST_CASE("a run that comes to nothing leaves the summary of the job that was done") {
  const TestDirectory directory;
  PosixFiles files;
  const std::string done = R"({"status": "done", "metrics": {"test": {"accuracy": 0.9}}})";
  directory.Write(kSummaryName, done);
  for (int life = 0; life < 2; ++life) {  // the second finds what the first wrote
    CHECK(RunInVain(directory) == 202);
    CHECK(files.ReadWhole(directory / kDoneSummaryName).value_or("") == done);
    const std::string failed = files.ReadWhole(directory / kSummaryName).value_or("");
    CHECK(failed.find("\"status\": \"failed\"") != std::string::npos);
    CHECK(failed.find("0.9") == std::string::npos);
  }
}

TEST_CASE("a summary of a job that was not done, or of nothing, is not kept") {
  for (const char* text : {R"({"status": "failed"})", "", "[", "7", R"({"status": 3})"}) {
    const TestDirectory directory;
    directory.Write(kSummaryName, text);
    CHECK(RunInVain(directory) == 202);
    CHECK_FALSE(PosixFiles().Open(directory / kDoneSummaryName).ok());
  }
}

}  // namespace
}  // namespace paracord
