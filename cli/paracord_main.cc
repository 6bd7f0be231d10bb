// paracord: the command for people.
#include <unistd.h>

#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "common/descriptors.h"
#include "common/failpoint.h"
#include "common/log.h"
#include "config/man_page.h"
#include "config/nearest.h"
#include "daemon/daemon_process.h"

namespace paracord {
namespace {

struct Command {
  std::string_view name;
  std::string_view what;
  int (*run)(Args args);
  bool for_developers = false;
};

// Writes rows unchanged if another program reads them; a terminal gets no control characters.
int Predict(Args args) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  return RunPredict(args, terminal ? TerminalOut() : std::cout, TerminalErr());
}

constexpr Command kCommands[] = {
    {"train", "trains a job on a cluster of processes on this machine", RunTrain},
    {"launch", "trains a job on other hosts, whose daemons it starts by ssh", RunLaunch},
    {"validate", "prints the plan of a job, or everything that is wrong with it",
     [](Args args) { return RunValidate(args, TerminalOut(), TerminalErr()); }},
    {"init", "writes a first job for a model and its data",
     [](Args args) { return RunInit(args, TerminalOut(), TerminalErr()); }},
    {"status", "shows how a job goes, and who waits for whom",
     [](Args args) { return RunStatus(args, TerminalOut(), TerminalErr()); }},
    {"scale", "lets a running job go on with more or fewer ps",
     [](Args args) { return RunScale(args, TerminalOut(), TerminalErr()); }},
    {"health", "asks whether a daemon's event loop turns, for health checks",
     [](Args args) { return RunHealth(args, TerminalOut(), TerminalErr()); }},
    {"doctor", "says what is wrong with this host, and what to do about it",
     [](Args args) { return RunDoctor(args, TerminalOut(), TerminalErr()); }},
    {"run", "becomes the daemon whose task TF_CONFIG names",
     [](Args args) { return RunRun(args, TerminalOut(), TerminalErr()); }},
    {"render", "writes manifests that run a job on Kubernetes",
     [](Args args) { return RunRender(args, TerminalOut(), TerminalErr()); }},
    {"evaluate", "computes the test metrics of a checkpoint, without a cluster",
     [](Args args) { return RunEvaluate(args, TerminalOut(), TerminalErr()); }},
    {"predict", "writes what a trained model predicts, a row for each record", Predict},
    {"export", "writes a checkpoint's variables into one safetensors file",
     [](Args args) { return RunExport(args, TerminalOut(), TerminalErr()); }},
    {"checkpoint", "lists and verifies a job's checkpoints",
     [](Args args) { return RunCheckpoint(args, TerminalOut(), TerminalErr()); }},
    {"convert", "writes a job's data as a TFRecord file of tf.train.Example",
     [](Args args) { return RunConvert(args, TerminalOut(), TerminalErr()); }},
    {"compute", "computes one batch with the code that trains, to compare with Keras",
     [](Args args) { return RunCompute(args, TerminalOut(), TerminalErr()); }, true},
};

constexpr std::pair<std::string_view, std::string_view> kOwnFlags[] = {
    {"--version", "print the version and the protocol"}, {"--help", "print this"}};

void Usage(std::ostream& out) {
  const auto line = [&](std::string_view left, std::string_view right) {
    out << "  " << left << std::string(12 - left.size(), ' ') << right << "\n";
  };
  out << "usage: paracord COMMAND ...   (--help after a command explains it)\n";
  for (const Command& command : kCommands) {
    if (!command.for_developers) line(command.name, command.what);
  }
  for (const auto& [flag, what] : kOwnFlags) line(flag, what);
  out << "for developers:\n";
  for (const Command& command : kCommands) {
    if (command.for_developers) line(command.name, command.what);
  }
}

// Prints the commands like Flags prints flags: for man(1), or a line each for shells.
void UsageInForm(const std::string& form, std::ostream& out) {
  ManPage page{"paracord",
               "trains models with parameter servers and workers",
               "COMMAND ...",
               "Each command has a page of its own, and explains its flags with --help.",
               {},
               {}};
  for (const Command& command : kCommands) {
    const std::string name(command.name), what(command.what);
    if (form == "words") out << name << "\t\t" << what << "\n";
    page.options.emplace_back(name, what);
    page.see_also.push_back("paracord-" + name);
  }
  for (const auto& [flag, what] : kOwnFlags) page.options.emplace_back(flag, what);
  if (form == "man") out << ManPageText(page);
}

int Main(int argc, char** argv) {
  SetUpLogging("info");  // standard output is for results
  if (const std::string armed = ArmedFailpoints(); !armed.empty()) {
    TerminalErr() << "paracord: " << kFailpointsVariable
                  << " is set, which is for tests: this command "
                  << "and what it starts will fail on purpose at " << armed << "\n";
  }
  (void)WantDescriptors(0);  // the most allowed, like a worker: data may be many files
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() > 1 && args[0] == "help") {  // `help COMMAND`; an unknown command is reported
    std::vector<std::string> asked(argv, argv + 1);
    asked.insert(asked.end(), {args[1], "--help"});
    std::vector<char*> words;
    for (std::string& word : asked) words.push_back(word.data());
    return Main(static_cast<int>(words.size()), words.data());
  }
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    Usage(args.empty() ? TerminalErr() : TerminalOut());
    return args.empty() ? static_cast<int>(ExitCode::kConfiguration) : 0;
  }
  if (args[0] == "--help=man" || args[0] == "--help=words") {
    UsageInForm(args[0].substr(std::string("--help=").size()), TerminalOut());
    return 0;
  }
  if (args[0] == "--version") {
    TerminalOut() << VersionText("paracord") << "\n";
    return 0;
  }
  std::vector<std::string_view> known;
  for (const Command& command : kCommands) {
    if (command.name == args[0]) return command.run(Args(args).subspan(1));
    known.push_back(command.name);
  }
  for (const auto& [flag, what] : kOwnFlags) known.push_back(flag);
  const std::string near = NearestName(args[0], known);
  TerminalErr() << "paracord: there is no command " << args[0]
                << (near.empty() ? "" : "; did you mean " + near + "?") << "\n";
  return static_cast<int>(ExitCode::kConfiguration);
}

}  // namespace
}  // namespace paracord

int main(int argc, char** argv) {
  paracord::RunProgram(argc, argv, [](int count, char** words) {
    const int code = paracord::Main(count, words);
    paracord::TerminalOut().flush();
    return code;
  });
}
