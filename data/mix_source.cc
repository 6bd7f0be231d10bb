#include "data/mix_source.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr double kTotalMax = 281474976710656;  // 2^48
constexpr double kRounding = 1e-6;             // tolerance of a count against rounding in divisions

// a * b / c, rounded down.
uint64_t MulDiv(uint64_t a, uint64_t b, uint64_t c) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b / c);
}

bool Alike(const std::vector<Column>& a, const std::vector<Column>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Column& x, const Column& y) {
    return x.name == y.name && x.shape == y.shape && x.text == y.text;
  });
}

size_t ElementsOf(const Column& column) {
  return std::accumulate(column.shape.begin(), column.shape.end(), size_t{1}, std::multiplies<>());
}

class MixSource : public DataSource {
 public:
  MixSource(std::vector<WeightedSource> sources, MixOrder order)
      : sources_(std::move(sources)), order_(std::move(order)) {
    fingerprint_ = "mix";
    for (size_t i = 0; i < sources_.size(); ++i) {
      absl::StrAppend(&fingerprint_, ":", order_.counts()[i], "*(",
                      sources_[i].source->fingerprint(), ")");
    }
  }

  uint64_t records() const override { return order_.total(); }
  std::string fingerprint() const override { return fingerprint_; }
  const Batch& schema() const override { return sources_[0].source->schema(); }
  std::string Where(uint64_t record) const override {
    const MixOrder::Place place = order_.At(record);
    const DataSource& source = *sources_[place.source].source;
    return source.Where(place.index % source.records());
  }
  std::vector<std::string> Warnings() const override {
    std::vector<std::string> all;
    for (size_t i = 0; i < sources_.size(); ++i) {
      for (const std::string& line : sources_[i].source->Warnings()) {
        all.push_back(absl::StrCat("mix[", i, "]: ", line));
      }
    }
    return all;
  }
  std::string Describe() const override {
    std::string text = "of";
    for (size_t i = 0; i < sources_.size(); ++i) {
      absl::StrAppend(&text, i == 0 ? " " : " + ", order_.counts()[i]);
    }
    return text;
  }

  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    return ReadBySource(records, batch,
                        [](const DataSource& source, std::span<const uint64_t> some,
                           uint64_t /*repeat*/, Batch& to) { return source.Read(some, to); });
  }
  // A record repeated within an epoch gets different random transformations.
  absl::Status ReadForTraining(std::span<const uint64_t> records, uint64_t epoch_key,
                               Batch& batch) const override {
    return ReadBySource(
        records, batch,
        [&](const DataSource& source, std::span<const uint64_t> some, uint64_t repeat, Batch& to) {
          return source.ReadForTraining(some, Mix64(epoch_key, repeat), to);
        });
  }

 private:
  struct Group {
    std::vector<uint64_t> records;  // records of a single source
    std::vector<size_t> places;     // in the batch
  };

  template <class ReadOne>
  absl::Status ReadBySource(std::span<const uint64_t> records, Batch& batch,
                            const ReadOne& read) const {
    std::map<std::pair<size_t, uint64_t>, Group> groups;  // keyed by source and repetition
    for (size_t i = 0; i < records.size(); ++i) {
      if (records[i] >= this->records()) {
        return absl::OutOfRangeError(
            absl::StrCat("record ", records[i], ": there are only ", this->records(), " records"));
      }
      const MixOrder::Place place = order_.At(records[i]);
      const uint64_t size = sources_[place.source].source->records();
      Group& group = groups[{place.source, place.index / size}];
      group.records.push_back(place.index % size);
      group.places.push_back(i);
    }
    batch.examples = static_cast<uint32_t>(records.size());
    batch.source = this;
    batch.records.assign(records.begin(), records.end());
    Batch of_one;
    for (Column& column : batch.inputs) column.exact.clear();
    for (const auto& [key, group] : groups) {
      RETURN_IF_ERROR(read(*sources_[key.first].source, group.records, key.second, of_one));
      Scatter(of_one.inputs, group.places, records.size(), batch.inputs);
      Scatter(of_one.targets, group.places, records.size(), batch.targets);
      Scatter(of_one.weights, group.places, records.size(), batch.weights);
    }
    for (Column& column : batch.inputs) {
      std::ranges::sort(column.exact, {}, &ExactInteger::element);
    }
    return absl::OkStatus();
  }

  // Copies values or strings to their places. A column holds only one of the two; for the other,
  // `from` is empty, and `to` becomes empty.
  template <class T>
  static void ScatterOne(const std::vector<T>& from, const std::vector<size_t>& places,
                         size_t examples, size_t size, std::vector<T>& to) {
    to.resize(from.empty() ? 0 : examples * size);
    for (size_t j = 0; !from.empty() && j < places.size(); ++j) {
      std::copy_n(from.data() + j * size, size, to.data() + places[j] * size);
    }
  }

  static void Scatter(const std::vector<Column>& from, const std::vector<size_t>& places,
                      size_t examples, std::vector<Column>& to) {
    to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      const size_t size = ElementsOf(from[i]);
      to[i].name = from[i].name;
      to[i].shape = from[i].shape;
      to[i].text = from[i].text;
      ScatterOne(from[i].values, places, examples, size, to[i].values);
      ScatterOne(from[i].strings, places, examples, size, to[i].strings);
      for (const ExactInteger& each : from[i].exact) {
        const size_t element = places[each.element / size] * size + each.element % size;
        to[i].exact.push_back({element, each.value});
      }
    }
  }

  const std::vector<WeightedSource> sources_;
  const MixOrder order_;
  std::string fingerprint_;
};

}  // namespace

