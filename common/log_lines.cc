#include "common/log_lines.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <functional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/json_text.h"

namespace paracord {

std::string EventOf(std::string_view text) {
  constexpr int kWordsMax = 5;
  std::string event;
  int words = 0;
  while (words < kWordsMax && !text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size() + (word.size() < text.size() ? 1 : 0));
    const bool last = word.ends_with(':') || word.ends_with(';') || word.ends_with('.');
    while (!word.empty() && std::ispunct(static_cast<unsigned char>(word.back())) != 0) {
      word.remove_suffix(1);
    }
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-'"
                                            "_.") == std::string_view::npos;
    if (!plain && words == 0) continue;
    if (!plain) break;
    if (words++ > 0) event += '_';
    for (const char c : word) {
      const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
      event += letter ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '_';
    }
    if (last && words > 1) break;
  }
  return event.empty() ? kNoEvent : event;
}

std::string JsonLine(int64_t unix_ms, std::string_view level, std::string_view task,
                     std::string_view event, std::string_view fields, std::string_view text) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  const std::string ts =
      absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                      utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, unix_ms % 1000);
  nlohmann::ordered_json line = {{"ts", ts},
                                 {"level", std::string(level)},
                                 {"task", std::string(task)},
                                 {"event", std::string(event)}};
  while (!fields.empty()) {
    const std::string_view field = fields.substr(0, fields.find('\x1e'));
    const size_t name = field.find('\x1f');
    fields.remove_prefix(std::min(fields.size(), field.size() + 1));
    if (name < field.size()) {
      line[std::string(field.substr(0, name))] = std::string(field.substr(name + 1));
    }
  }
  line["msg"] = std::string(text);
  return TextOf(line);
}

EventLimit::Verdict EventLimit::Take(const std::string& event, int64_t unix_ms) {
  Place& place = places_[std::hash<std::string>()(event) % places_.size()];
  Verdict verdict;
  if (const int64_t second = unix_ms / 1000; place.second != second) {
    verdict.left_out = std::exchange(place.left_out, 0);
    place.second = second;
    place.lines = 0;
  }
  verdict.pass = ++place.lines <= kPerSecond;
  if (!verdict.pass) ++place.left_out;
  return verdict;
}

}  // namespace paracord
