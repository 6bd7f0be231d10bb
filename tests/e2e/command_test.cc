// Runs the programs from a shell: where the shell finds them, and where they write.
#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/counting_job.h"
#include "e2e/process.h"
#include "tests/fakes.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

struct Ran {
  int code = -1;
  std::string said;  // stdout and stderr, unless redirected
};

// A directory with the counting job, in which shell lines run.
class Shell {
 public:
  Shell() { WriteCountingJob(root(), {{"steps", 100}, {"evaluate", {{"every_epochs", 0}}}}); }
  const std::string& root() const { return temp_.path(); }
  // Writes a counting job whose data section `of` is `data`.
  void WriteJob(const std::string& name, const json& data, const char* of = "train") const {
    json job = JsonOf(ReadText(root() + "/job.json"));
    job["data"][of] = data;
    WriteText(root() + "/" + name, TextOf(job));
  }
  Ran Run(const std::string& line) const {
    const std::string log = root() + "/shell.log";
    WriteText(log, "");
    const Variables variables = {
        {"TMPDIR", root()},
        {"TF_CONFIG", R"({"cluster": {"chief": ["unix:/no/c"], "ps": ["unix:/no/p"]}})"},
        {"PATH", PARACORD_BIN_DIR ":/usr/bin:/bin"}};
    Process process({"/bin/sh", "-c", "cd " + root() + " && " + line}, variables, log);
    const auto code = process.Wait(60000);
    return {code.value_or(-1), ReadText(log)};
  }

 private:
  TestDirectory temp_;
};

bool Has(const Ran& ran, const std::string& text) {
  INFO(ran.said);
  return ran.said.find(text) != std::string::npos;
}

TEST_CASE("a working directory that is gone is named as the reason") {
  const Shell shell;
  for (const std::string command :
       {"paracord status --dir d", "paracord validate j", "paracord train j",
        "paracord train ../job.json --dir d", "paracord checkpoint ls --dir d",
        "paracord export --dir ../d --out x", "paracord-ps --task ps:0 --dir d",
        "paracord-coordinator --task chief --job j --dir d"}) {
    CAPTURE(command);
    const Ran ran = shell.Run("mkdir gone && cd gone && rmdir ../gone && " + command);
    CHECK(ran.code == 2);
    CHECK(Has(ran, ": the current directory cannot be had (No such file or directory)"));
  }
}

TEST_CASE("paracord says its version") {
  const Ran ran = Shell().Run("paracord --version");
  CHECK(ran.code == 0);
  CHECK(ran.said.starts_with("paracord "));
  CHECK(Has(ran, ", protocol "));
}

TEST_CASE("output that cannot be written is reported, and fails a command whose result it is") {
  const Shell shell;
  REQUIRE(
      shell.Run("mkdir -p d/checkpoints && echo '{\"status\": \"done\"}' > d/summary.json").code ==
      0);
  for (const std::string command :
       {"paracord validate job.json", "paracord checkpoint ls --dir d", "paracord status --dir d",
        "paracord --help", "paracord train --help", "paracord-ps --help", "paracord-worker --help",
        "paracord-coordinator --help"}) {
    for (const std::string to : {" > /dev/full", " >&-"}) {
      CAPTURE(command + to);
      const Ran ran = shell.Run(command + to);
      CHECK(ran.code == 1);
      CHECK(Has(ran, command.substr(0, command.find(' ')) +
                         ": not all output could be written to standard output"));
    }
  }
  const Ran trained = shell.Run("paracord train job.json --dir d > /dev/full");
  CHECK(trained.code == 0);
  CHECK(Has(trained, "paracord train: not all output could be written to standard output"));
  CheckCounted(shell.root() + "/d", 100);
  // `head` leaves after the first line of output.
  CHECK(shell.Run("paracord train job.json --dir e | head -n 1").code == 0);
  CheckCounted(shell.root() + "/e", 100);
}

