// `paracord train` refuses data that no worker could read before it starts a process, in the words
// of `paracord validate`.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "e2e/counting_job.h"
#include "e2e/process.h"
#include "e2e/train.h"

namespace paracord::e2e {
namespace {

// Returns the problems that `paracord validate` prints of the job, a line each, without the job's
// path.
std::vector<std::string> ValidateSays(const Train& train) {
  const std::string job = train.root() + "/job.json", log = train.root() + "/validate.log";
  Process validate({PARACORD_BIN_DIR "/paracord", "validate", job}, {}, log);
  CHECK(validate.Wait(60000) == 2);
  std::vector<std::string> problems;
  for (const auto line : absl::StrSplit(ReadText(log), '\n')) {
    const std::string text(line);
    if (text.starts_with(job + ": ")) problems.push_back(text.substr(job.size() + 2));
  }
  return problems;
}

// Checks that train of the job in train.root() says what validate says, a single problem with the
// text `said`, with the same exit code, and that it has started nothing.
void CheckRefused(Train& train, const std::string& said) {
  const std::vector<std::string> problems = ValidateSays(train);
  REQUIRE(problems.size() == 1);
  INFO(problems[0]);
  CHECK(problems[0].find(said) != std::string::npos);
  CHECK(train.Start({}, "")->Wait(60000) == 2);
  CHECK(train.log() == "paracord train: " + problems[0] + "\n");
  CHECK_FALSE(std::filesystem::exists(train.dir()));
  CHECK(train.SocketDirs() == 0);
}

// A job of a dense model whose inputs have no shape without the data. `data` has the keys of
// data.train beside its format.
void WriteCsvJob(const Train& train, const std::string& rows, const std::string& data,
                 const std::string& loss, int units) {
  WriteText(train.root() + "/rows.csv", rows);
  WriteText(train.root() + "/job.json",
            absl::StrCat(R"({"name": "csv", "model":
      {"class_name": "Sequential", "config": {"name": "s", "layers": [
        {"class_name": "Dense", "config": {"name": "out", "units": )",
                         units, R"(}}]}},
      "data": {"train": {"format": "csv", "files": "rows.csv", )",
                         data, R"(}},
      "loss": {"name": ")",
                         loss, R"(", "from_logits": true}, "optimizer": "sgd",
      "batch": 2, "epochs": 1})"));
}

TEST_CASE("train refuses rows of a CSV in validate's words before it starts a process") {
  const std::string columns = R"("features": ["a", "b"], "label": "left")";
  struct Case {
    std::string rows, data, said;
  };
  const Case each =
      GENERATE_COPY(Case{"a,b,left\n1,2,yes\n3,4,no\n", columns, R"("vocabulary": ["no", "yes"])"},
                    Case{"a,b,left\n1,2,0\n3,dear,1\n", columns, "rows.csv row 1: "},
                    Case{"a,b,left\n1,2,0\n3,nan,1\n", columns, "rows.csv row 1: "},
                    Case{"a,c,left\n1,2,0\n", columns, R"(there is no column "b")"},
                    Case{"a,b,left\n", columns, "rows.csv: has no records"});
  Train train;
  WriteCsvJob(train, each.rows, each.data, "binary_crossentropy", 1);
  CheckRefused(train, each.said);
}

TEST_CASE("train refuses test data in validate's words before it starts a process") {
  Train train;
  WriteCsvJob(train, "a,b,left\n1,2,0\n3,4,1\n",
              R"("features": ["a", "b"], "label": "left"}, "test": {"files": "test.csv")",
              "binary_crossentropy", 1);
  WriteText(train.root() + "/test.csv", "a,b,left\n1,2,0\n3,four,1\n");
  CheckRefused(train, "data.test: ");
}

TEST_CASE("train warns of labels that are no class, and failures says what comes of them") {
  Train train;
  WriteCsvJob(train, "a,b,left\n1,2,0\n1,2,3\n", R"("features": ["a", "b"], "label": "left")",
              "sparse_categorical_crossentropy", 3);
  CHECK(train.Start({}, "")->Wait(60000) == 1);
  INFO(train.log());
  CHECK(train.Said("paracord train: warning: data.train: "));
  CHECK(train.Said("rows.csv row 1: "));
  CHECK(train.Said(R"(its batch will fail, and "failures" says what then)"));
}

TEST_CASE("a job that goes on is not looked at again, but its data have to be the same") {
  Train train(/*steps=*/20);
  CHECK(train.Start({}, "")->Wait(120000) == 0);
  SpoilRecord(train.root(), 3);
  CHECK(train.Start({"--set", "steps=40"}, "")->Wait(60000) == 2);
  INFO(train.log());
  CHECK(train.Said("what data.train and data.test name is not what the job was begun with"));
  CHECK_FALSE(train.Said("is nan"));
  train.Start({"--fresh"}, "")->Wait(60000);
  CHECK(train.Said("warning: data.train: "));
  CHECK(train.Said("train-y.npy row 3: target is nan: its batch will fail"));
}

}  // namespace
}  // namespace paracord::e2e
