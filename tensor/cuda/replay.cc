#include "tensor/cuda/replay.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/status_macros.h"

namespace paracord::cuda {
namespace {

constexpr size_t kGraphsMax = 8;  // for several batch sizes, and alternating buffers
// Making a graph costs more than a few launches save. If kWastedMax graphs in a row were evicted
// before kWorthLaunches launches, steps vary too much for graphs.
constexpr uint64_t kWorthLaunches = 8;
constexpr int kWastedMax = 32;
constexpr size_t kSeenMax = 16;  // steps remembered until they repeat
constexpr size_t kCallsMin = 8;  // shorter steps are not worth a graph
constexpr size_t kCallsMax = 1 << 16;
// Copies dominate a step with more bytes, and had better begin at once.
constexpr size_t kCopiedMax = 16 << 20;

// The bytes of a call's arguments, for comparing calls.
class Key {
 public:
  template <class... T>
  explicit Key(const T&... values) {
    (Add(&values, sizeof(values)), ...);
  }
  void Add(const void* at, size_t bytes) { bytes_.append(static_cast<const char*>(at), bytes); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

enum class Kind : uint8_t { kLaunch, kGemm, kCopy, kRecord, kWait, kConvolution, kAllReduce };

struct Call {
  std::string key;
  Stream stream = nullptr;
  std::function<absl::Status(Runtime&)> ask;
};

struct Graph {
  std::vector<std::string> keys;
  StepGraph graph = nullptr;
  uint64_t last_used = 0;
  uint64_t launches = 0;
};

class Replay : public Runtime {
 public:
  explicit Replay(std::unique_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  ~Replay() override {
    for (const Graph& graph : graphs_) (void)runtime_->DestroyGraph(graph.graph);
    for (const Event event : {fork_, join_}) {
      if (event != nullptr) (void)runtime_->DestroyEvent(event);
    }
  }

  bool has_bfloat16() const override { return runtime_->has_bfloat16(); }
  absl::Status UseDevice() override { return runtime_->UseDevice(); }
  absl::StatusOr<void*> Malloc(size_t bytes) override { return runtime_->Malloc(bytes); }
  absl::Status Free(void* memory) override {
    RETURN_IF_ERROR(DropAll());
    return runtime_->Free(memory);
  }
  absl::StatusOr<MemoryInfo> GetMemoryInfo() override { return runtime_->GetMemoryInfo(); }
  void Part(void* allocation) override { runtime_->Part(allocation); }
  void Use(void* part, size_t bytes) override { runtime_->Use(part, bytes); }
  void Unuse(void* part) override { runtime_->Unuse(part); }
  size_t gap_bytes() const override { return runtime_->gap_bytes(); }
  absl::StatusOr<Stream> CreateStream() override {
    ASSIGN_OR_RETURN(const Stream stream, runtime_->CreateStream());
    if (main_ == nullptr) main_ = stream;
    return stream;
  }
  absl::Status DestroyStream(Stream stream) override { return runtime_->DestroyStream(stream); }
  absl::StatusOr<Event> CreateEvent() override { return runtime_->CreateEvent(); }
  absl::StatusOr<Event> CreateTimedEvent() override {
    ASSIGN_OR_RETURN(const Event event, runtime_->CreateTimedEvent());
    timed_.insert(event);
    return event;
  }
  absl::StatusOr<float> ElapsedMs(Event from, Event to) override {
    return runtime_->ElapsedMs(from, to);
  }
  absl::StatusOr<Event> CreateHostEvent() override {
    ASSIGN_OR_RETURN(const Event event, runtime_->CreateHostEvent());
    host_events_.insert(event);
    return event;
  }
  absl::Status DestroyEvent(Event event) override {
    if (host_events_.erase(event) == 1) RETURN_IF_ERROR(DropAll());  // the graphs record the event
    timed_.erase(event);
    return runtime_->DestroyEvent(event);
  }
  absl::StatusOr<void*> AllocateHost(size_t bytes) override {
    ASSIGN_OR_RETURN(void* const memory, runtime_->AllocateHost(bytes));
    page_locked_[static_cast<char*>(memory)] = bytes;
    return memory;
  }
  absl::Status FreeHost(void* memory) override {
    RETURN_IF_ERROR(DropAll());
    page_locked_.erase(static_cast<char*>(memory));
    return runtime_->FreeHost(memory);
  }
  absl::Status PageLockHost(const void* memory, size_t bytes) override {
    RETURN_IF_ERROR(runtime_->PageLockHost(memory, bytes));
    page_locked_[static_cast<const char*>(memory)] = bytes;
    return absl::OkStatus();
  }
  absl::Status PageUnlockHost(const void* memory) override {
    RETURN_IF_ERROR(DropAll());
    page_locked_.erase(static_cast<const char*>(memory));
    return runtime_->PageUnlockHost(memory);
  }
  absl::Status BeginCapture(Stream stream) override { return runtime_->BeginCapture(stream); }
  absl::StatusOr<StepGraph> EndCapture(Stream stream) override {
    return runtime_->EndCapture(stream);
  }
  absl::Status LaunchGraph(StepGraph graph, Stream stream) override {
    return runtime_->LaunchGraph(graph, stream);
  }
  absl::Status DestroyGraph(StepGraph graph) override { return runtime_->DestroyGraph(graph); }

  absl::Status Copy(CopyKind kind, const void* from, void* to, size_t bytes,
                    Stream stream) override {
    const bool page_locked = IsPageLocked(kind == CopyKind::kToDevice ? from : to, bytes);
    copied_ += bytes;
    if (Passes(stream, page_locked && copied_ <= kCopiedMax)) {
      return runtime_->Copy(kind, from, to, bytes, stream);
    }
    return Ask(Key(Kind::kCopy, kind, from, to, bytes, stream), stream,
               [=](Runtime& to_ask) { return to_ask.Copy(kind, from, to, bytes, stream); });
  }
  absl::Status Record(Event event, Stream stream) override {
    recorded_.insert(event);
    if (Passes(stream, timed_.count(event) == 0)) return runtime_->Record(event, stream);
    return Ask(Key(Kind::kRecord, event, stream), stream,
               [=](Runtime& to_ask) { return to_ask.Record(event, stream); });
  }
  absl::Status Wait(Stream stream, Event event) override {
    if (Passes(stream, recorded_.count(event) == 1)) return runtime_->Wait(stream, event);
    return Ask(Key(Kind::kWait, event, stream), stream,
               [=](Runtime& to_ask) { return to_ask.Wait(stream, event); });
  }
  absl::Status Launch(const KernelLaunch& launch, Stream stream) override {
    if (Passes(stream, true)) return runtime_->Launch(launch, stream);
    Key key(Kind::kLaunch, launch.kernel, launch.blocks_x, launch.blocks_y, launch.threads, stream);
    key.Add(launch.args, launch.args_size);
    const auto* const bytes = static_cast<const char*>(launch.args);
    return Ask(std::move(key), stream,
               [launch, args = std::vector<char>(bytes, bytes + launch.args_size),
                stream](Runtime& to_ask) {
                 KernelLaunch kept = launch;
                 kept.args = args.data();
                 return to_ask.Launch(kept, stream);
               });
  }
  absl::Status Gemm(const GemmCall& c, Stream stream) override {
    if (Passes(stream, true)) return runtime_->Gemm(c, stream);
    return Ask(Key(Kind::kGemm, c.transpose_a, c.transpose_b, c.m, c.n, c.k, c.a, c.lda, c.stride_a,
                   c.b, c.ldb, c.stride_b, c.c, c.ldc, c.stride_c, c.batch, c.operands, c.factors,
                   c.bias, c.relu, stream),
               stream, [=](Runtime& to_ask) { return to_ask.Gemm(c, stream); });
  }
  absl::StatusOr<std::unique_ptr<Convolution>> MakeConvolution(const ConvCall& call) override;

  absl::Status AllReduce(std::span<const DeviceFloats> arrays, Stream stream) override {
    if (Passes(stream, /*may=*/false)) return runtime_->AllReduce(arrays, stream);
    const std::vector<DeviceFloats> all(arrays.begin(), arrays.end());
    return Ask(Key(Kind::kAllReduce, stream), stream,
               [all, stream](Runtime& to_ask) { return to_ask.AllReduce(all, stream); });
  }
  void AbortGroup() override { runtime_->AbortGroup(); }

  absl::Status Synchronize(Stream stream) override;
  absl::Status AwaitEvent(Event event) override {
    RETURN_IF_ERROR(EndStep());
    return runtime_->AwaitEvent(event);
  }

  // Called first by every call, also of convolutions; `may`: the call can be part of a graph.
  // Returns true if the step cannot become or be a graph: the caller then makes the call itself.
  bool Passes(Stream stream, bool may);
  // Records the call, or compares it with graphs; used when Passes returned false.
  absl::Status Ask(Key key, Stream stream, std::function<absl::Status(Runtime&)> ask);

 private:
  bool IsPageLocked(const void* memory, size_t bytes) const;
  absl::Status DoAll();
  absl::Status EndStep();
  void Remember();
  absl::StatusOr<StepGraph> Capture();
  bool Launch(size_t graph);
  void Drop(size_t graph);
  absl::Status DropAll();
  void Complain(const absl::Status& why);

  const std::unique_ptr<Runtime> runtime_;
  Stream main_ = nullptr;                  // the stream created first
  Event fork_ = nullptr, join_ = nullptr;  // join other streams to a graph
  std::map<const char*, size_t> page_locked_;
  std::set<Event> timed_, host_events_;

  // State of the current step.
  std::vector<Call> calls_;
  std::set<Event> recorded_;
  size_t copied_ = 0;
  bool waits_ = false;              // no call yet: the step may match `candidates_`
  bool may_ = true;                 // the step can be captured
  std::vector<size_t> candidates_;  // graphs with the step's beginning

  std::vector<Graph> graphs_;
  std::vector<size_t> seen_;   // hashes of steps seen once, the latest last
  std::vector<size_t> never_;  // hashes of steps whose capture failed
  uint64_t uses_ = 0;
  int wasted_ = 0;         // graphs evicted in a row before they paid
  std::set<Stream> busy_;  // streams with pending work
  bool launched_ = false;  // a graph, with the work of all streams, was not waited for
  bool complained_ = false;
};

// `serial` distinguishes convolutions made at one address after another.
class ReplayConvolution : public Convolution {
 public:
  ReplayConvolution(Replay& replay, std::unique_ptr<Convolution> convolution, uint64_t serial)
      : replay_(replay), convolution_(std::move(convolution)), serial_(serial) {}

  Directions can() const override { return convolution_->can(); }
  size_t workspace_bytes() const override { return convolution_->workspace_bytes(); }
  absl::Status Forward(const void* x, const void* w, const void* bias, void* y, void* workspace,
                       Stream stream) override {
    return Ask(&Convolution::Forward, Key(Kind::kConvolution, serial_, 0, x, w, bias, y), workspace,
               stream, x, w, bias, y);
  }
  absl::Status BackwardData(const void* w, const void* dy, void* dx, void* workspace,
                            Stream stream) override {
    return Ask(&Convolution::BackwardData, Key(Kind::kConvolution, serial_, 1, w, dy, dx),
               workspace, stream, w, dy, dx);
  }
  absl::Status BackwardFilter(const void* x, const void* dy, void* dw, void* workspace,
                              Stream stream) override {
    return Ask(&Convolution::BackwardFilter, Key(Kind::kConvolution, serial_, 2, x, dy, dw),
               workspace, stream, x, dy, dw);
  }

 private:
  template <class Method, class... Tensors>
  absl::Status Ask(Method method, Key key, void* workspace, Stream stream, Tensors... tensors) {
    if (replay_.Passes(stream, true)) {
      return ((*convolution_).*method)(tensors..., workspace, stream);
    }
    key.Add(&workspace, sizeof(workspace));
    key.Add(&stream, sizeof(stream));
    return replay_.Ask(std::move(key), stream, [=, convolution = convolution_](Runtime&) {
      return ((*convolution).*method)(tensors..., workspace, stream);
    });
  }

  Replay& replay_;
  // Shared with recorded calls, which live until their step ends; a kernel may be destroyed
  // earlier.
  const std::shared_ptr<Convolution> convolution_;
  const uint64_t serial_;
};

absl::StatusOr<std::unique_ptr<Convolution>> Replay::MakeConvolution(const ConvCall& call) {
  ASSIGN_OR_RETURN(std::unique_ptr<Convolution> convolution, runtime_->MakeConvolution(call));
  return std::make_unique<ReplayConvolution>(*this, std::move(convolution), ++uses_);
}

bool Replay::IsPageLocked(const void* memory, size_t bytes) const {
  const auto* const begin = static_cast<const char*>(memory);
  auto found = page_locked_.upper_bound(begin);
  if (found == page_locked_.begin()) return false;
  --found;
  return begin + bytes <= found->first + found->second;
}

bool Replay::Passes(Stream stream, bool may) {
  const bool first = calls_.empty();
  if (first) {
    may_ = true;
    waits_ = !graphs_.empty();
    candidates_.resize(graphs_.size());
    for (size_t i = 0; i < graphs_.size(); ++i) candidates_[i] = i;
  }
  may_ = may_ && may && calls_.size() < kCallsMax;
  if (may_ || waits_) return false;
  if (first) calls_.emplace_back();  // an entry without a call: the step has begun
  busy_.insert(stream);
  return true;
}

absl::Status Replay::Ask(Key key, Stream stream, std::function<absl::Status(Runtime&)> ask) {
  const size_t at = calls_.size();
  calls_.push_back({key.Take(), stream, std::move(ask)});
  if (!waits_) {
    busy_.insert(stream);
    absl::Status asked = calls_.back().ask(*runtime_);
    may_ = may_ && asked.ok();
    return asked;
  }
  std::erase_if(candidates_, [&](size_t graph) {
    const std::vector<std::string>& keys = graphs_[graph].keys;
    return at >= keys.size() || keys[at] != calls_[at].key;
  });
  if (!candidates_.empty() && may_) return absl::OkStatus();
  return DoAll();
}

// Makes the calls only compared so far.
absl::Status Replay::DoAll() {
  waits_ = false;
  for (const Call& call : calls_) {
    if (!call.ask) continue;
    busy_.insert(call.stream);
    const absl::Status asked = call.ask(*runtime_);
    may_ = may_ && asked.ok();
    RETURN_IF_ERROR(asked);
  }
  return absl::OkStatus();
}

absl::Status Replay::Synchronize(Stream stream) {
  const absl::Status ended = EndStep();
  absl::Status done = runtime_->Synchronize(stream);
  busy_.erase(stream);
  if (launched_ && stream != main_) RETURN_IF_ERROR(runtime_->Synchronize(main_));
  launched_ = false;
  RETURN_IF_ERROR(ended);
  return done;
}

absl::Status Replay::EndStep() {
  if (calls_.empty()) return absl::OkStatus();
  absl::Status status;
  bool launched = false;
  if (waits_) {
    const auto whole = std::find_if(candidates_.begin(), candidates_.end(), [&](size_t graph) {
      return graphs_[graph].keys.size() == calls_.size();
    });
    launched = whole != candidates_.end() && Launch(*whole);
    if (!launched) status = DoAll();
  }
  if (!launched && status.ok() && may_ && calls_.size() >= kCallsMin) Remember();
  calls_.clear();
  recorded_.clear();
  copied_ = 0;
  return status;
}

// Launches a graph instead of the step's calls, after all work of the other streams.
bool Replay::Launch(size_t graph) {
  absl::Status launched;
  for (const Stream stream : busy_) {
    if (launched.ok() && stream != main_) launched = runtime_->Synchronize(stream);
  }
  busy_.clear();
  graphs_[graph].last_used = ++uses_;
  ++graphs_[graph].launches;
  if (launched.ok()) launched = runtime_->LaunchGraph(graphs_[graph].graph, main_);
  launched_ = launched_ || launched.ok();
  if (launched.ok()) return true;
  Drop(graph);
  may_ = false;
  Complain(launched);
  return false;
}

void Replay::Drop(size_t graph) {
  (void)runtime_->DestroyGraph(graphs_[graph].graph);
  graphs_.erase(graphs_.begin() + static_cast<std::ptrdiff_t>(graph));
}

// Drops all graphs, because memory used by them may go away. Rare.
absl::Status Replay::DropAll() {
  if (waits_) RETURN_IF_ERROR(DoAll());
  while (!graphs_.empty()) Drop(graphs_.size() - 1);
  return absl::OkStatus();
}

void Replay::Complain(const absl::Status& why) {
  if (complained_) return;
  complained_ = true;
  Logger("device").Warn("a step is launched call by call, not as a graph: {}",
                        std::string(why.message()));
}

// Remembers a step made call by call. The second occurrence is captured.
void Replay::Remember() {
  std::string all;
  for (const Call& call : calls_) all += call.key;
  const size_t hash = std::hash<std::string>()(all);
  if (std::find(never_.begin(), never_.end(), hash) != never_.end()) return;
  const auto seen = std::find(seen_.begin(), seen_.end(), hash);
  if (seen == seen_.end()) {
    if (seen_.size() >= kSeenMax) seen_.erase(seen_.begin());
    seen_.push_back(hash);
    return;
  }
  seen_.erase(seen);
  if (wasted_ >= kWastedMax) {
    return Complain(absl::UnavailableError("steps vary so much that graphs are not worth making"));
  }
  absl::StatusOr<StepGraph> graph = Capture();
  if (!graph.ok()) {
    if (never_.size() >= kSeenMax) never_.erase(never_.begin());
    never_.push_back(hash);
    Complain(graph.status());
    return;
  }
  if (graphs_.size() >= kGraphsMax) {
    const auto oldest =
        std::min_element(graphs_.begin(), graphs_.end(),
                         [](const Graph& a, const Graph& b) { return a.last_used < b.last_used; });
    wasted_ = oldest->launches < kWorthLaunches ? wasted_ + 1 : 0;
    Drop(static_cast<size_t>(oldest - graphs_.begin()));
  }
  Graph& made = graphs_.emplace_back();
  for (Call& call : calls_) made.keys.push_back(std::move(call.key));
  made.graph = *graph;
  made.last_used = ++uses_;
}

// Issues the calls again under capture, to record instead of running them. The other streams fork
// from the main stream at the beginning and join it at the end.
absl::StatusOr<StepGraph> Replay::Capture() {
  if (fork_ == nullptr) {
    ASSIGN_OR_RETURN(fork_, runtime_->CreateEvent());
  }
  if (join_ == nullptr) {
    ASSIGN_OR_RETURN(join_, runtime_->CreateEvent());
  }
  std::set<Stream> others;
  for (const Call& call : calls_) {
    if (call.stream != main_) others.insert(call.stream);
  }
  for (const Stream stream : others) RETURN_IF_ERROR(runtime_->Synchronize(stream));
  RETURN_IF_ERROR(runtime_->Synchronize(main_));
  RETURN_IF_ERROR(runtime_->BeginCapture(main_));
  const auto keep = [&]() -> absl::Status {
    RETURN_IF_ERROR(runtime_->Record(fork_, main_));
    for (const Stream stream : others) RETURN_IF_ERROR(runtime_->Wait(stream, fork_));
    for (const Call& call : calls_) RETURN_IF_ERROR(call.ask(*runtime_));
    for (const Stream stream : others) {
      RETURN_IF_ERROR(runtime_->Record(join_, stream));
      RETURN_IF_ERROR(runtime_->Wait(main_, join_));
    }
    return absl::OkStatus();
  };
  const absl::Status kept = keep();
  absl::StatusOr<StepGraph> graph = runtime_->EndCapture(main_);
  if (!kept.ok() && graph.ok()) (void)runtime_->DestroyGraph(*graph);
  RETURN_IF_ERROR(kept);
  return graph;
}

}  // namespace

std::unique_ptr<Runtime> MakeReplay(std::unique_ptr<Runtime> runtime) {
  return std::make_unique<Replay>(std::move(runtime));
}

}  // namespace paracord::cuda
