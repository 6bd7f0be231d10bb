// A model that is a program: the program's files become part of the job.
#include "config/program_spec.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "common/json_text.h"
#include "config/job.h"
#include "tests/batches.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

json ProgramJob(const json& model) {
  return {{"model", model},
          {"data", {{"train", {{"format", "npy"}, {"features", "x.npy"}, {"labels", "y.npy"}}}}},
          {"optimizer", "sgd"}};
}

const json kProgramModel = {{"program", "process"},
                            {"command", {"python3", "train.py"}},
                            {"files", {"train.py", "lib/model.py"}}};

TEST_CASE("the files of a program travel in the job") {
  const TestDirectory directory;
  directory.Write("train.py", "print('\xc3\xbc')\n");
  directory.Write("lib/model.py", "");
  const std::string path = directory.Write("job.json", TextOf(ProgramJob(kProgramModel)));
  PosixFiles files;
  const absl::StatusOr<Job> job = ReadJobFile(files, path);
  INFO(job.status());
  REQUIRE(job.ok());
  CHECK(job->loss.name.empty());  // the program has a loss
  const std::string canonical = JobToJson(*job);
  const absl::StatusOr<Job> again = ParseJob(canonical);
  INFO(again.status());
  REQUIRE(again.ok());
  CHECK(JobToJson(*again) == canonical);
  const absl::StatusOr<ProgramSpec> spec = ReadProgramSpec(again->model);
  REQUIRE(spec.ok());
  CHECK(spec->command == std::vector<std::string>{"python3", "train.py"});
  CHECK(spec->files == std::map<std::string, std::string>{{"train.py", "print('\xc3\xbc')\n"},
                                                          {"lib/model.py", ""}});
  CHECK(spec->step_s == 300);
  // A changed file makes another job.
  directory.Write("train.py", "print(1)\n");
  const absl::Status resumed =
      CheckResumable(*job, ReadJobFile(files, path).value(), PlanOf(1, 1, 1));
  CHECK(absl::StrContains(resumed.message(), "train.py"));
  // The model may be in a separate file, with its files in that file's folder.
  directory.Write("models/program.json", TextOf(kProgramModel));
  directory.Write("models/train.py", "print(2)\n");
  directory.Write("models/lib/model.py", "");
  directory.Write("job.json", TextOf(ProgramJob("models/program.json")));
  CHECK(ReadJobFile(files, path).value().model["files"]["train.py"] == "print(2)\n");
}

TEST_CASE("a relative path of a program is of one of the files, or lies beside the job file") {
  const TestDirectory directory;
  directory.Write("train.py", "#!/usr/bin/env python3\n");
  directory.Write("lib/model.py", "");
  PosixFiles files;
  for (const auto& [command, taken] : std::vector<std::pair<std::string, std::string>>{
           {"python3", "python3"},
           {"/usr/bin/python3", "/usr/bin/python3"},
           {"venv/bin/python", directory / "venv/bin/python"},
           {"./venv/../bin/python", directory / "bin/python"},
           {"./train.py", "./train.py"},
           {"lib/model.py", "lib/model.py"}}) {
    json model = kProgramModel;
    model["command"] = {command, "lib/model.py"};
    const auto job = ReadJobFile(files, directory.Write("job.json", TextOf(ProgramJob(model))));
    REQUIRE(job.ok());
    const json wanted = {taken, "lib/model.py"};
    CHECK(job->model["command"] == wanted);
    CHECK(ParseJob(JobToJson(*job)).value().model["command"] == wanted);
  }
}

TEST_CASE("what is wrong with a program is said with its key") {
  const auto [patch, why] = GENERATE(table<json, std::string>({
      {{{"program", "tensorflow"}}, "model.program: "},
      {{{"command", "python3 train.py"}}, "model.command: must be a list of strings"},
      {{{"command", json::array()}}, "model.command: must be a list of strings"},
      {{{"files", {"../train.py"}}}, "model.files: \"../train.py\" must be a path below"},
      {{{"files", {"/etc/passwd"}}}, "model.files: \"/etc/passwd\" must be a path below"},
      {{{"files", {"missing.py"}}}, "missing.py"},
      {{{"files", {"latin.py"}}}, "latin.py: is no text in UTF-8"},
      {{{"files", {7}}}, "model.files: 7 must be a path below"},
      {{{"step_s", 0}}, "model.step_s: "},
      {{{"comand", {"a"}}}, "model.comand: "},
  }));
  json model = kProgramModel;
  model["files"] = json::array();
  model.update(patch);
  CAPTURE(TextOf(model));
  const TestDirectory directory;
  directory.Write("latin.py", "# caf\xe9\n");
  const std::string path = directory.Write("job.json", TextOf(ProgramJob(model)));
  PosixFiles files;
  const absl::Status status = ReadJobFile(files, path).status();
  INFO(status);
  CHECK(absl::StrContains(status.message(), why));
}

