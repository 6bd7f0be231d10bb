#include "coordinator/event_file.h"

#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "proto/tensorboard.pb.h"
#include "storage/tf_record_writer.h"

namespace paracord {
namespace {

tensorboard::Event EventAt(int64_t unix_ms, int64_t step) {
  tensorboard::Event event;
  event.set_wall_time(static_cast<double>(unix_ms) / 1000);
  event.set_step(step);
  return event;
}

}  // namespace

EventFile::EventFile(Files& files, std::string directory, uint64_t generation)
    : files_(files), directory_(std::move(directory)), generation_(generation) {}

absl::StatusOr<std::unique_ptr<WriteFile>> EventFile::Begin(int64_t unix_ms, int64_t first_step) {
  // Readers sort the files of a directory by name.
  path_ = absl::StrFormat("%s/events.out.tfevents.%010d.%d.%d", directory_, unix_ms / 1000,
                          generation_, begun_++);
  RETURN_IF_ERROR(files_.MakeDirectories(directory_));
  ASSIGN_OR_RETURN(std::unique_ptr<WriteFile> file, files_.Create(path_));
  TfRecordWriter writer(*file);
  tensorboard::Event version = EventAt(unix_ms, 0);
  version.set_file_version("brain.Event:2");
  RETURN_IF_ERROR(writer.Append(version.SerializeAsString()));
  tensorboard::Event start = EventAt(unix_ms, first_step);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  RETURN_IF_ERROR(writer.Append(start.SerializeAsString()));
  return file;
}

absl::Status EventFile::Write(int64_t unix_ms, const std::vector<Chart>& charts) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WriteFile> file,
                   sound_ ? files_.OpenToAppend(path_) : Begin(unix_ms, charts.front().step));
  TfRecordWriter writer(*file);
  for (const Chart& chart : charts) {
    tensorboard::Event event = EventAt(unix_ms, chart.step);
    for (const auto& [tag, value] : chart.values) {
      tensorboard::Summary::Value& added = *event.mutable_summary()->add_value();
      added.set_tag(tag);
      added.set_simple_value(static_cast<float>(value));
    }
    RETURN_IF_ERROR(writer.Append(event.SerializeAsString()));
  }
  return absl::OkStatus();
}

absl::Status EventFile::Append(int64_t unix_ms, const std::vector<Chart>& charts) {
  if (charts.empty()) return absl::OkStatus();
  const bool begins = !sound_;
  absl::Status status = Write(unix_ms, charts);
  sound_ = status.ok();
  // Removes the torn file, so that retries on a full disk do not pile up.
  if (!sound_ && begins) files_.RemoveTree(path_).IgnoreError();
  return status;
}

}  // namespace paracord
