#include "cli/try_batch.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/finite.h"
#include "common/human_bytes.h"
#include "common/memory_budget.h"
#include "common/status_macros.h"
#include "common/steady_ms.h"
#include "config/partitions.h"
#include "data/batch_plan.h"
#include "store/block.h"
#include "store/initializer.h"

namespace paracord {
namespace {

using Values = std::vector<std::vector<float>>;

constexpr uint64_t kLeastBeside = MemoryBudget::kProgramBytes;

// Where a job's values come from before its first batch.
struct Begin {
  const Job& job;
  const InitialWeights* weights;
  std::span<const VariableSpec> variables;

  // Writes elements of a variable that is no growing table.
  absl::Status Fill(size_t v, uint64_t first, std::span<float> out) const {
    if (weights == nullptr || !weights->Has(v)) {
      return Initialize(variables[v], job.seed, first, out);
    }
    const Block block(out.size());
    RETURN_IF_ERROR(weights->Read(v, first, block));
    for (auto to = out.begin(); const ChunkRef& chunk : block.chunks()) {
      to = std::ranges::copy(chunk.values(), to).out;
    }
    return absl::OkStatus();
  }

  // Rows of a growing table that the file has are drawn all the same, which makes no error.
  absl::Status FillRows(size_t v, std::span<const uint64_t> ids, std::span<float> out) const {
    const uint64_t width = RowElements(variables[v]);
    RowInitializer drawn;
    if (IsGrowing(variables[v])) {
      ASSIGN_OR_RETURN(drawn, MakeRowInitializer(variables[v], job.seed));
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::span<float> row = out.subspan(i * width, width);
      if (drawn) {
        drawn(ids[i], row);
      } else {
        RETURN_IF_ERROR(Fill(v, ids[i] * width, row));
      }
    }
    return absl::OkStatus();
  }
};

// What the rows of a batch ask of each ps beside the limits on them (server/parameter_server.cc):
// with --memory-limit a request, in which an id takes a byte and 8 decoded at least, has half of
// what variables leave, and the rows of a reply three sixteenths.
std::string NeedsOfRows(const Begin& begin, const TableRows& rows, uint32_t ps) {
  const uint64_t element = begin.job.wire == "float32" ? 4 : 2;
  uint64_t ids = 0, request = 0, reply = 0;
  for (size_t v = 0; v < begin.variables.size(); ++v) {
    if (!begin.variables[v].has_table()) continue;
    const uint64_t of_table = rows.ids[v].size();
    const uint64_t values = of_table * RowElements(begin.variables[v]) * element;
    ids += of_table;
    // Pushed and pulled, and each id has two bytes in most tables and ten at most.
    request += 2 * of_table * (2 + sizeof(uint64_t)) + values;
    reply += values;
  }
  if (ids == 0) return "";
  request = request / ps + 1;
  reply = reply / ps + 1;
  const uint64_t least = kLeastBeside + std::max(2 * request, reply * 16 / 3);
  return absl::StrCat("; it reads ", ids, " ids of tables: each of ", ps, " ps takes requests of ",
                      HumanBytes(request), " and answers with ", HumanBytes(reply),
                      ", for which a --memory-limit of ", HumanBytes(least),
                      " beside its variables is enough");
}

// Reads the first examples, and returns the values that they need.
absl::StatusOr<Values> Prepare(const Begin& begin, const DataSource& source, bool training,
                               GradientProgram& program, Batch& batch, uint32_t ps,
                               std::string& needs) {
  std::vector<uint64_t> records(std::min<uint64_t>(begin.job.batch, source.records()));
  std::iota(records.begin(), records.end(), 0);
  RETURN_IF_ERROR(training ? source.ReadForTraining(records, /*epoch_key=*/0, batch)
                           : source.Read(records, batch));
  ASSIGN_OR_RETURN(const std::shared_ptr<const TableRows> rows, program.RowsOf(batch));
  program.UseRows(rows);
  if (training && rows != nullptr) needs = NeedsOfRows(begin, *rows, ps);
  Values values;
  for (size_t v = 0; v < begin.variables.size(); ++v) {
    const VariableSpec& variable = begin.variables[v];
    const bool by_rows = rows != nullptr && variable.has_table();
    uint64_t elements = by_rows ? rows->ids[v].size() * RowElements(variable) : 1;
    for (int i = 0; !by_rows && i < variable.shape_size(); ++i) elements *= variable.shape(i);
    std::vector<float>& to = values.emplace_back(elements);
    RETURN_IF_ERROR(by_rows ? begin.FillRows(v, rows->ids[v], to) : begin.Fill(v, 0, to));
  }
  return values;
}

absl::Status CheckFiniteBatch(std::span<const VariableSpec> variables, double loss,
                              const Values& gradients) {
  if (!std::isfinite(loss)) return absl::InvalidArgumentError(absl::StrCat("the loss is ", loss));
  for (size_t v = 0; v < variables.size(); ++v) {
    if (AllFinite(gradients[v])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the gradient of ", variables[v].name(), " is not finite"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TryTrain(const Begin& begin, const DataSource& train,
                                     GradientProgram& program, uint32_t ps) {
  Batch batch;
  std::string needs;
  ASSIGN_OR_RETURN(const Values values,
                   Prepare(begin, train, /*training=*/true, program, batch, ps, needs));
  Values gradients;
  for (size_t v = 0; v < values.size(); ++v) {
    gradients.emplace_back(begin.variables[v].trainable() ? values[v].size() : 0);
  }
  const std::vector<std::span<const float>> in(values.begin(), values.end());
  const std::vector<std::span<float>> out(gradients.begin(), gradients.end());
  DataPlan plan;
  plan.set_seed(begin.job.seed);
  const int64_t begin_ms = SteadyMs();
  ASSIGN_OR_RETURN(const double loss,
                   program.ComputeGradients(batch, BatchKey(plan, BatchId()), in, out));
  const int64_t took_ms = SteadyMs() - begin_ms;
  RETURN_IF_ERROR(CheckFiniteBatch(begin.variables, loss, gradients));
  return absl::StrCat("tried a batch: ", batch.examples, " examples of data.train have the loss ",
                      loss, ", in ", took_ms, " ms", needs);
}

absl::StatusOr<std::string> TryTest(const Begin& begin, const DataSource& test,
                                    GradientProgram& program) {
  Batch batch;
  std::string needs;
  ASSIGN_OR_RETURN(const Values values,
                   Prepare(begin, test, /*training=*/false, program, batch, 1, needs));
  const std::vector<std::span<const float>> in(values.begin(), values.end());
  std::vector<MetricState> states;
  RETURN_IF_ERROR(program.Evaluate(batch, in, states));
  return absl::StrCat("; ", batch.examples, " of data.test were scored");
}

absl::Status In(const char* data, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(data, ": the first batch: ", std::string(status.message())));
}

}  // namespace

absl::StatusOr<std::string> TryBatch(const Job& job, const DataSource& train,
                                     const DataSource* test, const InitialWeights* weights,
                                     GradientProgram& program, uint32_t ps) {
  const Begin begin{job, weights, program.variables()};
  absl::StatusOr<std::string> line = TryTrain(begin, train, program, ps);
  if (!line.ok()) return In("data.train", line.status());
  if (test == nullptr) return line;
  const absl::StatusOr<std::string> scored = TryTest(begin, *test, program);
  if (!scored.ok()) return In("data.test", scored.status());
  return *line + *scored;
}

}  // namespace paracord
