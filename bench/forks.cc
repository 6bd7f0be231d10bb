#include "forks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "daemon/daemon_process.h"
#include "measure.h"

namespace paracord::bench {

void WriteTo(int pipe, const void* data, size_t bytes) {
  if (write(pipe, data, bytes) != static_cast<ssize_t>(bytes)) Fail("a pipe broke");
}

bool ReadFrom(int pipe, void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = read(pipe, static_cast<char*>(data) + done, bytes - done);
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

Fork::Fork(const std::function<void(int out, int go)>& child) {
  int out[2];
  int go[2];
  if (pipe(out) != 0 || pipe(go) != 0) Fail("pipe");
  std::fflush(stdout);
  pid_ = fork();
  if (pid_ < 0) Fail("cannot fork");
  if (pid_ == 0) {
    close(out[0]);
    close(go[1]);
    child(out[1], go[0]);
    LeaveProcess(0);
  }
  close(out[1]);
  close(go[0]);
  from_ = out[0];
  to_ = go[1];
}

Fork::~Fork() {
  close(from_);
  close(to_);
  waitpid(pid_, nullptr, 0);
}

ForkedPs::ForkedPs(const PsJob& job, const std::string& link, uint32_t count, int threads_of_each)
    : link_(link), places_(count) {
  for (uint32_t i = 0; i < count; ++i) {
    const std::string dir = absl::StrCat(directory_.path(), "/", i);
    std::filesystem::create_directory(dir);
    places_[i].address = link == "tcp" ? FreeTcpAddress() : absl::StrCat("unix:", dir, "/ps");
    daemons_.push_back(StartPs(places_[i].address, dir, threads_of_each));
  }
  const Fork loader([&](int out, int) {
    for (const Place& place : places_) {
      const std::string text =
          LoadPs(*GrpcNetwork().Dial(place.address), job, 1).SerializeAsString();
      const uint64_t size = text.size();
      WriteTo(out, &size, sizeof(size));
      WriteTo(out, text.data(), size);
    }
  });
  for (Place& place : places_) {
    uint64_t size = 0;
    if (!ReadFrom(loader.from(), &size, sizeof(size))) Fail("cannot load a ps");
    std::string text(size, '\0');
    if (!ReadFrom(loader.from(), text.data(), size)) Fail("cannot load a ps");
    fence_.ParseFromString(text);
    place.boot_id = fence_.boot_id();
  }
}

std::unique_ptr<Link> ForkedPs::Dial(Network& network, size_t i) const {
  const Place& place = places_[i];
  return link_ == "shared" ? network.DialBoot(place.address, place.boot_id)
                           : GrpcNetwork().DialBoot(place.address, place.boot_id);
}

Fence ForkedPs::FenceOf(size_t i) const {
  Fence fence = fence_;
  fence.set_boot_id(places_[i].boot_id);
  return fence;
}

double ForkedPs::CpuSeconds() const {
  double seconds = 0;
  for (const auto& daemon : daemons_) seconds += CpuSecondsOf(daemon->pid());
  return seconds;
}

}  // namespace paracord::bench
