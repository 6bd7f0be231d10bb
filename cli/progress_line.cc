#include "cli/progress_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace paracord {
namespace {

constexpr size_t kBarLeast = 8, kBarMost = 40;
constexpr size_t kBarFrame = 4;      // its brackets and the two spaces behind it
constexpr size_t kLossColumns = 28;  // the narrowest terminal that shows the loss
constexpr size_t kNoteLeast = 8;     // a shorter note is not shown

// JSON has no NaN: null stands for a number that nobody has computed.
double NumberOf(const nlohmann::json& status, const char* key) {
  const auto found = status.find(key);
  return found != status.end() && found->is_number() ? found->get<double>()
                                                     : std::numeric_limits<double>::quiet_NaN();
}

std::string PhaseText(const nlohmann::json& status) {
  const std::string phase = status.at("phase").get<std::string>();
  if (phase == "forming" || phase == "loading") return phase;
  return absl::StrCat(phase == "training" ? "" : phase + " ", "epoch ",
                      status.at("epoch").get<uint64_t>(), "/", status.at("epochs").get<uint64_t>());
}

// Returns the metrics of training besides the loss: "accuracy 0.9012  auc 0.9500"; "" if none.
std::string MetricsText(const nlohmann::json& status) {
  const auto found = status.find("train");
  if (found == status.end() || !found->is_object()) return "";
  std::string text;
  for (const auto& [name, value] : found->items()) {
    if (name == "loss" || !value.is_number()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "  ", name,
                    absl::StrFormat(" %.4f", value.get<double>()));
  }
  return text;
}

std::string Bar(double share, size_t width) {
  const auto full = static_cast<size_t>(share * static_cast<double>(width));
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]  ";
}

// Returns the first `columns` columns of the text, which end with "..." where the text is longer.
std::string Cut(const std::string& text, size_t columns) {
  if (ColumnsOf(text) <= columns) return text;
  size_t end = 0, shown = 0;
  for (; end < text.size(); ++end) {
    if ((text[end] & 0xC0) != 0x80 && ++shown > columns - 3) break;
  }
  return text.substr(0, end) + "...";
}

}  // namespace

size_t ColumnsOf(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string WrapWords(const std::string& text, size_t columns) {
  constexpr char kIndent[] = "  ";
  std::string wrapped;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) {
    if (&line != &lines.front()) wrapped += '\n';
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    size_t taken = ColumnsOf(words.front());
    wrapped += words.front();
    for (const std::string& word : std::span(words).subspan(1)) {
      const size_t length = ColumnsOf(word);
      if (taken == 0 || taken + 1 + length < columns) {
        absl::StrAppend(&wrapped, " ", word);
        taken += 1 + length;
      } else if (!word.empty()) {
        absl::StrAppend(&wrapped, "\n", kIndent, word);
        taken = ColumnsOf(kIndent) + length;
      }
    }
  }
  return wrapped;
}

std::string Grouped(double number) {
  std::string digits = absl::StrFormat("%.0f", number);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string TimeText(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 90) return absl::StrCat(whole, " s");
  const int64_t minutes = (whole + 30) / 60;
  if (minutes < 90) return absl::StrCat(minutes, " min");
  if (minutes < 48 * 60) return absl::StrCat(minutes / 60, " h ", minutes % 60, " min");
  return absl::StrCat(minutes / 1440, " d ", minutes % 1440 / 60, " h");
}

std::string ProgressLine(const nlohmann::json& status, const std::string& note, bool rate,
                         size_t columns) {
  const double batches = NumberOf(status, "batches"), done = NumberOf(status, "batches_done");
  const double share = batches > 0 && done >= 0 ? std::min(done / batches, 1.0) : 0;
  const double loss = NumberOf(status, "loss"), pace = NumberOf(status, "samples_per_second");
  const double left = NumberOf(status, "seconds_left");
  const size_t workers = status.at("workers").size();

  // In the order of the line; the field with the highest rank is dropped first.
  struct Field {
    int rank;
    std::string text;
  };
  std::array<Field, 8> fields = {
      {{0, PhaseText(status)},
       {6, absl::StrFormat("%3.0f %%", std::floor(share * 100))},
       {1, std::isfinite(loss) ? absl::StrFormat("loss now %.4f", loss) : ""},
       {3, MetricsText(status)},
       {5, rate && pace >= 0.5 ? Grouped(pace) + " samples/s" : ""},
       {4, rate && left >= 0 ? TimeText(left) + " left" : ""},
       {8, absl::StrCat(workers, workers == 1 ? " worker" : " workers")},
       {2, note}}};
  const auto length = [&](int rank_most) {
    size_t sum = 0;
    for (const Field& field : fields) {
      if (field.rank <= rank_most && !field.text.empty()) sum += ColumnsOf(field.text) + 2;
    }
    return sum - 2;
  };
  // The bar has rank 7, before the workers.
  const auto wanted = [&](int rank) {
    return length(rank) + (rank >= 7 ? kBarFrame + kBarLeast : 0);
  };
  int rank_most = 8;
  std::string bar;
  if (columns > 0) {
    const size_t room = columns - 1;
    while (rank_most > 2 && wanted(rank_most) > room) --rank_most;
    if (columns < kLossColumns) rank_most = 0;
    if (rank_most == 2 && length(2) > room) {
      const size_t before = length(1) + 2;
      if (before + kNoteLeast > room) {
        rank_most = 1;
      } else {
        fields[7].text = Cut(note, room - before);
      }
    }
    const size_t taken = length(rank_most);
    if (taken + kBarFrame + kBarLeast <= room) {
      bar = Bar(share, std::min(room - taken - kBarFrame, kBarMost));
    }
  }
  std::string line;
  for (const Field& field : fields) {
    if (field.rank > rank_most || field.text.empty()) continue;
    absl::StrAppend(&line, line.empty() ? "" : "  ", field.text);
  }
  return bar + line;
}

}  // namespace paracord
