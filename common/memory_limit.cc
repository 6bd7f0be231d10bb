#include "common/memory_limit.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/kernel_file.h"

namespace paracord {
namespace {

std::optional<uint64_t> ReadNumber(const std::string& path) {
  uint64_t number = 0;
  if (absl::SimpleAtoi(ReadKernelFile(path), &number)) return number;
  return std::nullopt;  // also for the text "max"
}

// Returns the number behind `key` at the start of a line.
std::optional<uint64_t> NumberOf(const std::string& text, std::string_view key) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" :\t"), absl::SkipEmpty());
    uint64_t number = 0;
    if (words.size() < 2 || words[0] != absl::string_view(key.data(), key.size())) continue;
    if (absl::SimpleAtoi(words[1], &number)) return number;
  }
  return std::nullopt;
}

// The least limit of a control group and its ancestors; nullopt without a limit. `file` is the
// limit's file name in this version of control groups.
std::optional<MemoryThere> OfGroup(const std::string& mount, std::string group,
                                   const std::string& file) {
  std::optional<MemoryThere> least;
  while (true) {
    const std::string folder = absl::StrCat(mount, group == "/" ? "" : group, "/");
    const std::optional<uint64_t> limit = ReadNumber(folder + file);
    constexpr uint64_t kNone = uint64_t{1} << 60;  // version 1 has a huge number for no limit
    if (limit.has_value() && *limit < kNone && (!least.has_value() || *limit < least->bytes)) {
      least = {*limit, "cgroup " + group};
    }
    if (group == "/" || group.empty()) return least;
    group = group.substr(0, group.rfind('/'));
    if (group.empty()) group = "/";
  }
}

}  // namespace

MemoryThere FindMemory(const std::string& root) {
  MemoryThere found{UINT64_MAX, "machine"};
  const std::string machine = ReadKernelFile(root + "/proc/meminfo");
  if (const auto kib = NumberOf(machine, "MemTotal")) found.bytes = *kib << 10;
  const std::string groups = ReadKernelFile(root + "/proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    const bool one =
        std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
    if (!one && !parts[1].empty()) continue;
    const std::string mount = root + (one ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup");
    const auto limit = OfGroup(mount, parts[2], one ? "memory.limit_in_bytes" : "memory.max");
    if (limit.has_value() && limit->bytes < found.bytes) found = *limit;
  }
  return found;
}

absl::StatusOr<uint64_t> ParseBytes(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, int>, 5> kUnits = {
      {{"k", 10}, {"m", 20}, {"g", 30}, {"t", 40}, {"", 0}}};
  const std::string lower = absl::AsciiStrToLower(text);
  const size_t digits = std::min(lower.find_first_not_of("0123456789."), lower.size());
  std::string unit = lower.substr(digits);
  if (unit.ends_with("ib")) {
    unit.resize(unit.size() - 2);
  } else if (unit.ends_with("b")) {
    unit.resize(unit.size() - 1);
  }
  double number = 0;
  for (const auto& [name, shift] : kUnits) {
    if (unit != name || !absl::SimpleAtod(lower.substr(0, digits), &number)) continue;
    const double bytes = number * static_cast<double>(uint64_t{1} << shift);
    if (bytes >= 1 && bytes < 0x1p62) return static_cast<uint64_t>(bytes);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no number of bytes, such as 1073741824, 512MiB or 2GiB"));
}

}  // namespace paracord
