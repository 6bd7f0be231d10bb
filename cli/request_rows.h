// How the text of rows in a request to `paracord predict --serve` is read: as CSV with commas,
// double quotes and a header, even if the job's files have another dialect. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "config/job.h"

namespace paracord {

class RequestRows {
 public:
  // Takes the description of the job's csv files, which may lack a header or name their columns in
  // the job.
  explicit RequestRows(DataSpec files);

  // Returns the description of the rows in a request's text. If columns of the job's files have
  // numbers in place of names, and all names in the request's header are numbers, columns are found
  // by these names. If not all are, a number counts the request's columns from 0.
  const DataSpec& Of(std::string_view text) const;

 private:
  DataSpec rows_;
  // For a header that is all numbers; nullopt: columns have names.
  std::optional<DataSpec> numbered_;
};

}  // namespace paracord
