// Runs the shell commands of the first documentation pages in order, as a reader does who copies
// them into a shell. A block that cannot run in a test follows a comment <!-- not run: REASON -->.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/json_text.h"
#include "e2e/process.h"
#include "tests/fakes.h"

namespace paracord::e2e {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A block of shell commands in a page.
struct Block {
  size_t line = 0;      // line of its first command, from 1
  std::string not_run;  // reason not to run, or ""
  std::string text;
};

std::vector<Block> BlocksOf(const std::string& page) {
  const std::string not_run = "<!-- not run: ", end = " -->";
  const std::vector<std::string> lines = absl::StrSplit(page, '\n');
  std::vector<Block> blocks;
  bool inside = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (inside && lines[i] == "```") {
      inside = false;
    } else if (inside) {
      absl::StrAppend(&blocks.back().text, lines[i], "\n");
    } else if (lines[i] == "```sh") {
      inside = true;
      std::string why = i > 0 && lines[i - 1].starts_with(not_run) ? lines[i - 1] : "";
      blocks.push_back({i + 2, absl::StrReplaceAll(why, {{not_run, ""}, {end, ""}}), ""});
    }
  }
  return blocks;
}

// A folder with the tree's examples, where the commands of a page run. Paths below /tmp are
// redirected into the folder.
class Reader {
 public:
  Reader() {
    const fs::path example = fs::path(PARACORD_SOURCE_DIR) / "examples/recommender";
    fs::create_directories(fs::path(Path("examples")));
    fs::create_directories(fs::path(Path("tmp")));
    fs::copy(example, Path("examples/recommender"));
  }
  std::string Path(const std::string& name) const { return temp_ / name; }
  json Summary(const std::string& dir) const {
    return JsonOf(ReadText(Path("tmp/" + dir + "/summary.json")));
  }
  // Runs all blocks of a page in one shell, which exits at the first failing command. Returns the
  // reasons for skipped blocks.
  std::vector<std::string> Run(const std::string& page) const {
    std::vector<std::string> left_out;
    std::string script;
    for (const Block& block : BlocksOf(ReadText(absl::StrCat(PARACORD_SOURCE_DIR "/", page)))) {
      if (block.not_run.empty()) {
        absl::StrAppend(&script, "echo '== ", page, ":", block.line, "'\n", block.text);
      } else {
        left_out.push_back(block.not_run);
      }
    }
    WriteText(Path("script"), absl::StrReplaceAll(script, {{"/tmp/", Path("tmp/")}}));
    const Variables variables = {{"PATH", PARACORD_BIN_DIR ":/usr/local/bin:/usr/bin:/bin"}};
    Process shell({"/bin/bash", "-c", absl::StrCat("cd ", temp_.path(), " && bash -eu script")},
                  variables, Path("log"));
    const auto code = shell.Wait(300000);
    INFO(ReadText(Path("log")));
    REQUIRE(code == 0);
    return left_out;
  }

 private:
  TestDirectory temp_;
};

TEST_CASE("the commands of README do what it says") {
  const Reader reader;
  CHECK(reader.Run("README.md") ==
        std::vector<std::string>{
            "installs packages, compiles for minutes and tests everything",
        });
  const json clicks = reader.Summary("clicks");
  CHECK(clicks["status"] == "done");
  CHECK(clicks["metrics"]["test"]["auc"] > 0.85);  // a perfect model scores 0.889
  const json killed = reader.Summary("tour");
  CHECK(killed["status"] == "done");
  CHECK(killed["recoveries"]["ps"] >= 1);
  CHECK(killed["ledger"]["rejected"] == 0);
  CHECK(killed["ledger"]["applied_min"] == killed["ledger"]["batches"]);
  CHECK(killed["ledger"]["applied_max"] == killed["ledger"]["batches"]);
}

TEST_CASE("the commands of the first page on data of one's own do what it says") {
  const Reader reader;
  CHECK(reader.Run("docs/start.md") == std::vector<std::string>{"needs Keras"});
  const json trained = reader.Summary("mine/run");
  CHECK(trained["status"] == "done");
  CHECK(trained["metrics"]["test"]["auc"] > 0.8);
  CHECK(fs::exists(reader.Path("tmp/mine/model.safetensors")));
}

}  // namespace
}  // namespace paracord::e2e
