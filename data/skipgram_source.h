// Reads text as pairs for skip-gram with negative sampling (Mikolov et al., 2013): format "text"
// with the key "skipgram". A record is a word of the text, a near word, and some random words; the
// model learns to tell the near word from the random ones.
//
// Which words of the text take part in an epoch, and each record's near and random words, are a
// pure function of the epoch's key (derived from the job's seed) and the record. Words with a share
// of the text beyond `subsample` are left out more often the more frequent they are, before near
// words are counted. Every remaining word has window + 1 records, the average number of pairs when
// each word's window width is drawn from 1 to `window`; a near word is drawn as often as it lies in
// a window.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenSkipgram(Files& files, const DataSpec& spec);

}  // namespace paracord
