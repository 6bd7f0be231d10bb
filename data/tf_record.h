// Reads files of TFRecords, whose format storage/tf_record_writer.h describes. Verifies both
// checksums of every record that is read. The whole file may be compressed as gzip or zlib.
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
  // Moves over a record. After Forgive, a wrong checksum of the record's data is no error.
  absl::StatusOr<bool> Skip(FileCursor& cursor) const override;
  void Forgive() { forgives_ = true; }
  // Reads the data of the next record, valid until the cursor is used. Returns false at the end of
  // the file.
  absl::StatusOr<bool> Next(FileCursor& cursor, std::string_view& data) const;

 private:
  bool forgives_ = false;
};

// Opens a plain, gzip or zlib file, as its first bytes say. `unpacking.zlib` need not be set.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenRecordFile(Files& files, const std::string& path,
                                                         Unpacking unpacking);

// The reader of TFRecord files whose records are tf.train.Example or tf.train.SequenceExample: an
// entry of the table in data_source.cc. Keys of the job: files, features, label, weight.
absl::StatusOr<std::unique_ptr<DataSource>> OpenTfRecord(Files& files, const DataSpec& spec);

}  // namespace paracord
