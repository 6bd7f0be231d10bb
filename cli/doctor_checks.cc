#include "cli/doctor_checks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/descriptors.h"
#include "common/failpoint.h"
#include "common/human_bytes.h"
#include "common/kernel_file.h"
#include "common/one_line.h"
#include "common/spawn.h"
#include "common/status_text.h"
#include "daemon/daemon_process.h"
#include "net/health.h"
#include "net/name_lookup.h"
#include "net/rpc_proto.h"
#include "net/socket_address.h"
#include "proto/health.pb.h"
#include "security/tls_context.h"
#include "tensor/device.h"

namespace paracord {
namespace {

using Level = Finding::Level;

// Returns the first line that a program prints when it is started with --version; "" if it cannot
// be started or is silent for 10 s.
std::string SaidOfVersion(const std::string& path) {
  constexpr int kPatienceMs = 10000;
  constexpr size_t kBytesMax = 200;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  SpawnOptions options;
  options.command = {path, "--version"};
  options.output = ends[1];
  const absl::StatusOr<pid_t> child = Spawn(options);
  close(ends[1]);
  std::string said;
  pollfd ready{ends[0], POLLIN, 0};
  while (child.ok() && said.size() < kBytesMax && said.find('\n') == std::string::npos &&
         poll(&ready, 1, kPatienceMs) > 0) {
    std::array<char, kBytesMax> bytes;
    const ssize_t got = read(ends[0], bytes.data(), bytes.size());
    if (got <= 0) break;
    said.append(bytes.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  if (child.ok()) {
    kill(*child, SIGKILL);
    while (waitpid(*child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return OneLine(said.substr(0, said.find('\n')), kBytesMax);
}

// The number after `key` in a file of the kernel; 0 if it is not there.
uint64_t KernelNumber(const std::string& path, const std::string& key) {
  std::istringstream file(ReadKernelFile(path));
  std::string word;
  uint64_t value = 0;
  while (file >> word) {
    if (word == key && file >> value) return value;
  }
  return 0;
}

// Returns the memory that the cgroup leaves; 0 without a limit or if unknown.
uint64_t CgroupMemory() {
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::istringstream file(ReadKernelFile(path));
    uint64_t value = 0;
    if (file >> value && value < uint64_t{1} << 60) return value;
  }
  return 0;
}

uint64_t FreeBytes(const std::string& path) {
  struct statvfs room {};
  if (::statvfs(path.c_str(), &room) != 0) return 0;
  return static_cast<uint64_t>(room.f_bavail) * room.f_frsize;
}

Finding CheckMemory() {
  const uint64_t available = KernelNumber("/proc/meminfo", "MemAvailable:") << 10;
  const uint64_t cgroup = CgroupMemory();
  const uint64_t bytes = cgroup == 0 ? available : std::min(available, cgroup);
  Finding found{Level::kFine, "memory",
                absl::StrCat(HumanBytes(bytes), " for processes here",
                             cgroup == 0 ? "" : ", as the control group says"),
                ""};
  if (bytes >= uint64_t{1} << 30) return found;
  found.level = Level::kDoubtful;
  found.remedy =
      "a ps needs its partitions with their slots and what is on its way beside: give "
      "the container or the machine more, or lower --in-flight-mb and --pinned-mb";
  return found;
}

Finding CheckMemoryFiles() {
  Finding found{Level::kFine, "shared memory",
                absl::StrCat(HumanBytes(FreeBytes("/dev/shm")), " free in /dev/shm"), ""};
  if (FreeBytes("/dev/shm") >= uint64_t{64} << 20) return found;
  found.level = Level::kDoubtful;
  found.remedy =
      "workers and ps of one host then use the network; a container gets more by "
      "--shm-size, a pod by an emptyDir with medium: Memory at /dev/shm";
  return found;
}

absl::Status TryDirectory(Files& files, const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/doctor.", ::getpid());
  absl::Status tried = files.MakeDirectories(dir);
  if (tried.ok()) tried = files.WriteAtomic(path, "written by paracord doctor\n");
  absl::Status removed = files.RemoveTree(path);
  return tried.ok() ? removed : tried;
}

// How far the clock of the storage is ahead of ours, in seconds.
double ClockAhead(Files& files, const std::string& dir, int64_t unix_ms) {
  const std::string path = absl::StrCat(dir, "/doctor.", ::getpid(), ".clock");
  struct stat there {};
  const bool written = files.WriteAtomic(path, "").ok() && ::stat(path.c_str(), &there) == 0;
  (void)files.RemoveTree(path);
  if (!written) return 0;
  return static_cast<double>(there.st_mtim.tv_sec) - static_cast<double>(unix_ms) / 1000;
}

// Returns the object at the key; an empty one where there is none, or null.
nlohmann::json ObjectAt(const nlohmann::json& of, const char* key) {
  const auto it = of.find(key);
  return it != of.end() && it->is_object() ? *it : nlohmann::json::object();
}

Finding CheckCopiesOf(const nlohmann::json& copies) {
  const auto partitions = copies.value("partitions", uint64_t{0});
  const auto with_both = copies.value("with_both", uint64_t{0});
  if (with_both >= partitions) {
    return {Level::kFine, "copies", absl::StrCat("all ", partitions, " partitions are on two ps"),
            ""};
  }
  Finding found{
      Level::kDoubtful, "copies",
      absl::StrCat(partitions - with_both, " of ", partitions, " partitions, ",
                   HumanBytes(copies.value("bytes_with_one", uint64_t{0})), ", are on one ps only"),
      "they get a second one by the next checkpoint, some seconds after a ps that is "
      "away is back: start that ps again"};
  const nlohmann::json by_ps = copies.value("by_ps", nlohmann::json::array());
  for (size_t i = 0; i < by_ps.size(); ++i) {
    const std::string problem = by_ps[i].value("problem", "");
    if (problem.empty()) continue;
    absl::StrAppend(&found.text, "; ps:", i, " has no room for copies: ", problem);
    found.remedy =
        "give the ps a larger --memory-limit, or take more ps: each holds its partitions and the "
        "copies of others";
  }
  return found;
}

std::optional<Finding> CheckMoveOf(const nlohmann::json& move) {
  constexpr double kLongSeconds = 30;
  const std::string phase = move.value("phase", ""), problem = move.value("problem", "");
  if (phase.empty() || phase == "done") return std::nullopt;
  const bool heals = move.value("copies", false);
  const std::string what =
      heals ? absl::StrCat("the copying of ", move.value("partitions", uint64_t{0}), " partitions")
            : absl::StrCat("the move to ", move.value("ps", uint64_t{0}), " ps");
  const std::string why = problem.empty() ? "" : absl::StrCat(": ", problem);
  if (phase == "given up") {
    return Finding{Level::kDoubtful, "move", absl::StrCat(what, " was given up", why),
                   heals ? "mend that: it is tried again by itself"
                         : "mend that, and ask again: paracord scale"};
  }
  const double seconds = move.value("seconds", 0.0);
  Finding found{Level::kFine, "move",
                absl::StrFormat("%s has been under way for %.0f s, and is at \"%s\"%s", what,
                                seconds, phase, why),
                ""};
  if (problem.empty() && seconds < kLongSeconds) return found;
  found.level = Level::kDoubtful;
  found.remedy =
      heals ? "training goes on; `paracord status` says who is missing"
            : "look whether the new ps run, with the job's --dir and their own index; `paracord "
              "scale` with the number of ps that the job has cancels a move";
  return found;
}

// Whether this host could listen at `address`, where nobody answers.
Finding CheckOwn(const std::string& key, const std::string& address) {
  absl::StatusOr<ListeningSockets> sockets = ListenAt(address);
  if (!sockets.ok()) {
    return {
        Level::kWrong, key, std::string(sockets.status().message()),
        "end the process that has it (ss -lptn), take another port, or give --listen an address "
        "of this host"};
  }
  for (const int fd : sockets->fds) ::close(fd);
  RemoveSocket(*sockets);
  return {Level::kFine, key, address + " is free", ""};
}

}  // namespace

std::vector<Finding> CheckLimits() {
  std::vector<Finding> found;
  rlimit files{}, locked{};
  getrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_MEMLOCK, &locked);
  const bool enough = files.rlim_max >= 4096;
  found.push_back({files.rlim_max < kOwnDescriptors + 8 ? Level::kWrong
                   : enough                             ? Level::kFine
                                                        : Level::kDoubtful,
                   "descriptors", absl::StrCat(files.rlim_max, " at most (ulimit -Hn)"),
                   enough ? ""
                          : "raise it: LimitNOFILE= of systemd, --ulimit nofile= of a "
                            "container; each peer takes a few"});
  found.push_back(CheckMemory());
  found.push_back(CheckMemoryFiles());
  const bool unlimited = locked.rlim_cur == RLIM_INFINITY;
  found.push_back({Level::kFine, "locked memory",
                   unlimited ? "as much as wanted" : HumanBytes(locked.rlim_cur) + " at most", ""});
  return found;
}

std::vector<Finding> CheckJobDir(Files& files, const std::string& dir, int64_t unix_ms) {
  const std::string topic = "directory";
  if (const absl::Status tried = TryDirectory(files, dir); !tried.ok()) {
    return {{Level::kWrong, topic, absl::StrCat(dir, ": ", std::string(tried.message())),
             absl::StrCat("user ", ::getuid(),
                          " has to be able to make, rename, sync and remove files there")}};
  }
  std::vector<Finding> found = {
      {Level::kFine, topic, dir + " can be written, renamed, synced and removed in", ""}};
  if (dir.find("://") != std::string::npos) return found;
  const uint64_t bytes = FreeBytes(dir);
  const bool roomy = bytes >= uint64_t{1} << 30;
  found.push_back({roomy ? Level::kFine : Level::kDoubtful, "room",
                   absl::StrCat(HumanBytes(bytes), " free in ", dir),
                   roomy ? ""
                         : "some checkpoints at once have to fit (checkpoint.keep and one "
                           "more): make room, or keep fewer"});
  const double ahead = ClockAhead(files, dir, unix_ms);
  const bool close = std::abs(ahead) < 5;
  found.push_back({close ? Level::kFine : Level::kDoubtful, "clock",
                   close ? "this host's clock and the storage's agree"
                         : absl::StrFormat("the storage's clock is %.0f s %s this host's",
                                           std::abs(ahead), ahead > 0 ? "ahead of" : "behind"),
                   close ? ""
                         : "synchronise both (chrony): training does not mind, but the times "
                           "of logs and checkpoints mislead"});
  return found;
}

Finding CheckPeer(Network& network, const std::string& key, const std::string& address, bool ours) {
  if (const absl::Status form = CheckAddress(address, key); !form.ok()) {
    return {Level::kWrong, key, std::string(form.message()), "write host:port or unix:/path"};
  }
  if (HasName(address)) {
    NameLookup name(address);
    if (const auto resolved = name.Find(5000); !resolved.ok()) {
      return {Level::kWrong, key, std::string(resolved.status().message()),
              "mend the name, the name server or /etc/hosts of this host"};
    }
  }
  constexpr int64_t kDeadlineMs = 3000;
  const auto reply =
      AwaitProto<HealthReply>(*network.Dial(address), kHealthMethod, HealthRequest(), kDeadlineMs);
  if (reply.ok()) {
    return {Level::kFine, key,
            absl::StrCat(address, " is ", reply->task(), ", which ", reply->state()), ""};
  }
  if (absl::IsUnimplemented(reply.status())) {
    return {Level::kWrong, key, address + " answers, but not like a daemon of this version",
            "run the same version everywhere, and let no other service have that port"};
  }
  if (ours) return CheckOwn(key, address);
  return {Level::kDoubtful, key, absl::StrCat(address, " does not answer: ", Text(reply.status())),
          "fine where that daemon does not run yet; else start it, or open the port in the "
          "firewall between the hosts"};
}

std::vector<Finding> CheckCopiesAndMove(const nlohmann::json& status) {
  std::vector<Finding> found;
  if (status.value("phase", "") == "ended") return found;
  const nlohmann::json copies = ObjectAt(status, "copies");
  if (!copies.empty()) found.push_back(CheckCopiesOf(copies));
  if (std::optional<Finding> move = CheckMoveOf(ObjectAt(status, "move")); move.has_value()) {
    found.push_back(*std::move(move));
  }
  return found;
}

Finding CheckCertificate(const std::string& path, int64_t expires_unix_s, int64_t unix_ms) {
  constexpr int64_t kDaySeconds = 24 * 3600;
  constexpr int64_t kSoonDays = 14;  // like the alert ParacordCertificateExpires
  const int64_t left_s = expires_unix_s - unix_ms / 1000;
  Finding found{Level::kFine, "certificate",
                absl::StrCat(path, " expires in ", left_s / kDaySeconds, " days"), ""};
  if (left_s >= kSoonDays * kDaySeconds) return found;
  found.level = left_s > 0 ? Level::kDoubtful : Level::kWrong;
  if (left_s <= 0) {
    found.text = absl::StrCat(path, " expired ", Distance(expires_unix_s, unix_ms / 1000), " ago");
  }
  found.remedy =
      "replace it (deploy/certs makes another one): daemons read the file again by themselves";
  return found;
}

Finding CheckFailpoints() {
  const std::string armed = ArmedFailpoints();
  if (armed.empty()) return {Level::kFine, "failpoints", "none is armed", ""};
  return {Level::kWrong, "failpoints",
          absl::StrCat(kFailpointsVariable, "=", armed,
                       " makes daemons that start from here fail on purpose"),
          absl::StrCat("unset ", kFailpointsVariable, ", which is for tests")};
}

Finding CheckDevice(const std::string& device) {
  std::string note;
  const absl::StatusOr<std::string> chosen = ChooseDevice(device, DeviceFor::kTraining, &note);
  if (!chosen.ok()) {
    return {Level::kWrong, "device", std::string(chosen.status().message()),
            "--device auto computes on the CPU where there is no GPU"};
  }
  return {Level::kFine, "device", note.empty() ? *chosen : absl::StrCat(*chosen, ": ", note), ""};
}

std::vector<Finding> CheckPrograms(const std::string& folder) {
  std::vector<Finding> found;
  const auto wrong = [&](const std::string& text) {
    found.push_back({Level::kWrong, "programs", text,
                     "install all four programs of one version into one folder"});
  };
  for (const char* name : {"paracord-ps", "paracord-worker", "paracord-coordinator"}) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (::access(path.c_str(), X_OK) != 0) {
      wrong(path + " is missing or may not be run");
      continue;
    }
    const std::string said = SaidOfVersion(path);
    if (said == VersionText(name)) continue;
    wrong(absl::StrCat(path, " --version prints ",
                       said.empty() ? "nothing" : absl::StrCat("\"", said, "\""), ", and not \"",
                       VersionText(name), "\""));
  }
  if (found.empty()) {
    found.push_back({Level::kFine, "programs",
                     absl::StrCat("version " PARACORD_VERSION ", all four in ", folder), ""});
  }
  return found;
}

}  // namespace paracord