absl::StatusOr<MixOrder> MixOrder::Make(const std::vector<uint64_t>& records,
                                        const std::vector<double>& weights) {
  double epoch = 0;  // records for each unit of weight
  for (size_t i = 0; i < records.size(); ++i) {
    epoch = std::max(epoch, static_cast<double>(records[i]) / weights[i]);
  }
  MixOrder order;
  double total = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const double count = std::ceil(epoch * weights[i] - kRounding);
    total += count;
    if (!(total <= kTotalMax)) {
      return absl::InvalidArgumentError(
          "mix: the weights are so far apart that an epoch were longer than 2^48 records");
    }
    order.counts_.push_back(std::max(records[i], static_cast<uint64_t>(count)));
    order.total_ += order.counts_.back();
  }
  return order;
}

MixOrder::Place MixOrder::At(uint64_t record) const {
  // The first source takes every (total / count)-th place; the others recursively share the rest.
  uint64_t left = total_;
  for (size_t source = 0; source + 1 < counts_.size(); ++source) {
    const uint64_t count = counts_[source];
    const uint64_t before = MulDiv(record, count, left);
    if (MulDiv(record + 1, count, left) > before) return {source, before};
    record -= before;
    left -= count;
  }
  return {counts_.size() - 1, record};
}

absl::StatusOr<std::unique_ptr<DataSource>> MakeMix(std::vector<WeightedSource> sources) {
  std::vector<uint64_t> records;
  std::vector<double> weights;
  const Batch& first = sources[0].source->schema();
  for (size_t i = 0; i < sources.size(); ++i) {
    const Batch& schema = sources[i].source->schema();
    if (!Alike(schema.inputs, first.inputs) || !Alike(schema.targets, first.targets) ||
        !Alike(schema.weights, first.weights)) {
      return absl::InvalidArgumentError(
          absl::StrCat("mix[", i,
                       "]: its inputs, targets or weights have other names or shapes than those of "
                       "mix[0]"));
    }
    records.push_back(sources[i].source->records());
    weights.push_back(sources[i].weight);
  }
  ASSIGN_OR_RETURN(MixOrder order, MixOrder::Make(records, weights));
  return std::make_unique<MixSource>(std::move(sources), std::move(order));
}

}  // namespace paracord
