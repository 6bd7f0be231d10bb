// Replaces daemons by scripts that end, and checks which are restarted, how often, and which are
// given up.
#include "cli/local_cluster.h"

#include <signal.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/fakes.h"

namespace paracord {
namespace {

const std::string kStays = "exec sleep 60\n";

class Scripts {
 public:
  Scripts(const std::string& coordinator, const std::string& ps, const std::string& worker) {
    std::filesystem::create_directories(directory_ / "bin");
    Write("coordinator", coordinator);
    Write("ps", ps);
    Write("worker", worker);
  }
  LocalClusterOptions Options() const {
    LocalClusterOptions options;
    options.bin_dir = directory_ / "bin";
    options.job_file = "/no/job";
    options.dir = directory_ / "job";
    return options;
  }
  std::string job_dir() const { return directory_ / "job"; }
  std::string program(const std::string& role) const {
    return directory_ / ("bin/paracord-" + role);
  }

 private:
  void Write(const std::string& role, const std::string& body) {
    std::ofstream(program(role)) << "#!/bin/sh\n" << body;
    ::chmod(program(role).c_str(), 0755);
  }
  TestDirectory directory_;
};

// Returns after `count` deaths, or after a minute.
std::vector<LocalCluster::Death> Deaths(LocalCluster& cluster, size_t count) {
  std::vector<LocalCluster::Death> all;
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (all.size() < count && std::chrono::steady_clock::now() < until) {
    for (LocalCluster::Death& death : cluster.Reap()) all.push_back(std::move(death));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a child may still run
  }
  return all;
}

TEST_CASE("a ps that keeps dying is started again five times, then the cluster gives up") {
  const Scripts scripts(kStays, "exit 202\n", kStays);
  LocalCluster cluster(scripts.Options());
  REQUIRE(cluster.Start().ok());
  const auto deaths = Deaths(cluster, LocalCluster::kRestartsMax + 1);
  REQUIRE(deaths.size() == LocalCluster::kRestartsMax + 1);
  CHECK(deaths[0].task == "ps:0");
  CHECK(deaths[0].how == "exit code 202");
  CHECK(deaths[0].then == "and was restarted");
  CHECK(deaths[1].then == "and is restarted in 250 ms");
  CHECK(deaths[4].then == "and is restarted in 2000 ms");
  CHECK(deaths[5].then.empty());
  REQUIRE(cluster.given_up().has_value());
  CHECK(cluster.given_up()->task == "ps:0");
  CHECK_FALSE(cluster.coordinator_exit().has_value());
}

TEST_CASE("without ps the first worker is the coordinator, and all workers are needed") {
  // Only worker-0 gets the job, and exits with 5 if it sees --job among its arguments.
  const Scripts scripts("exit 77\n", "exit 77\n",
                        "case \"$*\" in *--job*) sleep 1; exit 5;; esac\nexec sleep 60\n");
  LocalClusterOptions options = scripts.Options();
  options.ps = 0;
  options.workers = 2;
  LocalCluster cluster(options);
  REQUIRE(cluster.Start().ok());
  CHECK(cluster.coordinator_address().ends_with("/worker-0"));
  CHECK(cluster.CoordinatorRuns());
  const auto deaths = Deaths(cluster, 1);
  REQUIRE(deaths.size() == 1);
  CHECK(deaths[0].task == "worker:0");
  CHECK(deaths[0].log == scripts.job_dir() + "/logs/worker-0.log");
  CHECK(cluster.coordinator_exit() == 5);

  const Scripts dying(kStays, kStays, "case \"$*\" in *worker:1*) exit 4;; esac\nexec sleep 60\n");
  options = dying.Options();
  options.ps = 0;
  options.workers = 2;
  LocalCluster lacking(options);
  REQUIRE(lacking.Start().ok());
  REQUIRE(Deaths(lacking, 1).size() == 1);
  REQUIRE(lacking.given_up().has_value());
  CHECK(lacking.given_up()->task == "worker:1");
}

TEST_CASE("without ps the exit code of a coordinator is that of the life that has ended the job") {
  const TestDirectory marks;
  const std::string mark = marks / "mark";
  const Scripts scripts(kStays, kStays,
                        "case \"$*\" in *--job*) ;; *) exec sleep 60;; esac\n"
                        "if mkdir " + mark + "; then kill -9 $$; fi\nexit 6\n");
  LocalClusterOptions options = scripts.Options();
  options.ps = 0;
  options.workers = 2;
  LocalCluster cluster(options);
  REQUIRE(cluster.Start().ok());
  auto deaths = Deaths(cluster, 2);
  REQUIRE(deaths.size() == 2);
  CHECK(deaths[0].how == "signal 9");
  CHECK(deaths[0].then == "and was restarted");
  CHECK_FALSE(cluster.given_up().has_value());
  CHECK(cluster.coordinator_exit() == 6);

  const Scripts dying(kStays, kStays, "case \"$*\" in *--job*) kill -9 $$;; esac\nexec sleep 60\n");
  options = dying.Options();
  options.ps = 0;
  LocalCluster lost(options);
  REQUIRE(lost.Start().ok());
  Deaths(lost, LocalCluster::kRestartsMax + 1);
  CHECK_FALSE(lost.coordinator_exit().has_value());  // no coordinator has ended the job
  REQUIRE(lost.given_up().has_value());
  CHECK(lost.given_up()->code == 128 + SIGKILL);
}

TEST_CASE("workers without ps are told their threads for pushes, and all their memory") {
  const Scripts scripts(kStays, kStays, "echo \"$@\"\nexec sleep 60\n");
  LocalClusterOptions options = scripts.Options();
  options.ps = 0;
  options.workers = 3;
  options.threads = 7;
  options.memory_limit = "300MiB";
  const auto said_by = [&](const LocalClusterOptions& wanted) {
    LocalCluster cluster(wanted);
    REQUIRE(cluster.Start().ok());
    std::string said;
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (said.find('\n') == std::string::npos && std::chrono::steady_clock::now() < until) {
      std::ifstream log(scripts.job_dir() + "/logs/worker-2.log");
      std::getline(log, said);
      if (!log.eof()) said += '\n';
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return said + " ";
  };
  const unsigned share = std::max(1u, std::thread::hardware_concurrency() / 3);
  const std::string alone = said_by(options);
  CAPTURE(alone);
  CHECK(alone.find(" --threads 7 ") != std::string::npos);
  CHECK(alone.find(" --ps-threads " + std::to_string(share)) != std::string::npos);
  CHECK(alone.find(" --memory-limit 300MiB ") != std::string::npos);
}

TEST_CASE("ends of daemons are seen by a process that was started with SIGCHLD ignored") {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const Scripts scripts("exit 0\n", kStays, kStays);
  LocalCluster cluster(scripts.Options());
  REQUIRE(cluster.Start().ok());
  CHECK(cluster.WaitForCoordinator(10000));
  CHECK(cluster.coordinator_exit() == 0);
  cluster.WaitAll(0);
  signal(SIGCHLD, before);
}

TEST_CASE("a ps whose lives bring the job further is started again without end") {
  const Scripts scripts(kStays, "exit 202\n", kStays);
  LocalClusterOptions options = scripts.Options();
  options.sound_ms = 0;
  LocalCluster cluster(options);
  REQUIRE(cluster.Start().ok());
  for (uint64_t applied = 1; applied <= LocalCluster::kRestartsMax + 3; ++applied) {
    cluster.BatchesApplied(applied);
    const auto deaths = Deaths(cluster, 1);
    REQUIRE(deaths.size() == 1);
    CHECK(deaths[0].then == "and was restarted");
  }
  CHECK_FALSE(cluster.given_up().has_value());
}

TEST_CASE("a ps that dies soon, or while it repeats batches, is given up after five restarts") {
  const bool soon = GENERATE(true, false);
  CAPTURE(soon);
  const Scripts scripts(kStays, "exit 202\n", kStays);
  LocalClusterOptions options = scripts.Options();
  options.sound_ms = soon ? 60000 : 0;
  LocalCluster cluster(options);
  REQUIRE(cluster.Start().ok());
  cluster.BatchesApplied(100);
  REQUIRE(Deaths(cluster, 1).size() == 1);  // a life in which the job reached batch 100
  for (uint64_t i = 1; i <= LocalCluster::kRestartsMax; ++i) {
    CHECK_FALSE(cluster.given_up().has_value());
    cluster.BatchesApplied(soon ? 100 + i : 10 * i);  // progress in each life after a restore
    REQUIRE(Deaths(cluster, 1).size() == 1);
  }
  REQUIRE(cluster.given_up().has_value());
  CHECK(cluster.given_up()->task == "ps:0");
}

TEST_CASE("a coordinator that ends with a code of its own is not started again") {
  const Scripts scripts("exit 6\n", kStays, kStays);
  LocalCluster cluster(scripts.Options());
  REQUIRE(cluster.Start().ok());
  const auto deaths = Deaths(cluster, 1);
  REQUIRE(deaths.size() == 1);
  CHECK(deaths[0].then.empty());
  CHECK(cluster.coordinator_exit() == 6);
}

TEST_CASE("a coordinator that keeps being killed is given up, and has ended no job") {
  const Scripts scripts("kill -9 $$\n", kStays, kStays);
  LocalCluster cluster(scripts.Options());
  REQUIRE(cluster.Start().ok());
  REQUIRE(Deaths(cluster, LocalCluster::kRestartsMax + 1).size() == LocalCluster::kRestartsMax + 1);
  REQUIRE(cluster.given_up().has_value());
  CHECK(cluster.given_up()->task == "coordinator:0");
  CHECK(cluster.given_up()->code == 137);
  CHECK_FALSE(cluster.coordinator_exit().has_value());
}

TEST_CASE("a daemon that is killed while memory is short is told from one that somebody killed") {
  const Scripts scripts(kStays, "kill -9 $$\n", kStays);
  LocalClusterOptions options = scripts.Options();
  options.vmstat = options.bin_dir + "/vmstat";
  std::ofstream(options.vmstat) << "nr_free_pages 70\noom_kill 4\npswpin 0\n";
  LocalCluster cluster(options);
  REQUIRE(cluster.Start().ok());
  std::vector<LocalCluster::Death> deaths = Deaths(cluster, 1);
  REQUIRE(deaths.size() == 1);
  CHECK(deaths[0].how == "signal 9");
  std::ofstream(options.vmstat) << "nr_free_pages 70\noom_kill 5\npswpin 0\n";
  deaths = Deaths(cluster, 1);
  REQUIRE(deaths.size() == 1);
  CHECK(deaths[0].how == "signal 9: the kernel was killing processes for memory");
}

TEST_CASE("the last worker that leaves with a code of its own is given up, but not with 0") {
  const int code = GENERATE(0, 2);
  const Scripts scripts(
      kStays, kStays,
      "echo why\ncase \"$*\" in *worker:1*) sleep 0.2;; esac\nexit " + std::to_string(code) + "\n");
  LocalClusterOptions options = scripts.Options();
  options.workers = 2;
  LocalCluster cluster(options);
  REQUIRE(cluster.Start().ok());
  REQUIRE(Deaths(cluster, 1).size() == 1);
  CHECK_FALSE(cluster.given_up().has_value());
  REQUIRE(Deaths(cluster, 1).size() == 1);
  REQUIRE(cluster.given_up().has_value() == (code != 0));
  if (code == 0) return;
  CHECK(cluster.given_up()->task == "worker:1");
  CHECK(cluster.given_up()->code == 2);
  PosixFiles files;
  CHECK(files.ReadWhole(cluster.given_up()->log).value_or("") == "why\n");
}

TEST_CASE(
    "a daemon that leaves because the job ends, or that ends it, is told from one that leaves "
    "alone") {
  struct Case {
    std::string coordinator, ps;
    size_t before;  // deaths of others before the worker's
    bool worker_ends_job;
  };
  for (const Case& c : {Case{kStays, "exit 2\n", 1, true}, Case{"exit 2\n", kStays, 1, true},
                        Case{kStays, kStays, 0, true}, Case{"exit 6\n", kStays, 1, false}}) {
    CAPTURE(c.coordinator, c.ps);
    const Scripts scripts(c.coordinator, c.ps, "sleep 0.2\nexit 2\n");
    LocalCluster cluster(scripts.Options());
    REQUIRE(cluster.Start().ok());
    for (const LocalCluster::Death& death : Deaths(cluster, c.before + 1)) {
      CAPTURE(death.task);
      CHECK(death.ends_job == (death.task == "worker:0" ? c.worker_ends_job : true));
    }
  }
  const Scripts scripts(kStays, kStays, "case \"$*\" in *worker:1*) sleep 60;; esac\nexit 2\n");
  LocalClusterOptions options = scripts.Options();
  options.workers = 2;
  LocalCluster cluster(options);
  REQUIRE(cluster.Start().ok());
  const auto deaths = Deaths(cluster, 1);
  REQUIRE(deaths.size() == 1);
  CHECK(deaths[0].task == "worker:0");
  CHECK_FALSE(deaths[0].ends_job);
}

TEST_CASE("a coordinator that ends the job while it is drained is known to have ended it") {
  const Scripts scripts("trap 'exit 2' TERM\necho ready\nwhile :; do sleep 0.01; done\n",
                        "exec sleep 60\n", "exit 2\n");
  LocalCluster cluster(scripts.Options());
  REQUIRE(cluster.Start().ok());
  REQUIRE(Deaths(cluster, 1).size() == 1);
  CHECK_FALSE(cluster.WaitForCoordinator(0));
  PosixFiles files;
  const auto ready = [&] {
    return files.ReadWhole(scripts.job_dir() + "/logs/coordinator.log").value_or("") != "";
  };
  // The process has not started yet.
  while (!ready()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  cluster.Drain(10000, SIGTERM, nullptr);
  CHECK(cluster.coordinator_exit() == 2);
}

TEST_CASE("a start that fails is said with its reason, and tried again") {
  const Scripts scripts(kStays, "mv $0 $0.away; exit 202\n", kStays);
  LocalCluster cluster(scripts.Options());
  REQUIRE(cluster.Start().ok());
  const auto deaths = Deaths(cluster, 2);
  REQUIRE(deaths.size() == 2);
  CHECK(deaths[1].how.find("there is no program") != std::string::npos);
  CHECK(deaths[1].then == "and is restarted in 250 ms");
  std::filesystem::rename(scripts.program("ps") + ".away", scripts.program("ps"));
  const auto later = Deaths(cluster, 1);
  REQUIRE(later.size() == 1);
  CHECK(later[0].how == "exit code 202");  // the restarted script ran
}

TEST_CASE("a logs directory that was removed is made again by a restart") {
  const Scripts scripts(kStays, "echo here\nexit 202\n", kStays);
  LocalCluster cluster(scripts.Options());
  REQUIRE(cluster.Start().ok());
  std::filesystem::remove_all(scripts.job_dir() + "/logs");
  REQUIRE(Deaths(cluster, 2).size() == 2);
  std::ifstream log(scripts.job_dir() + "/logs/ps-0.log");
  std::string line;
  CHECK(std::getline(log, line));
  CHECK(line == "here");
}

TEST_CASE("a cluster that is drained is killed as soon as nobody wants to wait any longer") {
  const Scripts scripts("trap '' TERM\nwhile :; do sleep 0.01; done\n", "exec sleep 60\n",
                        "trap '' TERM\nwhile :; do sleep 0.01; done\n");
  LocalCluster cluster(scripts.Options());
  REQUIRE(cluster.Start().ok());
  std::string waited_for;
  const auto begun = std::chrono::steady_clock::now();
  cluster.Drain(60000, SIGTERM, [&](const std::string& tasks, int64_t left_ms) {
    waited_for = tasks;
    return left_ms > 59000;
  });
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(20));
  CHECK(waited_for.find(":0") != std::string::npos);
  CHECK_FALSE(cluster.CoordinatorRuns());
}

}  // namespace
}  // namespace paracord