TEST_CASE("a program file travels in the job") {
  const TestDirectory directory;
  directory.Write("models/a.program", R"({"format": 1, "modules": [], "made_by": "me"})");
  const json model = {{"program", "stablehlo"}, {"file", "models/a.program"}};
  const std::string path = directory.Write("job.json", TextOf(ProgramJob(model)));
  PosixFiles files;
  const absl::StatusOr<Job> job = ReadJobFile(files, path);
  INFO(job.status());
  REQUIRE(job.ok());
  CHECK(IsStableHlo(job->model));
  CHECK(job->model["file"]["made_by"] == "me");
  const std::string canonical = JobToJson(*job);
  CHECK(JobToJson(ParseJob(canonical).value()) == canonical);
  // The program is no process.
  CHECK(absl::IsInvalidArgument(ReadProgramSpec(job->model).status()));
  directory.Write("models/a.program", R"({"format": 1, "modules": [7], "made_by": "me"})");
  const absl::Status resumed =
      CheckResumable(*job, ReadJobFile(files, path).value(), PlanOf(1, 1, 1));
  CHECK(absl::StrContains(resumed.message(), "model"));
}

TEST_CASE("a program file that is none is refused with its path") {
  const auto [model, why] = GENERATE(table<json, std::string>({
      {{{"program", "stablehlo"}}, "model.file: must be the path of a program file"},
      {{{"program", "stablehlo"}, {"file", 7}}, "model.file: must be the path"},
      {{{"program", "stablehlo"}, {"file", "missing"}}, "missing"},
      {{{"program", "stablehlo"}, {"file", "garbage"}},
       "garbage: is no program file as paracord.keras.export and paracord.jax.export write it: "},
      {{{"program", "stablehlo"}, {"file", "other"}}, "its JSON has no format and modules"},
      {{{"program", "stablehlo"}, {"file", "good"}, {"files", {"a"}}}, "model.files: "},
  }));
  const TestDirectory directory;
  directory.Write("garbage", "ML\xefR\rStableHLO_v1.15.0");
  directory.Write("other", "{\"class_name\": \"Sequential\"}");
  directory.Write("good", "{\"format\": 1, \"modules\": []}");
  const std::string path = directory.Write("job.json", TextOf(ProgramJob(model)));
  PosixFiles files;
  const absl::Status status = ReadJobFile(files, path).status();
  INFO(status);
  CHECK(absl::StrContains(status.message(), why));
}

TEST_CASE("a file of the program may change on resume if somebody accepts that") {
  const auto program = [](const std::string& text) {
    Job job;
    job.name = "t";
    job.model = {{"program", "process"},
                 {"command", {"python3", "train.py"}},
                 {"files", {{"train.py", text}, {"more.py", "x\n"}}},
                 {"step_s", 300}};
    return job;
  };
  const Job bug = program("import a\nbug()\nrun()\n"), mended = program("import a\nrun()\n");
  const std::vector<std::string> accepted = {"train.py"}, unknown = {"other.py"};
  CHECK(CheckResumable(bug, mended, PlanOf(1, 1, 4)).message() ==
        "model.files.train.py: line 2 was \"bug()\" and is now \"run()\", but cannot change on "
        "resume without --accept-change train.py");
  CHECK(CheckResumable(bug, mended, PlanOf(1, 1, 4), accepted).ToString() == "OK");
  CHECK(CheckResumable(bug, bug, PlanOf(1, 1, 4), unknown).message() ==
        "--accept-change: the job's program has no file other.py in its `files`");
}

}  // namespace
}  // namespace paracord
