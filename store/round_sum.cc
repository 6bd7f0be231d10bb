#include "store/round_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "common/parallel.h"
#include "store/block.h"

namespace paracord {
namespace {

// Calls body(first, count) for the parts of an array, in parallel.
template <class Body>
void InArrayParts(uint64_t elements, const Body& body) {
  ParallelFor((elements + kPartElements - 1) / kPartElements, [&](size_t part) {
    const uint64_t first = part * kPartElements;
    body(first, std::min(kPartElements, elements - first));
  });
}

// Calls use(place, floats) for all elements of a gradient, some at a time, in parallel. A place has
// as many elements of `out`, into which they may be decoded.
template <class Use>
void ReadInto(const Gradient& gradient, std::span<float> out, bool decode, const Use& use) {
  InArrayParts(out.size(), [&](uint64_t first, uint64_t count) {
    Gradient::Reader reader(gradient, first, count);
    alignas(64) std::array<float, kFloatsAtOnce> buffer;
    for (uint64_t at = first; at < first + count; at += kFloatsAtOnce) {
      const size_t some = std::min<uint64_t>(kFloatsAtOnce, first + count - at);
      const std::span<float> place = out.subspan(at, some);
      use(place, reader.Next(decode ? place : std::span(buffer).first(some)));
    }
  });
}

void CopyAll(const Gradient& gradient, std::span<float> out) {
  ReadInto(gradient, out, /*decode=*/true, [](std::span<float> to, std::span<const float> from) {
    if (from.data() != to.data()) std::ranges::copy(from, to.begin());
  });
}

void AddAll(const Gradient& gradient, std::span<float> sum) {
  ReadInto(gradient, sum, /*decode=*/false, AddTo);
}

}  // namespace

void RoundSum::Begin(uint32_t lanes) {
  for (Node& node : nodes_) {
    if (node.sum == nullptr) continue;
    if (mean_.rows.has_value()) node.sum->rows.ids = *std::move(mean_.rows);
    spare_.push_back(std::move(node.sum));
    mean_.rows.reset();
  }
  mean_ = {};
  only_ = nullptr;
  lanes_ = lanes;
  examples_ = 0;
  taken_ = 0;
  has_.assign(lanes, false);
  rejected_.assign(lanes, false);
  nodes_.clear();
  nodes_.resize(2 * size_t{std::bit_ceil(lanes)});
  SayWhatIsWanted();
}

bool RoundSum::IsWhole(size_t node) const {
  const auto depth = std::bit_width(node);
  const auto height = std::bit_width(nodes_.size()) - 1 - depth;
  const size_t first = (node << height) - nodes_.size() / 2;
  return first >= lanes_ || nodes_[node].whole;
}

void RoundSum::BeginGeneration(uint64_t generation) {
  if (generation <= generation_) return;
  generation_ = generation;
  if (taken_ > 0) Begin(lanes_);
}

RoundSum::LaneOutcome RoundSum::Take(uint64_t generation, const LaneRun& run,
                                     const PartitionUpdate& update,
                                     std::unique_ptr<Buffer>& fresh) {
  BeginGeneration(generation);
  uint32_t had = 0;
  for (uint32_t i = 0; i < run.count; ++i) had += has_[run.first + i] ? 1 : 0;
  if (had > 0) return had == run.count ? LaneOutcome::kAlready : LaneOutcome::kPartly;
  for (uint32_t i = 0; i < run.count; ++i) has_[run.first + i] = true;
  rejected_[run.first] = run.rejected;
  taken_ += run.count;
  if (!run.rejected) examples_ += run.examples;
  AddToTree(run, run.rejected || update.none() ? nullptr : &update, fresh);
  if (fresh != nullptr && buffers_ < BuffersMax(lanes_)) {
    spare_.push_back(std::move(fresh));
    ++buffers_;
  }
  SayWhatIsWanted();
  return taken_ == lanes_ ? LaneOutcome::kWhole : LaneOutcome::kTaken;
}

// Goes up from the run's node as long as siblings are whole. What it carries is the update, or from
// the first sum on a buffer.
void RoundSum::AddToTree(const LaneRun& run, const PartitionUpdate* update,
                         std::unique_ptr<Buffer>& fresh) {
  std::unique_ptr<Buffer> sum;
  size_t node = (nodes_.size() / 2 + run.first) / run.count;
  for (; node > 1 && IsWhole(node ^ 1); node /= 2) {
    std::unique_ptr<Buffer> sibling = std::move(nodes_[node ^ 1].sum);
    if (sibling == nullptr) continue;
    if (sum != nullptr) {
      Add(*sum, *sibling);
      spare_.push_back(std::move(sum));
    } else if (update != nullptr) {
      Add(*std::exchange(update, nullptr), *sibling);
    }
    sum = std::move(sibling);
  }
  nodes_[node].whole = true;
  if (update != nullptr && node == 1) {
    only_ = update;
  } else if (update != nullptr) {
    sum = TakeBuffer(fresh);
    Decode(*update, *sum);
  }
  nodes_[node].sum = std::move(sum);
}

const PartitionUpdate& RoundSum::Mean() {
  if (only_ != nullptr && MeanFactor(batch_, examples_) == 1) return *only_;
  return HeldMean();
}

const PartitionUpdate& RoundSum::HeldMean() {
  Node& root = nodes_[1];
  if (!mean_.none() || (only_ == nullptr && root.sum == nullptr)) return mean_;
  if (only_ != nullptr) {
    std::unique_ptr<Buffer> none;
    root.sum = TakeBuffer(none);
    Decode(*std::exchange(only_, nullptr), *root.sum);
  }
  Scale(MeanFactor(batch_, examples_));
  std::vector<float>& values = root.sum->rows.values;
  mean_.gradient = Gradient::Over(values);
  if (!root.sum->all) mean_.rows = std::move(root.sum->rows.ids);
  return mean_;
}

void RoundSum::Scale(float factor) {
  if (factor == 1 || nodes_[1].sum == nullptr) return;
  std::vector<float>& values = nodes_[1].sum->rows.values;
  InArrayParts(values.size(), [&](uint64_t first, uint64_t count) {
    MultiplyBy(factor, std::span(values).subspan(first, count));
  });
}

void RoundSum::Decode(const PartitionUpdate& update, Buffer& buffer) {
  buffer.all = !update.rows.has_value();
  std::vector<float>& values = buffer.rows.values;
  values.resize(update.gradient.elements());
  CopyAll(update.gradient, values);
  buffer.rows.ids.clear();
  if (!buffer.all) buffer.rows.ids = *update.rows;
}

void RoundSum::Add(const PartitionUpdate& update, Buffer& sum) {
  const bool all = !update.rows.has_value();
  if (all && sum.all) return AddAll(update.gradient, sum.rows.values);
  std::span<const float> values = update.gradient.Flat();
  if (values.empty()) {
    decoded_.resize(update.gradient.elements());
    CopyAll(update.gradient, decoded_);
    values = decoded_;
  }
  AddFlat(all, all ? std::span<const uint64_t>() : std::span<const uint64_t>(*update.rows), values,
          sum);
}

void RoundSum::Add(const Buffer& other, Buffer& sum) const {
  AddFlat(other.all, other.rows.ids, other.rows.values, sum);
}

void RoundSum::AddFlat(bool all, std::span<const uint64_t> ids, std::span<const float> values,
                       Buffer& sum) const {
  SummedRows& rows = sum.rows;
  if (all && sum.all) {
    InArrayParts(values.size(), [&](uint64_t first, uint64_t count) {
      AddTo(std::span(rows.values).subspan(first, count), values.subspan(first, count));
    });
  } else if (all) {
    std::vector<float> whole(values.begin(), values.end());
    AddRowsToAll(rows.ids, rows.values, shape_.row_elements, shape_.first_row, whole);
    rows = {{}, std::move(whole)};
    sum.all = true;
  } else if (sum.all) {
    AddRowsToAll(ids, values, shape_.row_elements, shape_.first_row, rows.values);
  } else {
    AddRows(ids, values, shape_.row_elements, rows);
  }
}

std::unique_ptr<RoundSum::Buffer> RoundSum::MakeBuffer() const {
  auto buffer = std::make_unique<Buffer>();
  buffer->rows.values.resize(shape_.elements);
  return buffer;
}

std::unique_ptr<RoundSum::Buffer> RoundSum::TakeBuffer(std::unique_ptr<Buffer>& fresh) {
  if (spare_.empty()) {
    ++buffers_;
    return fresh != nullptr ? std::move(fresh) : std::make_unique<Buffer>();
  }
  std::unique_ptr<Buffer> buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void RoundSum::SayWhatIsWanted() {
  wants_buffer_ =
      shape_.row_elements == 0 && lanes_ > 1 && spare_.empty() && buffers_ < BuffersMax(lanes_);
}

std::vector<uint32_t> RoundSum::Missing(size_t most) const {
  std::vector<uint32_t> missing;
  for (uint32_t lane = 0; lane < lanes_ && missing.size() < most; ++lane) {
    if (!has_[lane]) missing.push_back(lane);
  }
  return missing;
}

void RoundSum::ReleaseSpare() {
  buffers_ -= spare_.size();
  spare_.clear();
  decoded_ = std::vector<float>();
  SayWhatIsWanted();
}

uint64_t RoundSum::bytes() const {
  uint64_t bytes = decoded_.capacity() * sizeof(float);
  const auto add = [&](const Buffer* buffer) {
    if (buffer == nullptr) return;
    bytes += buffer->rows.values.capacity() * sizeof(float) +
             buffer->rows.ids.capacity() * sizeof(uint64_t);
  };
  for (const Node& node : nodes_) add(node.sum.get());
  for (const auto& buffer : spare_) add(buffer.get());
  return bytes;
}

}  // namespace paracord
