#include "coordinator/event_file.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "fakes.h"
#include "proto/tensorboard.pb.h"
#include "storage/tf_record_writer.h"

namespace paracord {
namespace {

using tensorboard::Event;

// Returns the events in a file. Fails the test if the container is damaged.
std::vector<Event> ReadEvents(const std::string& path) {
  PosixFiles files;
  const std::string bytes = files.ReadWhole(path).value();
  std::string_view rest = bytes;
  const auto take = [&](size_t size) {
    REQUIRE(rest.size() >= size);
    const std::string_view piece = rest.substr(0, size);
    rest.remove_prefix(size);
    return piece;
  };
  const auto check = [&](std::string_view data) {
    uint32_t crc = 0;
    std::memcpy(&crc, take(sizeof crc).data(), sizeof crc);
    CHECK(crc == MaskedCrc(data));
  };
  std::vector<Event> events;
  while (!rest.empty()) {
    const std::string_view head = take(8);
    check(head);
    uint64_t length = 0;
    std::memcpy(&length, head.data(), sizeof length);
    const std::string_view data = take(length);
    check(data);
    REQUIRE(events.emplace_back().ParseFromString(std::string(data)));
  }
  return events;
}

TEST_CASE("an event file is what TensorBoard reads: a version, a start, then charts by step") {
  const TestDirectory dir;
  PosixFiles files;
  EventFile file(files, dir / "tensorboard", 3);
  CHECK(absl::IsNotFound(files.List(dir / "tensorboard").status()));
  REQUIRE(file.Append(1700000000500, {{64, {{"train/loss", 0.5}, {"cluster/workers", 2}}}}).ok());
  REQUIRE(file.Append(1700000002500, {{128, {{"train/loss", 0.25}}}}).ok());
  const std::vector<std::string> names = files.List(dir / "tensorboard").value();
  REQUIRE(names == std::vector<std::string>{"events.out.tfevents.1700000000.3.0"});
  const std::vector<Event> events = ReadEvents(dir / "tensorboard/" + names[0]);
  REQUIRE(events.size() == 4);
  CHECK(events[0].file_version() == "brain.Event:2");
  CHECK(events[1].session_log().status() == tensorboard::SessionLog::START);
  CHECK(events[1].step() == 64);
  CHECK(events[2].step() == 64);
  CHECK(events[2].wall_time() == Approx(1700000000.5));
  REQUIRE(events[2].summary().value_size() == 2);
  CHECK(events[2].summary().value(0).tag() == "train/loss");
  CHECK(events[2].summary().value(0).simple_value() == 0.5f);
  CHECK(events[3].step() == 128);
}

// A disk on which writes fail while `full`, after half of the bytes.
class FullDisk : public PosixFiles {
 public:
  bool full = false;
  absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& path) override {
    return Watched(PosixFiles::Create(path));
  }
  absl::StatusOr<std::unique_ptr<WriteFile>> OpenToAppend(const std::string& path) override {
    return Watched(PosixFiles::OpenToAppend(path));
  }

 private:
  class File : public WriteFile {
   public:
    File(FullDisk& disk, std::unique_ptr<WriteFile> file) : disk_(disk), file_(std::move(file)) {}
    absl::Status Append(std::string_view bytes) override {
      if (!disk_.full) return file_->Append(bytes);
      (void)file_->Append(bytes.substr(0, bytes.size() / 2));
      return absl::ResourceExhaustedError("no space");
    }
    absl::Status Sync() override { return file_->Sync(); }

   private:
    FullDisk& disk_;
    std::unique_ptr<WriteFile> file_;
  };
  absl::StatusOr<std::unique_ptr<WriteFile>> Watched(
      absl::StatusOr<std::unique_ptr<WriteFile>> file) {
    if (!file.ok()) return file;
    return std::make_unique<File>(*this, *std::move(file));
  }
};

TEST_CASE("after an error charts go on in a file of their own") {
  const TestDirectory dir;
  FullDisk files;
  EventFile file(files, dir / "t", 1);
  REQUIRE(file.Append(1000, {{1, {{"a", 1}}}}).ok());
  files.full = true;
  CHECK(absl::IsResourceExhausted(file.Append(2000, {{2, {{"a", 2}}}})));
  CHECK_FALSE(file.Append(3000, {{3, {{"a", 3}}}}).ok());
  files.full = false;
  REQUIRE(file.Append(4000, {{4, {{"a", 4}}}}).ok());
  const std::vector<std::string> names = files.List(dir / "t").value();
  REQUIRE(names.size() == 2);
  const std::vector<Event> events = ReadEvents(dir / "t/" + names.back());
  REQUIRE(events.size() == 3);
  CHECK(events.back().step() == 4);
}

}  // namespace
}  // namespace paracord
