#include "config/json_fields.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns the problem of reading a value under the key "a".
template <class Read>
std::string Said(const json& value, const Read& read, JsonFields::Null null) {
  Problems problems;
  const json object = {{"a", value}};
  JsonFields fields(object, "of", problems, null);
  read(fields);
  fields.ReportUnknown();
  return std::string(problems.ToStatus().message());
}

std::string SaidOfNumber(const json& value, double low, double high,
                         JsonFields::Null null = JsonFields::Null::kValue) {
  return Said(
      value,
      [&](JsonFields& fields) {
        double number = 0;
        fields.Number("a", low, high, number);
      },
      null);
}

TEST_CASE("a number out of its limits is refused with the limits and the value") {
  CHECK(SaidOfNumber(1.5, 0, 1) == "of.a: must be a number from 0 to 1, is 1.5");
  CHECK(SaidOfNumber(1.0, 0, kBelowOne) == "of.a: must be a number from 0 and below 1, is 1.0");
  CHECK(SaidOfNumber(0, kAboveZero, kAnyNumber) == "of.a: must be a number above 0, is 0");
  CHECK(SaidOfNumber(-1, 0, kAnyNumber) == "of.a: must be a number from 0, is -1");
  CHECK(SaidOfNumber(2, -kAnyNumber, 0) == "of.a: must be a number up to 0, is 2");
  CHECK(SaidOfNumber("x", -kAnyNumber, kAnyNumber) == "of.a: must be a number, is \"x\"");
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(SaidOfNumber(infinite, 0, kAnyNumber) == "of.a: must be a number from 0, is Infinity");
  CHECK(SaidOfNumber(infinite, 0, infinite).empty());
  CHECK(SaidOfNumber(1 - 1e-9, 0, kBelowOne).empty());
  CHECK(SaidOfNumber(1e-300, kAboveZero, 1).empty());
}

TEST_CASE("null is a wrong value, or none where the reader says so") {
  CHECK(SaidOfNumber(nullptr, 0, 1) == "of.a: must be a number from 0 to 1, is null");
  CHECK(SaidOfNumber(nullptr, 0, 1, JsonFields::Null::kAbsent).empty());
}

TEST_CASE("a list of numbers is read whole or not at all") {
  std::vector<double> numbers = {7};
  const auto said = [&](const json& value) {
    return Said(
        value, [&](JsonFields& fields) { fields.Numbers("a", numbers); }, JsonFields::Null::kValue);
  };
  CHECK(said({1, "x"}) == "of.a: must be a list of numbers, is [1,\"x\"]");
  CHECK(said(1) == "of.a: must be a list of numbers, is 1");
  CHECK(numbers == std::vector<double>{7});
  CHECK(said({1, 2.5}).empty());
  CHECK(numbers == std::vector<double>{1, 2.5});
}

TEST_CASE("an integer is one from 0 on, however the JSON was made") {
  int64_t number = 0;
  const auto said = [&](const json& value) {
    return Said(
        value, [&](JsonFields& fields) { fields.Integer("a", 1, 9, number); },
        JsonFields::Null::kValue);
  };
  CHECK(said(3).empty());  // signed in C++, unsigned in a file
  CHECK(said(3u).empty());
  CHECK(number == 3);
  CHECK(said(-3) == "of.a: must be an integer from 1 to 9, is -3");
  CHECK(said(3.0) == "of.a: must be an integer from 1 to 9, is 3.0");
}

TEST_CASE("text that is nearly JSON is refused with the rule that it breaks, and the line") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"{\n  // the model\n  \"a\": 1}", "line 2: JSON has no comments"},
      {"{\"a\": 1,  # one\n \"b\": 2}", "line 1: JSON has no comments"},
      {"{\n\n 'a': 1}", "line 3: strings are in double quotes"},
      {"{\"a\": 1,\n \"b\": [1, 2,\n ],\n}", "line 2: no comma stands before a closing bracket"},
      {"model: m.json\nbatch: 3\n", "line 1: keys are in double quotes, and an object in {}"},
      {"{\"a\": 1,\n b: 2}", "line 2: keys are in double quotes"},
      {"{\"a\": \"x\n\"}", "line 1: a string ends in its own line"},
      {"{\"a\": 1", "parse error"},
  };
  for (const auto& [text, message] : table) {
    const auto parsed = ParseJson(text, 1000, 10);
    INFO(text << "\n" << parsed.status());
    CHECK(absl::StrContains(parsed.status().message(), message));
  }
  // Strings may contain anything.
  CHECK(ParseJson("{\"a\": \"http://x # 'y' ,] \\\" :\"}", 1000, 10).ok());
}

TEST_CASE("a value that is none of the allowed ones is refused with all and the nearest") {
  static constexpr std::string_view kAllowed[] = {"adam", "sgd"};
  CHECK(IsNoneOf("adan", kAllowed) ==
        "is \"adan\", but there is only: adam, sgd; did you mean `adam`?");
  CHECK(IsNoneOf(3, kAllowed) == "is 3, but there is only: adam, sgd");
  CHECK(IsNoneOf("descent", kAllowed, "sgd") ==
        "is \"descent\", but there is only: adam, sgd; did you mean `sgd`?");
}

}  // namespace
}  // namespace paracord
