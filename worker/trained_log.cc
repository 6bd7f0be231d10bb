#include "worker/trained_log.h"

#include <algorithm>

#include "common/metric.h"
#include "common/status_text.h"
#include "config/data_plan.h"

namespace paracord {
namespace {

uint32_t EndOf(const TrainedBatches& batches) {
  return batches.first_batch() + static_cast<uint32_t>(batches.losses_size());
}

void AddMetrics(const std::vector<MetricState>& metrics, TrainedBatches& to) {
  while (static_cast<size_t>(to.metrics_size()) < metrics.size()) to.add_metrics();
  for (size_t m = 0; m < metrics.size(); ++m) {
    if (metrics[m].values_size() > TrainedLog::kMetricValuesMax) continue;
    if (metrics[m].values_size() > 0)
      MergeMetric(metrics[m], *to.mutable_metrics(static_cast<int>(m)));
  }
}

}  // namespace

void TrainedLog::Add(const DataPlan& plan, const BatchId& batch, const TrainedBatch& trained) {
  auto last = std::find_if(batches.rbegin(), batches.rend(), [&](const TrainedBatches& each) {
    return each.epoch() == batch.epoch() && each.split() == batch.split();
  });
  if (last == batches.rend() || EndOf(*last) != batch.batch()) {
    TrainedBatches& begun = batches.emplace_back();
    begun.set_epoch(batch.epoch());
    begun.set_split(batch.split());
    begun.set_first_batch(batch.batch());
    last = batches.rbegin();
  }
  // Numbers of examples are told where one of them is not the plan's.
  const uint32_t planned = BatchExamples(plan, batch.split(), batch.batch());
  if (trained.examples != planned && last->examples_size() == 0) {
    for (uint32_t b = last->first_batch(); b < batch.batch(); ++b) {
      last->add_examples(BatchExamples(plan, batch.split(), b));
    }
  }
  if (trained.examples != planned || last->examples_size() > 0)
    last->add_examples(trained.examples);
  last->add_losses(trained.loss);
  AddMetrics(trained.metrics, *last);
}

void BadRecordNames::Name(const std::vector<std::string>& left_out, TrainedLog& log) {
  for (const std::string& text : left_out) {
    if (named_.size() >= kNamesMax || !named_.insert(text).second) continue;
    log.bad_records.push_back(Sendable(text));
  }
}

}  // namespace paracord
