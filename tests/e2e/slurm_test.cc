// Tests the Slurm script: how it parses Slurm's variables, and a job trained with a fake srun that
// starts all tasks here. deploy/slurm/check tests the script on a real Slurm.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/json_text.h"
#include "config/cluster.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/ports.h"
#include "e2e/process.h"
#include "tests/fakes.h"

namespace paracord::e2e {
namespace {

const std::string kScript = PARACORD_SOURCE_DIR "/deploy/slurm/paracord.sbatch";

struct Shown {
  int code = -1;
  std::vector<std::string> lines;
  std::string text() const { return absl::StrJoin(lines, "\n"); }
  // Returns the host of each task, by rank.
  std::string hosts() const {
    std::vector<std::string> hosts;
    for (size_t i = 1; i < lines.size(); ++i) {
      hosts.push_back(lines[i].substr(lines[i].find(' ') + 1));
    }
    return absl::StrJoin(hosts, " ");
  }
};

// Returns the tasks that the script derives from an allocation.
Shown Show(const Variables& variables) {
  const TestDirectory directory;
  const std::string log = directory.path() + "/log";
  Process process({kScript, "--show"}, variables, log);
  Shown shown;
  shown.code = process.Wait(30000).value_or(-1);
  shown.lines = absl::StrSplit(ReadText(log), '\n', absl::SkipEmpty());
  return shown;
}

TEST_CASE("tasks are dealt to the nodes in turn, first the parameter servers") {
  const Shown shown = Show({{"SLURM_JOB_ID", "7"},
                            {"SLURM_JOB_NODELIST", "n[1-3,7]"},
                            {"SLURM_TASKS_PER_NODE", "2(x3),1"},
                            {"PARACORD_PS", "2"},
                            {"PARACORD_PORT", "7400"}});
  CHECK(shown.code == 0);
  CHECK(shown.text() ==
        R"({"cluster": {"chief": ["n1:7400"], "ps": ["n1:7401", "n2:7402"], )"
        R"("worker": ["n3:7403", "n7:7404", "n1:7405", "n2:7406", "n3:7407"]}})"
        "\nps:0 n1\nps:1 n2\nworker:0 n3\nworker:1 n7\nworker:2 n1\nworker:3 n2\nworker:4 n3");
  const auto cluster = ParseTfConfig(shown.lines.at(0));
  REQUIRE(cluster.ok());
  CHECK((*cluster)->workers.size() == 5);
}

TEST_CASE("the coordinator is on the node that runs the script, and ports are told by the job") {
  const Variables job = {{"SLURM_JOB_ID", "1000"},
                         {"SLURM_JOB_NODELIST", "a,b"},
                         {"SLURM_TASKS_PER_NODE", "2(x2)"},
                         {"SLURMD_NODENAME", "b"}};
  CHECK(Show(job).lines.at(0) ==
        R"({"cluster": {"chief": ["b:14000"], "ps": ["a:14001", "b:14002"], )"
        R"("worker": ["a:14003", "b:14004"]}})");
}

TEST_CASE("an allocation without parameter servers has workers alone") {
  const Shown shown = Show({{"SLURM_JOB_ID", "1000"},
                            {"SLURM_JOB_NODELIST", "a,b"},
                            {"SLURM_TASKS_PER_NODE", "1(x2)"},
                            {"PARACORD_PS", "0"}});
  CHECK(shown.text() == R"({"cluster": {"chief": ["a:14000"], "worker": ["a:14001", "b:14002"]}})"
                        "\nworker:0 a\nworker:1 b");
}

TEST_CASE("lists of hosts mean what scontrol show hostnames makes of them") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"n1", "n1"},
      {"n[1-3,7]", "n1 n2 n3 n7"},
      {"n[01-03,10]", "n01 n02 n03 n10"},
      {"n[098-101]", "n098 n099 n100 n101"},
      {"n[5,3,4]", "n5 n3 n4"},
      {"a,b,c", "a b c"},
      {"a,n[1-2],b", "a n1 n2 b"},
      {"r[0-1]n[2-3]", "r0n2 r0n3 r1n2 r1n3"},
      {"r[1-2]n[08-10],login", "r1n08 r1n09 r1n10 r2n08 r2n09 r2n10 login"},
      {"gpu-a100-[1-4,9-10]", "gpu-a100-1 gpu-a100-2 gpu-a100-3 gpu-a100-4 gpu-a100-9 gpu-a100-10"},
  };
  std::vector<std::string> checked;
  for (const auto& [list, hosts] : cases) {
    CAPTURE(list);
    const size_t nodes = std::vector<std::string>(absl::StrSplit(hosts, ' ')).size();
    const Shown shown = Show(
        {{"SLURM_JOB_NODELIST", list}, {"SLURM_TASKS_PER_NODE", absl::StrCat("2(x", nodes, ")")}});
    CHECK(shown.code == 0);
    CHECK(shown.hosts() == hosts + " " + hosts);
    checked.push_back(list);
  }
  // deploy/slurm/check compares these lists with scontrol's output.
  CHECK(absl::StrJoin(checked, "\n") + "\n" ==
        ReadText(PARACORD_SOURCE_DIR "/deploy/slurm/hostlists"));
}

