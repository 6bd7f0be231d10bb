#include "e2e/kills.h"

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace paracord::e2e {
namespace {

uint32_t Seed() {
  const char* const given = std::getenv("PARACORD_E2E_SEED");
  return given != nullptr ? static_cast<uint32_t>(std::atol(given)) : std::random_device()();
}

// Returns a child of `parent` that is not a guard (program/group_guard.h), or 0 if none exists.
pid_t ChildOf(pid_t parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "stat");
    std::string pid, rest;
    if (!(file >> pid) || !std::getline(file, rest)) continue;
    const size_t name_end = rest.rfind(") ");  // the rest is "(name) S ppid ..."
    if (name_end == std::string::npos || rest.size() < name_end + 5) continue;
    if (absl::StrContains(rest, "(sh) ")) continue;
    if (std::atoi(rest.c_str() + name_end + 4) == parent) return std::atoi(pid.c_str());
  }
  return 0;
}

}  // namespace

std::set<pid_t> KillAtRandom(Cluster& cluster, const Kills& kills) {
  const uint32_t seed = Seed();
  std::cout << "PARACORD_E2E_SEED=" << seed << "\n";
  std::mt19937 random(seed);
  std::set<pid_t> children;
  std::vector<std::string> left;  // tasks of this round still to be killed
  int killed = 0, killed_children = 0;
  uint64_t batches_done = 0;
  while (killed < kills.count && cluster.at(cluster.leader()).Poll() != 0) {
    const int64_t until =
        NowMs() + std::uniform_int_distribution<int64_t>(10, kills.most_ms)(random);
    const uint64_t due = kills.batches * 4 / 5 * static_cast<uint64_t>(killed + 1) /
                         static_cast<uint64_t>(kills.count);
    WaitUntil(10000, [&] {
      if (!cluster.Supervise().empty()) return false;
      batches_done = std::max(batches_done, cluster.BatchesDone());
      return NowMs() >= until || batches_done >= due;
    });
    if (left.empty()) {
      left = kills.tasks;
      std::shuffle(left.begin(), left.end(), random);
    }
    const std::string chosen = left.back();
    left.pop_back();
    absl::string_view task = chosen;
    const bool child = absl::ConsumePrefix(&task, "child of ");
    Process& process = cluster.at(std::string(task));
    if (!process.running()) continue;
    pid_t its = absl::StartsWith(task, "worker") ? ChildOf(process.pid()) : 0;
    if (child) WaitUntil(5000, [&] { return its != 0 || (its = ChildOf(process.pid())) != 0; });
    if (its != 0) children.insert(its);
    if (child && its == 0) continue;
    kill(child ? its : process.pid(), SIGKILL);
    killed_children += child ? 1 : 0;
    ++killed;
  }
  std::cout << killed << " kills, " << killed_children << " of children, by batch " << batches_done
            << "\n";
  CHECK(killed == kills.count);
  return children;
}

}  // namespace paracord::e2e
