// A relay between two unix sockets that imitates a bad network: it cuts, loses or resets. Runs one
// thread. set_mode may be called from any thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace paracord::e2e {

class Proxy {
 public:
  enum class Mode {
    kPass,
    kBlackHole,    // nothing moves or breaks; bytes wait for kPass
    kDropReplies,  // requests arrive, answers are lost; affected connections break later
    kReset,        // new connections are broken at once
  };
  // `listen` and `target` are paths of unix sockets.
  Proxy(std::string listen, std::string target);
  ~Proxy();
  // Sets the mode for connections of process `pid`, or of all processes if `pid` is 0.
  void set_mode(Mode mode, pid_t pid = 0);

 private:
  struct Pair {
    int client = -1;
    int server = -1;
    pid_t pid = 0;
    bool tainted = false;  // bytes were lost
  };
  void Run();
  void Accept();
  bool Move(Pair& pair, Mode mode);
  static bool Relay(int from, int to);

  const std::string target_;
  int listener_ = -1;
  std::vector<Pair> pairs_;
  std::atomic<Mode> mode_ = Mode::kPass;
  std::atomic<pid_t> pid_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace paracord::e2e
