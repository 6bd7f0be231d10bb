// Reads the TFRecord container, described in storage/tf_record_writer.h. Verifies both checksums of
// every record read. The whole file may be compressed as gzip or zlib.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "data/data_source.h"
#include "data/record_index.h"

namespace paracord {

class TfRecordCutter : public RecordCutter {
 public:
  // After Forgive, Skip passes over a record whose data has a wrong checksum.
  absl::StatusOr<bool> Skip(FileCursor& cursor) const override;
  void Forgive() { forgives_ = true; }
  // Reads the data of the next record, valid until the cursor's next use. Returns false at the end.
  absl::StatusOr<bool> Next(FileCursor& cursor, std::string_view& data) const;

 private:
  bool forgives_ = false;
};

// Opens a file: plain, gzip or zlib (TensorFlow's two compressions), recognised by the first bytes.
// `unpacking` need not say zlib.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenRecordFile(Files& files, const std::string& path,
                                                         Unpacking unpacking);

// The reader of TFRecord files with tf.train.Example as records: an entry of the table in
// data_source.cc. Keys: files, features, label, weight.
absl::StatusOr<std::unique_ptr<DataSource>> OpenTfRecord(Files& files, const DataSpec& spec);

}  // namespace paracord
