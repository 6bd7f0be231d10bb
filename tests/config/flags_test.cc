#include "config/flags.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "absl/strings/match.h"

namespace paracord {
namespace {

// A program with a flag of each kind.
struct Program {
  Program() : flags("prog", "Does things.") {
    flags.Positional("JOB", "the job file", &job);
    flags.String("dir", "DIR", "where it writes", &dir);
    flags.String("cluster", "FILE", "the cluster", &cluster);
    flags.Strings("set", "KEY=VALUE", "what", &set);
    flags.Integer("workers", "N", "how many workers", 1, 64, &workers);
    flags.Integer("step", "N", "which step", 0, 1 << 30, &step);
    flags.Switch("fresh", "start anew", &fresh);
  }
  std::string Problems(const std::vector<std::string>& args) {
    return std::string(flags.Parse(args).message());
  }
  std::string job;
  std::string dir = "run";
  std::optional<std::string> cluster;
  std::vector<std::string> set;
  int64_t workers = 2;
  std::optional<int64_t> step;
  bool fresh = false;
  Flags flags;
};

TEST_CASE("flags take their value with a space or an equals sign, between arguments or after") {
  Program program;
  CHECK(program.Problems({"--workers", "3", "j.json", "--dir=/x=y", "--fresh", "--step=0"}) == "");
  CHECK(program.job == "j.json");
  CHECK(program.workers == 3);
  CHECK(program.dir == "/x=y");
  CHECK(program.fresh);
  CHECK(program.step == 0);
  CHECK(!program.cluster);
}

TEST_CASE("a flag of several values may be given again") {
  Program program;
  CHECK(program.Problems({"--set", "a=1", "j.json", "--set=b=2", "--set=a=3"}) == "");
  CHECK(program.set == std::vector<std::string>{"a=1", "b=2", "a=3"});
  CHECK(program.Problems({"j.json", "--set"}) == "--set: needs a value, KEY=VALUE");
}

TEST_CASE("flags that are not given keep their defaults") {
  Program program;
  CHECK(program.Problems({"j.json"}) == "");
  CHECK(program.dir == "run");
  CHECK(program.workers == 2);
  CHECK(!program.fresh);
}

TEST_CASE("two dashes end the flags, and a switch can be turned off") {
  Program program;
  CHECK(program.Problems({"--fresh=false", "--", "--dir"}) == "");
  CHECK(program.job == "--dir");
  CHECK(!program.fresh);
}

TEST_CASE("every wrong argument is named") {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "JOB: is missing"},
      {{"j", "k"}, "unexpected argument \"k\""},
      {{"j", "--worker", "3"}, "--worker: unknown flag; did you mean `--workers`?"},
      {{"j", "--clutser=x"}, "--clutser: unknown flag; did you mean `--cluster`?"},
      {{"j", "--zzzzzz"}, "--zzzzzz: unknown flag; --help lists them"},
      {{"j", "-dir", "x"}, "-dir: unknown flag; did you mean `--dir`?"},
      {{"j", "--workers"}, "--workers: needs a value, N"},
      {{"j", "--dir", "--fresh"}, "--dir: needs a value, DIR"},
      {{"j", "--dir="}, "--dir: must not be empty"},
      {{"j", "--workers", "0"}, "--workers: must be an integer from 1 to 64, is \"0\""},
      {{"j", "--workers", "-1"}, "--workers: must be an integer"},
      {{"j", "--workers", "3x"}, "--workers: must be an integer"},
      {{"j", "--workers", "99999999999999999999"}, "--workers: must be an integer"},
      {{"j", "--fresh=1"}, "--fresh: must be true or false"},
      {{"j", "--dir", "a", "--dir=b"}, "--dir: is given twice"},
      {{""}, "JOB: must not be empty"},
      {{"j", "---"}, "---: unknown flag"},
  };
  for (const auto& [args, expected] : cases) {
    Program program;
    const std::string problems = program.Problems(args);
    INFO(problems);
    CHECK(absl::StrContains(problems, expected));
  }
}

TEST_CASE("all wrong arguments are named at once") {
  Program program;
  CHECK(program.Problems({"--workers=x", "--nope"}) ==
        "--workers: must be an integer from 1 to 64, is \"x\"\n"
        "--nope: unknown flag; --help lists them\nJOB: is missing");
}

