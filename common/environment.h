// The interfaces by which a role reaches clock, network, files, random numbers and its thread for
// long work. The constructor of each role gets an Environment. The program of the role passes the
// real implementations, and the simulation simulated ones.
#pragma once

#include "common/event_loop.h"
#include "common/executor.h"
#include "common/files.h"
#include "common/random.h"
#include "common/rpc.h"

namespace paracord {

struct Environment {
  EventLoop& loop;
  Network& network;
  Files& files;
  Executor& executor;  // a thread for long work, such as snapshots and gradients
  Random& random;
};

}  // namespace paracord
