// Reads the kernel's facts on this process from /proc/self and getrusage. Names are those of
// Prometheus' client libraries.
#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "common/kernel_file.h"
#include "monitor/metric_set.h"

namespace paracord {
namespace {

double OpenDescriptors() {
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  double count = -3;  // ".", ".." and the opened directory itself
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

double ResidentBytes() {
  std::istringstream file(ReadKernelFile("/proc/self/statm"));
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Returns the start time of this process in seconds since 1970, or 0 if unknown.
double StartSeconds() {
  const std::string line = ReadKernelFile("/proc/self/stat");
  const size_t name_end = line.rfind(')');  // the name may have spaces
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {
  }
  const double ticks = std::strtod(field.c_str(), nullptr);
  std::istringstream kernel(ReadKernelFile("/proc/stat"));
  std::string key;
  double value = 0;
  while (kernel >> key) {
    if (key == "btime" && kernel >> value) break;
  }
  return value == 0 ? 0 : value + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

void AddProcessMetrics(const std::string& version, bool insecure, MetricSet& metrics) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  static const double start = StartSeconds();
  metrics.Counter("process_cpu_seconds_total", "Processor time, of the user and the kernel.",
                  Seconds(used.ru_utime) + Seconds(used.ru_stime));
  metrics.Gauge("process_resident_memory_bytes", "Memory that is resident.", ResidentBytes());
  metrics.Gauge("process_open_fds", "Descriptors that are open.", OpenDescriptors());
  metrics.Gauge("process_max_fds", "Descriptors that may be open.",
                static_cast<double>(descriptors.rlim_cur));
  metrics.Gauge("process_start_time_seconds", "When the process began, since 1970.", start);
  metrics.Gauge("paracord_build_info", "1, with the version in a label.", 1,
                {{"version", version}});
  metrics.Gauge("paracord_insecure_mode",
                "1 while addresses beyond this machine are served without TLS.", insecure ? 1 : 0);
}

}  // namespace paracord