TEST_CASE("an allocation that makes no cluster is refused with a message") {
  const std::vector<std::pair<Variables, std::string>> cases = {
      {{}, "no Slurm allocation"},
      {{{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", "1"}, {"PARACORD_PS", "-1"}},
       "PARACORD_PS must be a number of parameter servers from 0, is -1 (of 1 tasks)"},
      {{{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", "1"}, {"PARACORD_PS", "1"}},
       "1 tasks are too few for 1 parameter servers and a worker"},
      {{{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", "2"}, {"PARACORD_PS", "2"}},
       "2 tasks are too few for 2 parameter servers and a worker"},
      {{{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2"}},
       "SLURM_JOB_NODELIST has 2 nodes and SLURM_TASKS_PER_NODE 1"},
      {{{"SLURM_JOB_NODELIST", "n[1-2"}, {"SLURM_TASKS_PER_NODE", "2"}},
       "this is no list of hosts"},
      {{{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", "2(y3)"}},
       "these are no counts of tasks: 2(y3)"},
  };
  for (const auto& [variables, problem] : cases) {
    const Shown shown = Show(variables);
    INFO(shown.text());
    CHECK(shown.code == 2);
    CHECK(shown.text().find("paracord.sbatch: " + problem) == 0);
  }
}

// An allocation of two nodes, both on this host, with a fake srun.
class Allocation {
 public:
  explicit Allocation(uint64_t steps) {
    WriteCountingJob(root(), {{"steps", steps}, {"checkpoint", {{"every_seconds", 0.3}}}});
    WriteText(root() + "/srun",
              "#!/bin/bash\n"
              "while [[ $1 == --* ]]; do [[ $1 == --ntasks=* ]] && tasks=${1#*=}; shift; done\n"
              "[[ $(wc -l <\"$SLURM_HOSTFILE\") == \"$tasks\" ]] || exit 77\n"
              "trap 'kill -TERM $(jobs -p)' TERM\n"
              "for ((i = 0; i < tasks; ++i)); do SLURM_PROCID=$i \"$@\" & done\n"
              "code=0\n"
              "while [[ -n $(jobs -p) ]]; do wait -n; r=$?; ((r > code && r != 127)) && code=$r; "
              "jobs >/dev/null; ((code == 0)) || kill -TERM $(jobs -p); done 2>/dev/null\n"
              "exit $code\n");
    WriteText(root() + "/scontrol", "#!/bin/sh\necho scontrol \"$@\"\n");
    for (const std::string name : {"/srun", "/scontrol"}) chmod((root() + name).c_str(), 0755);
  }
  const std::string& root() const { return temp_.path(); }
  std::string dir() const { return root() + "/dir"; }
  std::string log() const { return ReadText(root() + "/out"); }

  std::unique_ptr<Process> Start(const Variables& more = {}) {
    Variables variables = {{"PATH", root() + ":/usr/bin:/bin"},
                           {"PARACORD_BIN", PARACORD_BIN_DIR},
                           {"PARACORD_PORT", absl::StrCat(FirstPort())},
                           {"PARACORD_FAILPOINTS", "worker.computed=stall:4"},
                           {"SLURM_JOB_ID", "12"},
                           {"SLURM_JOB_NODELIST", "127.0.0.[2-3]"},
                           {"SLURM_TASKS_PER_NODE", "2(x2)"}};
    for (const auto& [name, value] : more) variables[name] = value;
    return std::make_unique<Process>(std::vector<std::string>{kScript, root() + "/job.json", dir(),
                                                              "--set", "evaluate.every_epochs=0"},
                                     variables, root() + "/out");
  }

 private:
  TestDirectory temp_;
};

TEST_CASE("a job of Slurm ends with the coordinator's code and every batch applied once") {
  Allocation slurm(200);
  const auto job = slurm.Start();
  const auto code = job->Wait(60000);
  INFO(slurm.log());
  CHECK(code == 0);
  CHECK(slurm.log().find("life 1 of job 12: 2 ps and 2 workers on 127.0.0.[2-3]") !=
        std::string::npos);
  CheckCounted(slurm.dir(), 200);
}

TEST_CASE("the folder of a Slurm job's certificates may have a blank in its name") {
  Allocation slurm(1);
  for (const std::string program : {"/paracord-coordinator", "/paracord-ps", "/paracord-worker"}) {
    WriteText(slurm.root() + program, "#!/bin/sh\nprintf '<%s>' \"$@\"\n");
    chmod((slurm.root() + program).c_str(), 0755);
  }
  const auto job = slurm.Start({{"PARACORD_BIN", slurm.root()}, {"PARACORD_CERTS", "/my certs"}});
  CHECK(job->Wait(60000) == 0);
  const std::string log = slurm.log();
  INFO(log);
  for (const std::string name : {"coordinator", "ps-0", "ps-1", "worker-0", "worker-1"}) {
    CHECK(log.find("<--tls-cert=/my certs/" + name + ".crt>") != std::string::npos);
  }
  CHECK(log.find("<--tls-ca=/my certs/ca.crt>") != std::string::npos);
}

TEST_CASE("a job of Slurm whose time is nearly over is requeued and goes on from its checkpoint") {
  Allocation slurm(400);
  const auto first = slurm.Start();
  REQUIRE(WaitUntil(30000, [&] { return !NewestCheckpoint(slurm.dir()).empty(); }));
  first->Signal(SIGUSR1);
  const auto code = first->Wait(60000);
  INFO(slurm.log());
  REQUIRE(code == 143);
  CHECK(slurm.log().find("scontrol requeue 12") != std::string::npos);
  const auto second = slurm.Start({{"SLURM_RESTART_COUNT", "1"}});
  CHECK(second->Wait(60000) == 0);
  CHECK(slurm.log().find("life 2 of job 12") != std::string::npos);
  CHECK(slurm.log().find("going on from checkpoint") != std::string::npos);
  CheckCounted(slurm.dir(), 400);
}

TEST_CASE("a job of Slurm whose task cannot run ends with that task's code") {
  Allocation slurm(100000);
  const auto job = slurm.Start({{"PARACORD_WORKER", "--device cuda:banana"}});
  const auto code = job->Wait(60000);
  INFO(slurm.log());
  CHECK(code == 2);
}

}  // namespace
}  // namespace paracord::e2e
