// A relay between two unix sockets that can misbehave: it stands for a network that cuts, loses or
// resets. One thread of its own; set_mode may be called from any.
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
    kBlackHole,    // nothing moves, nothing breaks; what waits goes on afterwards
    kDropReplies,  // requests arrive, answers are lost; those connections break afterwards
    kReset,        // connections are broken as they come
  };
  // `listen` and `target` are the paths of sockets.
  Proxy(std::string listen, std::string target);
  ~Proxy();
  // Sets the mode for the connections of process `pid`, or of all if that is 0.
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