TEST_CASE("whoever ignores that the terminal is closed goes on, and so do its daemons") {
  const Shell shell;
  const Ran ran = shell.Run(
      "trap '' HUP; paracord train job.json --dir d & "
      "until grep -q joined d/logs/worker-0.log; do sleep 0.01; done 2> /dev/null; "
      "kill -HUP $! $(pgrep -f -- \"--dir $PWD/d\"); wait $!");
  INFO(ran.said);
  CHECK(ran.code == 0);
  CheckCounted(shell.root() + "/d", 100);
}

TEST_CASE("a task of another program, or one that the cluster lacks, is named") {
  const Shell shell;
  const std::pair<std::string, std::string> cases[] = {
      {"paracord-ps --task worker:0 --dir d", "needs a task ps:INDEX, not worker:0"},
      {"paracord-ps --task ps:0", "ps:0 needs --dir DIR"},
      {"paracord-ps --task ps:7 --dir d",
       "the cluster gives ps:7 no address (key cluster.ps, which has 1): correct --task"},
      {"env -u TF_CONFIG paracord-ps --task ps:7 --dir d",
       "there is no cluster, so that ps:7 has no address: set TF_CONFIG, or give --cluster FILE"},
      {"env -u TF_CONFIG paracord-worker --task worker:0",
       "there is no cluster, so that the coordinator has no address: set TF_CONFIG"},
      {"paracord-coordinator --task ps:0 --dir d --job job.json",
       "needs the task coordinator (or chief), not ps:0"},
      {"paracord-coordinator --task chief", "needs --job FILE and --dir DIR"},
  };
  for (const auto& [command, said] : cases) {
    CAPTURE(command);
    const Ran ran = shell.Run(command);
    CHECK(ran.code == 2);
    CHECK(Has(ran, said));
  }
}

TEST_CASE("a file in the place of the checkpoints is named, and nobody is started again for it") {
  const Shell shell;
  const Ran ran = shell.Run("mkdir d && touch d/checkpoints && paracord train job.json --dir d");
  CHECK(ran.code == 2);
  CHECK(Has(ran, "cannot make directory " + shell.root() + "/d/checkpoints: Not a directory"));
  CHECK_FALSE(Has(ran, "was restarted"));
}

TEST_CASE("an empty TMPDIR counts as unset, and one that does not exist is named") {
  const Shell shell;
  const Ran nowhere = shell.Run("TMPDIR=/no/where paracord train job.json --dir d");
  CHECK(nowhere.code == 2);
  CHECK(Has(nowhere, "/no/where/paracord-"));
  CHECK(shell.Run("TMPDIR= paracord train job.json --dir d").code == 0);
}

TEST_CASE("a command may have as many files open as a worker") {
  const Shell shell;
  const json data = {
      {"format", "csv"}, {"files", "*.csv"}, {"header", false}, {"features", {0}}, {"label", 1}};
  shell.WriteJob("files.json", data);
  const Ran ran = shell.Run(
      "for i in $(seq 100); do echo 0,0 > $i.csv; done; ulimit -Sn 64; "
      "paracord convert files.json --out x.tfrecord");
  CHECK(ran.code == 0);
  CHECK(Has(ran, "x.tfrecord: 100 examples"));
}

TEST_CASE("a command's log does not go to its standard output") {
  const Shell shell;
  // The file is large enough that workers would cache an index of its records.
  const json data = {{"format", "csv"},
                     {"files", "wide.csv"},
                     {"header", false},
                     {"features", {0, 0}},
                     {"label", std::vector<int>(kUnits, 1)}};
  shell.WriteJob("wide.json", data, "test");
  const Ran ran = shell.Run(
      "paracord train job.json --dir d > /dev/null && touch d/index && "
      "pad=$(head -c 50000 /dev/zero | tr '\\0' x) && "
      "for i in $(seq 400); do echo 0,0,$pad; done > wide.csv && "
      "paracord evaluate wide.json --dir d --json 2> said > printed && cat printed");
  CHECK(ran.code == 0);
  CHECK_FALSE(JsonOf(ran.said).is_discarded());
  CHECK(ReadText(shell.root() + "/said").find("not kept for the next start") != std::string::npos);
}

}  // namespace
}  // namespace paracord::e2e
