#include "data/packed_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

// Fills `block`, or its beginning at the end of the stream. Returns the number of bytes.
absl::StatusOr<size_t> FillBlock(ByteStream& stream, std::span<char> block) {
  size_t filled = 0;
  while (filled < block.size()) {
    ASSIGN_OR_RETURN(const size_t got, stream.ReadSome(block.subspan(filled)));
    if (got == 0) break;
    filled += got;
  }
  return filled;
}

// Returns a new entry, in place of the one used longest ago if there are `max`.
template <class Entry>
Entry& NewEntry(std::vector<Entry>& entries, size_t max) {
  if (entries.size() < max) return entries.emplace_back();
  Entry& oldest = *std::ranges::min_element(entries, {}, &Entry::used);
  oldest = Entry();
  return oldest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReadFile>> PackedFile::Open(std::unique_ptr<ByteStream> start,
                                                           const PackedFileSizes& sizes) {
  std::unique_ptr<PackedFile> file(new PackedFile(sizes));
  file->path_ = start->path();
  RETURN_IF_ERROR(file->NoteStates(std::move(start)));
  return file;
}

absl::Status PackedFile::NoteStates(std::unique_ptr<ByteStream> start) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream, start->Fork());
  states_.push_back(std::move(start));
  std::string block(sizes_.block, '\0');
  while (true) {
    ASSIGN_OR_RETURN(const size_t got, FillBlock(*stream, block));
    size_ += got;
    if (got < block.size()) return absl::OkStatus();
    if (size_ % every_ != 0) continue;
    if (states_.size() == sizes_.states_max) {
      for (size_t i = 0; 2 * i < states_.size(); ++i) states_[i] = std::move(states_[2 * i]);
      states_.resize((states_.size() + 1) / 2);
      every_ *= 2;
      if (size_ % every_ != 0) continue;
    }
    ASSIGN_OR_RETURN(states_.emplace_back(), stream->Fork());
  }
}

absl::StatusOr<ByteStream*> PackedFile::ReaderFor(uint64_t offset) const {
  const ByteStream& state = *states_[std::min<uint64_t>(offset / every_, states_.size() - 1)];
  Reader* best = nullptr;
  for (Reader& reader : readers_) {
    const uint64_t at = reader.stream->position();
    if (at > offset || at < state.position()) continue;
    if (best == nullptr || at > best->stream->position()) best = &reader;
  }
  if (best == nullptr) {
    ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, state.Fork());
    best = &NewEntry(readers_, sizes_.readers_max);
    best->stream = std::move(stream);
  }
  best->used = ++uses_;
  return best->stream.get();
}

absl::StatusOr<const PackedFile::Block*> PackedFile::BlockOf(uint64_t number) const {
  const auto known = std::ranges::find(blocks_, number, &Block::number);
  if (known != blocks_.end()) {
    known->used = ++uses_;
    return &*known;
  }
  const uint64_t begin = number * sizes_.block;
  ASSIGN_OR_RETURN(ByteStream* const stream, ReaderFor(begin));
  std::string bytes(sizes_.block, '\0');
  size_t got = bytes.size();
  while (stream->position() < begin && got == bytes.size()) {
    ASSIGN_OR_RETURN(got, FillBlock(*stream, bytes));
  }
  if (got == bytes.size()) {
    ASSIGN_OR_RETURN(got, FillBlock(*stream, bytes));
  }
  if (got != std::min<uint64_t>(bytes.size(), size_ - begin) || stream->position() != begin + got) {
    return absl::DataLossError(absl::StrCat(path_, ": the file has changed"));
  }
  bytes.resize(got);
  Block& block = NewEntry(blocks_, sizes_.blocks_max);
  block = {number, std::move(bytes), ++uses_};
  return &block;
}

absl::Status PackedFile::ReadAt(uint64_t offset, std::span<char> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": ends before byte ", offset + out.size()));
  }
  const MutexLock lock(mu_);
  while (!out.empty()) {
    ASSIGN_OR_RETURN(const Block* const block, BlockOf(offset / sizes_.block));
    const std::string_view from = std::string_view(block->bytes).substr(offset % sizes_.block);
    const size_t count = std::min(out.size(), from.size());
    std::copy_n(from.begin(), count, out.begin());
    offset += count;
    out = out.subspan(count);
  }
  return absl::OkStatus();
}

}  // namespace paracord
