// Tests the warning of `paracord validate` about large numbers that nothing scales.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "tests/cli/ran.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

// Validates a job of rows of flats, of which the price is predicted by these features and layers.
std::string SaidOfFlats(const json& features, const std::vector<json>& layers) {
  const TestDirectory directory;
  std::string rows = "area,year,city,price\n";
  for (int i = 0; i < 50; ++i) {
    absl::StrAppend(&rows, 20 + i, ",", i == 7 ? "" : absl::StrCat(1970 + i % 2), ",", i % 3, ",",
                    i, "\n");
  }
  directory.Write("rows.csv", rows);
  const json job = {
      {"model", {{"class_name", "Sequential"}, {"config", {{"name", "s"}, {"layers", layers}}}}},
      {"data",
       {{"train",
         {{"format", "csv"}, {"files", "rows.csv"}, {"features", features}, {"label", "price"}}}}},
      {"loss", "mse"},
      {"batch", 4},
      {"optimizer", "sgd"}};
  const Ran ran = Run(RunValidate, {directory.Write("job.json", TextOf(job))});
  INFO(ran.out << ran.err);
  CHECK(ran.code == 0);
  return ran.err;
}

const json kDense = {{"class_name", "Dense"}, {"config", {{"name", "d"}, {"units", 1}}}};
const json kYear = {{"column", "year"}, {"default", 1970}};

TEST_CASE("validate warns of large numbers that nothing scales, and says what would") {
  const std::string said = SaidOfFlats({"area", kYear}, {kDense});
  CHECK(Has(said,
            "warning: data.train.features[1]: the first values of column year are from 1970 to "
            "1971, and nothing scales them before a Dense layer"));
  CHECK(Has(said, "numbers: \"mean\": 1970.4898, \"std\": 0.4999 would"));  // to digits of the std
  CHECK_FALSE(Has(said, "area"));                                           // up to 69
  const json flat = {{"class_name", "Flatten"}, {"config", {{"name", "f"}}}};
  CHECK(Has(SaidOfFlats(kYear, {flat, kDense}), "data.train.features: the first values of column"));
}

TEST_CASE("validate says nothing of numbers that the job or a layer scales, or that are ids") {
  json scaled = kYear;
  scaled["mean"] = 1970;
  CHECK(SaidOfFlats(scaled, {kDense}) == "");
  const json normal = {{"class_name", "BatchNormalization"}, {"config", {{"name", "n"}}}};
  CHECK(SaidOfFlats(kYear, {normal, kDense}) == "");
  const json rescaling = {{"class_name", "Rescaling"},
                          {"config", {{"name", "r"}, {"scale", 0.001}}}};
  CHECK(SaidOfFlats(kYear, {rescaling, kDense}) == "");
  const json rows = {{"class_name", "Embedding"},
                     {"config", {{"name", "e"}, {"input_dim", 3000}, {"output_dim", 2}}}};
  const json flat = {{"class_name", "Flatten"}, {"config", {{"name", "f"}}}};
  CHECK(SaidOfFlats(kYear, {rows, flat, kDense}) == "");
  const json words = {{"column", "city"}, {"kind", "hashed"}, {"bins", 1000}};
  CHECK(SaidOfFlats(words, {kDense}) == "");
}

}  // namespace
}  // namespace paracord
