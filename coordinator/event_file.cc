#include "coordinator/event_file.h"

#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "common/tf_record_writer.h"
#include "proto/tensorboard.pb.h"

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

absl::Status EventFile::Open(int64_t unix_ms, int64_t first_step) {
  RETURN_IF_ERROR(files_.MakeDirectories(directory_));
  // Readers take the files of a directory in the order of their names.
  path_ = absl::StrFormat("%s/events.out.tfevents.%010d.%d.%d", directory_, unix_ms / 1000,
                          generation_, opened_++);
  ASSIGN_OR_RETURN(file_, files_.Create(path_));
  TfRecordWriter writer(*file_);
  tensorboard::Event version = EventAt(unix_ms, 0);
  version.set_file_version("brain.Event:2");
  RETURN_IF_ERROR(writer.Append(version.SerializeAsString()));
  tensorboard::Event start = EventAt(unix_ms, first_step);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  return writer.Append(start.SerializeAsString());
}

absl::Status EventFile::Append(int64_t unix_ms, const std::vector<Chart>& charts) {
  if (charts.empty()) return absl::OkStatus();
  absl::Status status;
  const bool opens = file_ == nullptr;
  if (opens) status = Open(unix_ms, charts.front().step);
  for (const Chart& chart : charts) {
    if (!status.ok()) break;
    tensorboard::Event event = EventAt(unix_ms, chart.step);
    for (const auto& [tag, value] : chart.values) {
      tensorboard::Summary::Value& added = *event.mutable_summary()->add_value();
      added.set_tag(tag);
      added.set_simple_value(static_cast<float>(value));
    }
    status = TfRecordWriter(*file_).Append(event.SerializeAsString());
  }
  if (status.ok()) return status;
  file_ = nullptr;
  if (opens) files_.RemoveTree(path_).IgnoreError();  // a full disk must not fill with stumps
  return status;
}

}  // namespace paracord
