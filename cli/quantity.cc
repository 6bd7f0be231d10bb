#include "cli/quantity.h"

#include <cctype>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

constexpr std::pair<std::string_view, double> kSuffixes[] = {
    {"", 1},
    {"n", 1e-9},
    {"u", 1e-6},
    {"m", 1e-3},
    {"k", 1e3},
    {"M", 1e6},
    {"G", 1e9},
    {"T", 1e12},
    {"P", 1e15},
    {"E", 1e18},
    {"Ki", 1024.0},
    {"Mi", 1048576.0},
    {"Gi", 1073741824.0},
    {"Ti", 1099511627776.0},
    {"Pi", 1125899906842624.0},
    {"Ei", 1152921504606846976.0},
};

// Returns the end of the digits from `at` on.
size_t EndOfDigits(const std::string& text, size_t at) {
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
  return at;
}

// Returns the end of an exponent such as "e9" or "E-3" at `at`; `at` itself if there is none, as in
// "1E", where E is the suffix of 10^18.
size_t EndOfExponent(const std::string& text, size_t at) {
  if (at >= text.size() || (text[at] != 'e' && text[at] != 'E')) return at;
  size_t digits = at + 1;
  if (digits < text.size() && (text[digits] == '-' || text[digits] == '+')) ++digits;
  const size_t end = EndOfDigits(text, digits);
  return end == digits ? at : end;
}

}  // namespace

absl::StatusOr<double> ParseQuantity(const std::string& text) {
  const size_t begin = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const size_t whole = EndOfDigits(text, begin);
  const size_t point = whole < text.size() && text[whole] == '.' ? 1 : 0;
  const size_t digits = EndOfDigits(text, whole + point);
  const size_t number = EndOfExponent(text, digits);
  const std::string suffix = text.substr(number);
  double amount = 0;
  if (digits - begin > point && absl::SimpleAtod(text.substr(begin, number - begin), &amount)) {
    for (const auto& [known, unit] : kSuffixes) {
      // A number has an exponent or a suffix, and not both.
      if (suffix != known || (number > digits && !suffix.empty())) continue;
      return (text[0] == '-' ? -amount : amount) * unit;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      text, " is no quantity of Kubernetes: a number, and behind it nothing or one of ",
      "m, k, M, G, T, Ki, Mi, Gi, Ti"));
}

}  // namespace paracord
