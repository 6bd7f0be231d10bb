// The ps-lite side of bench/versus/pslite, compiled against a checkout of ps-lite. Follows
// ps-lite's own benchmark (tests/test_kv_app_benchmark.cc), with one key of `MB` megabytes. The
// server applies SGD to pushes and answers pulls without a copy, as in bench_wire.
//   peer ROUNDS MB...      role and addresses by the DMLC_* variables
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

#include "ps/ps.h"

namespace {

std::unordered_map<ps::Key, ps::SArray<float>> values;

void Serve(const ps::KVMeta& request, const ps::KVPairs<float>& data, ps::KVServer<float>* server) {
  ps::KVPairs<float> reply;
  ps::SArray<float>& value = values[data.keys[0]];
  if (request.push) {
    if (value.empty()) value.resize(data.vals.size(), 0.5f);
    float* to = value.data();
    const float* gradient = data.vals.data();
    for (size_t i = 0; i < data.vals.size(); ++i) to[i] -= 0.01f * gradient[i];
  } else {
    reply.keys = data.keys;
    reply.vals = value;
    reply.lens.push_back(static_cast<int>(value.size()));
  }
  server->Response(request, reply);
}

void Work(int rounds, const std::vector<size_t>& sizes) {
  ps::KVWorker<float> worker(0, 0);
  for (const size_t megabytes : sizes) {
    const size_t n = megabytes * 1000000 / sizeof(float);
    const ps::SArray<ps::Key> keys(1, megabytes);
    const ps::SArray<int> lens(1, static_cast<int>(n));
    const ps::SArray<float> gradient(n, 0.001f);
    ps::SArray<float> value(n, 0);
    ps::SArray<int> got(1, 0);
    for (int round = -2; round < rounds; ++round) {  // rounds below 0 are not timed
      for (const bool push : {true, false}) {
        const auto begin = std::chrono::steady_clock::now();
        worker.Wait(push ? worker.ZPush(keys, gradient, lens) : worker.ZPull(keys, &value, &got));
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        if (round < 0) continue;
        std::printf("%s_%zuMB %.9f\n", push ? "push_sgd" : "pull", megabytes, took.count());
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::stoul(argv[i]));
  ps::Start(0);
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<float>(0);
    server->set_request_handle(Serve);
    ps::RegisterExitCallback([server] { delete server; });
  }
  if (ps::IsWorker()) Work(std::atoi(argv[1]), sizes);
  ps::Finalize(0, true);
  return 0;
}
