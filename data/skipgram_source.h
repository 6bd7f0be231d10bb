// The reader of text as pairs for skip-gram with negative sampling (Mikolov et al., 2013): format
// "text" with the key "skipgram". A record is a word of the text, a word near it, and some drawn at
// random, which the model shall tell from the near one.
//
// Which words of the text take part in an epoch, which near one a record has and which are drawn is
// a pure function of the epoch's key (which follows from the job's seed) and the record. A word
// that makes up more than the share `subsample` of the text is left out more often the more
// frequent it is, before near words are counted. Every word that is left has window + 1 records, as
// many as there are pairs on average where the width of each word's window is drawn from 1 to
// `window`, and a near word is drawn as often as it lies within such a window.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenSkipgram(Files& files, const DataSpec& spec);

}  // namespace paracord
