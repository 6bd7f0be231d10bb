// Reads text as examples of skip-gram with negative sampling (Mikolov et al., 2013): the format
// "text" with the key "skipgram". A record is a word of the text, a near word, and some random
// words. The model learns to tell the near word from the random words.
//
// Which words of the text take part in an epoch, and each record's near and random words, are a
// pure function of the record and the epoch's key, which is derived from the job's seed. A word
// whose share of the text exceeds `subsample` is left out at some of its places, the more of them
// the more frequent it is; what is near is counted in the rest. Each word of the rest has window +
// 1 records on average: as many as it has near words if the width of its window is drawn from 1 to
// `window`. A near word is drawn as often as it would lie in such a window.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

absl::StatusOr<std::unique_ptr<DataSource>> OpenSkipgram(Files& files, const DataSpec& spec);

}  // namespace paracord
