// Measures the cost of checkpoints. One worker pushes to a real ps as fast as possible, alone and
// while the ps writes snapshots back to back. Also compares writing and restoring snapshots with
// raw files.
//   bench_checkpoint [--mb N] [--dir DIR] [--seconds N] [--rounds N]
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/daemon_process.h"
#include "measure.h"
#include "ps_client.h"
#include "storage/checkpoint.h"
#include "temp_dir.h"

namespace paracord::bench {
namespace {

constexpr size_t kWriteBytes = 1 << 20;

// Returns the seconds to write and sync `bytes` to a new file.
double RawWrite(const std::string& path, uint64_t bytes) {
  const std::vector<char> block(kWriteBytes, 1);
  const double begin = Seconds();
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  for (uint64_t done = 0; done < bytes; done += block.size()) {
    const size_t size = std::min<uint64_t>(block.size(), bytes - done);
    if (write(fd, block.data(), size) != static_cast<ssize_t>(size)) Fail("cannot write " + path);
  }
  if (fsync(fd) != 0) Fail("cannot sync " + path);
  close(fd);
  return Seconds() - begin;
}

double RawRead(const std::string& path) {
  std::vector<char> block(kWriteBytes);
  const double begin = Seconds();
  const int fd = open(path.c_str(), O_RDONLY);
  while (read(fd, block.data(), block.size()) > 0) continue;
  close(fd);
  return Seconds() - begin;
}

// Evicts a file from the page cache, so that the next read comes from the disk.
void Evict(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

struct Pushes {
  double rate = 0;  // per second
  double cpu = 0;   // total of the ps
  std::vector<double> seconds;
};

Pushes PushFor(Exchanger& worker, int ps, double seconds) {
  Pushes pushes;
  const double cpu = CpuSecondsOf(ps);
  const double begin = Seconds();
  double now = begin;
  while (now - begin < seconds) {
    worker.Start(true, true);
    worker.Finish();
    const double then = std::exchange(now, Seconds());
    pushes.seconds.push_back(now - then);
  }
  pushes.rate = static_cast<double>(pushes.seconds.size()) / (now - begin);
  pushes.cpu = CpuSecondsOf(ps) - cpu;
  return pushes;
}

struct Bench {
  Link& link;
  PsJob job;
  std::string dir;
  Fence fence;
  uint64_t round = 0;

  SnapshotReply Snapshot() { return OrderSnapshot(link, fence, dir, ++round); }
  std::string directory() const {
    return absl::StrCat(dir, "/checkpoints/", RoundDirectory(fence.generation(), round));
  }
};

// The measurements of all rounds, without and with snapshots.
struct Rounds {
  std::vector<double> alone;   // pushes/s
  std::vector<double> beside;  // pushes/s
  std::vector<double> lost;    // training time lost for each snapshot, in seconds
  std::vector<double> snapshots;
  std::vector<double> cpu;  // CPU seconds of the ps for each snapshot
  std::vector<double> longest_alone;
  std::vector<double> longest_beside;
  Pushes quiet;
  Pushes busy;
};

// Measures pushes alone, during snapshots back to back, and alone again.
void MeasureRound(Bench& bench, Exchanger& worker, int ps, double seconds, Rounds& to) {
  const auto add = [](Pushes& all, const Pushes& some) {
    all.seconds.insert(all.seconds.end(), some.seconds.begin(), some.seconds.end());
  };
  const auto count = [](const Pushes& p) { return static_cast<double>(p.seconds.size()); };
  const Pushes before = PushFor(worker, ps, seconds);
  std::atomic<bool> stop = false;
  int written = 0;
  std::thread writer([&] {
    while (!stop) {
      const double begin = Seconds();
      bench.Snapshot();
      to.snapshots.push_back(Seconds() - begin);
      std::filesystem::remove_all(bench.directory());
      ++written;
    }
  });
  const double begin = Seconds();
  const Pushes during = PushFor(worker, ps, seconds);
  stop = true;
  const double pushing = Seconds() - begin;
  writer.join();
  const double all = Seconds() - begin;  // the last snapshot ends after the last push
  const Pushes after = PushFor(worker, ps, seconds);
  const double rate = (before.rate + after.rate) / 2;
  to.alone.push_back(rate);
  to.beside.push_back(during.rate);
  const double snapshots_begun = written * pushing / all;
  to.lost.push_back((1 - during.rate / rate) * pushing / snapshots_begun);
  const double push_cpu = (before.cpu + after.cpu) / (count(before) + count(after));
  to.cpu.push_back((during.cpu - count(during) * push_cpu) / snapshots_begun);
  to.longest_alone.push_back(Quantile(before.seconds, 1));
  to.longest_beside.push_back(Quantile(during.seconds, 1));
  add(to.quiet, before);
  add(to.quiet, after);
  add(to.busy, during);
}

void Train(Bench& bench, Exchanger& worker, int ps, double seconds, int rounds) {
  Rounds measured;
  PushFor(worker, ps, 0.2);
  for (int i = 0; i < rounds; ++i) MeasureRound(bench, worker, ps, seconds, measured);
  const auto line = [](const char* what, const std::vector<double>& rates, const Pushes& pushes) {
    std::printf(
        "  %-38s %7.1f/s (%.1f - %.1f)  push p50 %6.2f  p99 %6.2f  p99.9 %6.2f  longest %6.2f ms\n",
        what, Quantile(rates, 0.5), Quantile(rates, 0.25), Quantile(rates, 0.75),
        Quantile(pushes.seconds, 0.5) * 1e3, Quantile(pushes.seconds, 0.99) * 1e3,
        Quantile(pushes.seconds, 0.999) * 1e3, Quantile(pushes.seconds, 1) * 1e3);
  };
  line("pushes alone", measured.alone, measured.quiet);
  line("pushes, one checkpoint after another", measured.beside, measured.busy);
  const std::vector<double>& lost = measured.lost;
  std::printf(
      "  a checkpoint beside pushes %.0f ms; it costs %.0f ms of training (%.0f - %.0f) and %.0f "
      "ms "
      "of the ps' processor time, copies of written blocks included\n",
      Quantile(measured.snapshots, 0.5) * 1e3, Quantile(lost, 0.5) * 1e3,
      Quantile(lost, 0.25) * 1e3, Quantile(lost, 0.75) * 1e3, Quantile(measured.cpu, 0.5) * 1e3);
  PrintGoal("slower at a checkpoint each 30 s", Quantile(lost, 0.5) / 30 * 100, Bound::kAtMost, 1,
            "%");
  // Both numbers include pauses by other programs.
  const double longer =
      Quantile(measured.longest_beside, 0.5) - Quantile(measured.longest_alone, 0.5);
  PrintGoal("longest push of a round (median), over that without checkpoints", longer * 1e3,
            Bound::kAtMost, 5, "ms");
}

// Measures writing and restoring without pushes, in turns.
void WriteAndRestore(Bench& bench, int ps, int rounds) {
  std::vector<double> raw_write;
  std::vector<double> write;
  std::vector<double> raw_read;
  std::vector<double> restore;
  std::vector<double> restore_cached;
  std::vector<double> write_cpu;
  std::vector<double> restore_cpu;
  double gb = 0;
  for (int i = 0; i < rounds; ++i) {
    double begin = Seconds();
    double cpu = CpuSecondsOf(ps);
    const SnapshotReply written = bench.Snapshot();
    write.push_back(Seconds() - begin);
    write_cpu.push_back(CpuSecondsOf(ps) - cpu);
    gb = static_cast<double>(written.bytes()) / 1e9;
    const std::string raw = bench.dir + "/raw";
    raw_write.push_back(RawWrite(raw, written.bytes()));
    Evict(raw);
    raw_read.push_back(RawRead(raw));
    const std::string name =
        CommitSnapshot(bench.job, bench.fence, bench.dir, bench.round, written);
    const std::string directory = bench.dir + "/checkpoints/" + name;
    Evict(directory + "/" + written.file());
    for (std::vector<double>* times : {&restore, &restore_cached}) {
      begin = Seconds();
      cpu = CpuSecondsOf(ps);
      bench.fence = LoadPs(bench.link, bench.job, bench.fence.generation() + 1, name);
      times->push_back(Seconds() - begin);
    }
    restore_cpu.push_back(CpuSecondsOf(ps) - cpu);
    std::filesystem::remove_all(directory);
  }
  const auto line = [gb](const char* what, const std::vector<double>& seconds) {
    std::printf("  %-38s %6.2f GB/s (%.2f - %.2f)  %6.0f ms\n", what, gb / Quantile(seconds, 0.5),
                gb / Quantile(seconds, 0.75), gb / Quantile(seconds, 0.25),
                Quantile(seconds, 0.5) * 1e3);
  };
  line("raw writes, synced", raw_write);
  line("checkpoint, synced", write);
  line("raw reads from the disk", raw_read);
  line("restore from the disk, verified", restore);
  line("restore from the page cache, verified", restore_cached);
  std::printf("  processor time of the ps: checkpoint %.0f ms, restore from the cache %.0f ms\n",
              Quantile(write_cpu, 0.5) * 1e3, Quantile(restore_cpu, 0.5) * 1e3);
  PrintGoal("checkpoint beside raw writes", Quantile(raw_write, 0.5) / Quantile(write, 0.5) * 100,
            Bound::kAtLeast, 80, "%");
  PrintGoal("restore from the page cache", gb / Quantile(restore_cached, 0.5), Bound::kAtLeast, 1,
            "GB/s");
}

int Main(int argc, char** argv) {
  int64_t mb = 80;
  int64_t seconds = 2;
  int64_t rounds = 5;
  std::string where;
  std::string optimizer = "adam";
  Flags flags("bench_checkpoint", "Trains with and without checkpoints.");
  flags.Integer("mb", "N", "megabytes that the ps holds, optimizer state included", 1, 8000, &mb);
  flags.String("optimizer", "NAME", "sgd or adam", &optimizer);
  flags.String("dir", "DIR", "on the disk to write to; default: the temporary directory", &where);
  flags.Integer("seconds", "N", "of pushing, each way", 0, 600, &seconds);
  flags.Integer("rounds", "N", "repetitions", 1, 1000, &rounds);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  const TempDir temp(where);
  const std::string address = absl::StrCat("unix:", temp.path(), "/ps");
  const std::unique_ptr<Child> ps = StartPs(
      address, temp.path(), std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  PsJob job;
  job.optimizer = optimizer;
  job.partitions = 8;
  job.partition_bytes = static_cast<uint64_t>(mb) * 1000000 / (optimizer == "adam" ? 3 : 1) / 8;
  job.partition_bytes -= job.partition_bytes % sizeof(float);
  {
    Daemon daemon;
    GrpcNetwork sockets;
    const std::unique_ptr<Link> control = sockets.Dial(address);
    Bench bench{*control, job, temp.path(), LoadPs(*control, job, 1)};
    std::printf("\na ps that holds %ld MB (%s), exchanges of %.1f MB each way (%ld rounds)\n", mb,
                optimizer.c_str(), static_cast<double>(8 * job.partition_bytes) / 1e6, rounds);
    {
      const std::unique_ptr<Link> shared =
          daemon.environment().network.DialBoot(address, bench.fence.boot_id());
      Exchanger worker(*shared, bench.fence, job, 0);
      Train(bench, worker, ps->pid(), std::max(0.2, static_cast<double>(seconds)),
            static_cast<int>(rounds));
    }
    WriteAndRestore(bench, ps->pid(), static_cast<int>(rounds));
  }
  std::fflush(stdout);
  std::filesystem::remove_all(temp.path());
  LeaveProcess(0);
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