TEST_CASE("the word behind a misspelt flag is taken for its value, not for another problem") {
  Program program;
  CHECK(program.Problems({"j", "--wrokers", "2", "--clutser", "x", "--fesh", "k"}) ==
        "--wrokers: unknown flag; did you mean `--workers`?\n"
        "--clutser: unknown flag; did you mean `--cluster`?\n"
        "--fesh: unknown flag; did you mean `--fresh`?\nunexpected argument \"k\"");
}

TEST_CASE("help is made from the table and wins over mistakes") {
  Program program;
  CHECK(program.Problems({"--workers=x", "--help"}) == "");
  CHECK(program.flags.help_wanted());
  CHECK(program.flags.Help() ==
        "usage: prog JOB [flags]\n"
        "Does things.\n"
        "\n"
        "  JOB              the job file\n"
        "\n"
        "  --dir DIR        where it writes (default run)\n"
        "  --cluster FILE   the cluster\n"
        "  --set KEY=VALUE  what\n"
        "  --workers N      how many workers (default 2)\n"
        "  --step N         which step\n"
        "  --fresh          start anew\n"
        "  --help           print this\n");
}

TEST_CASE("the help of a program with a version has --version, which wins over mistakes") {
  Flags flags("paracord-ps", "Holds variables.");
  std::ostringstream out, err;
  const auto says = [&](std::vector<std::string> args) {
    out.str("");
    return flags.ParseOrExit(args, "paracord-ps", out, err) == 0 ? out.str() : "";
  };
  CHECK(flags.Help().find("--version") == std::string::npos);
  flags.Version("paracord-ps 7.8, protocol 9");
  CHECK(flags.Help().find("  --version  print the version and the protocol\n") !=
        std::string::npos);
  CHECK(flags.Words().find("--version\t\tprint the") != std::string::npos);
  CHECK(flags.ManPage().find("\\-\\-version") != std::string::npos);
  CHECK(says({"--nope", "--version"}) == "paracord-ps 7.8, protocol 9\n");
  CHECK(says({"--version", "--help"}) == flags.Help());
  CHECK(err.str().empty());
}

TEST_CASE("--help=words has a line for each argument and flag, with tabs between the parts") {
  Program program;
  CHECK(program.Problems({"--help=words"}) == "");
  CHECK(program.flags.help_wanted());
  CHECK(program.flags.Words() ==
        "\tJOB\tthe job file\n"
        "--dir\tDIR\twhere it writes (default run)\n"
        "--cluster\tFILE\tthe cluster\n"
        "--set\tKEY=VALUE\twhat\n"
        "--workers\tN\thow many workers (default 2)\n"
        "--step\tN\twhich step\n"
        "--fresh\t\tstart anew\n"
        "--help\t\tprint this\n");
  CHECK(program.Problems({"--help=wrods", "job"}) ==
        "--help: unknown flag; did you mean `--help`?");
}

TEST_CASE("an argument that need not be given is shown in brackets") {
  std::string job = "its own";
  Flags flags("prog", "Does this.");
  flags.OptionalPositional("JOB", "the job", &job);
  CHECK(flags.Parse({}).ok());
  CHECK(job == "its own");
  CHECK(flags.Help().find("usage: prog [JOB]\n") == 0);
  CHECK(flags.ManPage().find("[JOB] [flags]") != std::string::npos);
  CHECK(flags.Words().find("\tJOB\tthe job\n") == 0);
  const std::vector<std::string> args = {"j", "k"};
  CHECK_FALSE(flags.Parse(args).ok());
  CHECK(job == "j");
}

TEST_CASE("--help=man is a page of the manual, where nothing of the text is taken for a command") {
  std::string text;
  Flags flags("prog one", "Does this.\n'Then' that. And more.");
  flags.String("x", "FILE", ".dotted \\ text", &text);
  const std::string page = flags.ManPage();
  CHECK(page.find(".TH PROG\\-ONE 1\n.SH NAME\nprog\\-one \\- Does this.") == 0);
  CHECK(page.find(".B prog one\n[flags]\n") != std::string::npos);
  CHECK(page.find(".SH DESCRIPTION\nDoes this.\n\\&'Then' that. And more.\n") != std::string::npos);
  CHECK(page.find(".TP\n.B \\-\\-x FILE\n\\&.dotted \\e text\n") != std::string::npos);
  CHECK(page.find(".B 200 and above\na restart may help\n") != std::string::npos);
}

}  // namespace
}  // namespace paracord
