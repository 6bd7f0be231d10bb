// How the text of rows in a request to `paracord predict --serve` is read: as a CSV with commas,
// double quotes and a header, whatever the dialect of the job's files. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "config/job.h"

namespace paracord {

class RequestRows {
 public:
  // Takes the job's description of csv data with a header, without one, or with names in the job.
  explicit RequestRows(DataSpec files);

  // Returns the description of a request's text. Where the job's files have columns without names,
  // their numbers are those in the request's header, if it has numbers alone, or else count the
  // request's columns from 0.
  const DataSpec& Of(std::string_view text) const;

 private:
  DataSpec rows_;
  std::optional<DataSpec> numbered_;  // for headers of numbers; the columns' names are numbers
};

}  // namespace paracord
