#include "net/stream_connection.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_text.h"
#include "common/steady_ms.h"
#include "net/socket_address.h"

namespace paracord {
namespace {

constexpr size_t kInBytes = 64 << 10;
constexpr uint32_t kFrameBytesMax = 32 << 10;
constexpr size_t kPiecesAtOnce = 64;
constexpr uint64_t kWriteAtOnce = 1 << 20;
// The bytes written in a call by a thread other than the reading thread, which writes the rest.
constexpr uint64_t kWriteByOthers = 1 << 20;
constexpr int kTickMs = 100;  // the precision of deadlines
constexpr int kOwedTickMs = 1000;
constexpr int64_t kFirstCallMs = 5000;  // from the greeting
constexpr int64_t kBelieveMs = 1000;    // between two looks at the peer's certificate
constexpr size_t kUnsentMax = 64;       // unsent replies at which the reading thread pauses

constexpr size_t kSizeBytes = sizeof(uint32_t);

void PutSize(uint32_t size, char* to) {
  for (size_t i = 0; i < kSizeBytes; ++i) to[i] = static_cast<char>(size >> (8 * i));
}

uint32_t GetSize(const char* from) {
  uint32_t size = 0;
  for (size_t i = 0; i < kSizeBytes; ++i) {
    size |= static_cast<uint32_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  }
  return size;
}

StreamFrame Frame(StreamFrame::Kind kind, uint64_t call) {
  StreamFrame frame;
  frame.set_kind(kind);
  frame.set_call(call);
  return frame;
}

}  // namespace

class StreamConnection::ServerSide : public ServerCall {
 public:
  ServerSide(std::shared_ptr<StreamConnection> connection, uint64_t call, uint64_t request)
      : connection_(std::move(connection)),
        call_(call),
        requests_(request),
        caller_(connection_->serving_.access.task()) {}
  ~ServerSide() override { Reply(absl::CancelledError("dropped without an answer")); }
  void Reply(absl::StatusOr<Parts> reply) override {
    if (!replied_.exchange(true)) connection_->Reply(call_, requests_, std::move(reply));
  }
  void ReleaseRequest() override {
    if (requests_ != 0) connection_->serving_.request_budget->Keep(requests_, 0);
  }
  void OnCancel(std::function<void()> fn) override {
    connection_->table_.OnCancel(call_, std::move(fn));
  }
  std::string_view caller() const override { return caller_; }

 private:
  const std::shared_ptr<StreamConnection> connection_;
  const uint64_t call_;
  const uint64_t requests_;
  const std::string caller_;
  std::atomic<bool> replied_ = false;
};

StreamConnection::StreamConnection(std::unique_ptr<Channel> channel, Serving serving,
                                   std::string peer, std::function<bool()> believes)
    : channel_(std::move(channel)),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      serving_(std::move(serving)),
      believes_(std::move(believes)),
      table_(std::move(peer)),
      in_(kInBytes),
      broken_(wake_fd_ < 0) {}

StreamConnection::~StreamConnection() {
  if (wake_fd_ >= 0) close(wake_fd_);
}

bool StreamConnection::alive() const { return !broken_; }

// ---- reading

void StreamConnection::Run() {
  reader_ = std::this_thread::get_id();
  received_ms_ = SteadyMs();
  while (!broken_ && ReadAll()) Wait();
  Break();
  bool writes = false;
  {
    MutexLock lock(mu_);
    writes = std::exchange(wants_room_, false);
  }
  if (writes) Write(UINT64_MAX);  // with a broken connection, drops the queue
  arriving_.body.Forget();
  EndRequest(arriving_.request);
  over_ = true;  // set first, because a call may be made meanwhile
  table_.FailAll();
  table_.CancelAll();
}

// Waits for something to read, room to write, or a deadline.
void StreamConnection::Wait() {
  bool wants_room = false;
  {
    MutexLock lock(mu_);
    wants_room = wants_room_;
  }
  const bool paused = Full();
  short events = paused ? short{0} : short{POLLIN};
  if (wants_room) events = static_cast<short>(events | POLLOUT);
  pollfd ready[] = {{channel_->fd(), events, 0}, {wake_fd_, POLLIN, 0}};
  const bool serves = serving_.service != nullptr;
  const int idle_ms = called_ ? -1 : static_cast<int>(kFirstCallMs);
  poll(ready, 2, !serves ? kTickMs : any_ ? kOwedTickMs : idle_ms);
  if (ready[1].revents != 0) {
    uint64_t times = 0;
    (void)!read(wake_fd_, &times, sizeof(times));
  }
  if (paused && serving_.request_budget != nullptr) serving_.request_budget->Look();
  // While paused, the thread does not read and would miss the end of the connection.
  if (paused && (ready[0].revents & (POLLHUP | POLLERR)) != 0) return Break();
  // A peer that owes us bytes (a call is unanswered or a message incomplete) and stays silent for
  // long is gone, even if a middlebox still acknowledges our bytes.
  const bool late = EndLate();
  const bool owes = (late || (any_ && !paused)) && (ready[0].revents & POLLIN) == 0;
  if (owes && SteadyMs() - received_ms_ > kSilentMs) return Break();
  // A client dials a stream to make a call; an idle stream occupies another client's place.
  const bool idle = serves && !called_ && !any_ && (ready[0].revents & POLLIN) == 0;
  if (idle && SteadyMs() - received_ms_ >= kFirstCallMs) return Break();
  {
    MutexLock lock(mu_);
    if (!wants_room_ || (ready[0].revents & POLLOUT) == 0) return;
    wants_room_ = false;
  }
  Write(UINT64_MAX);
}

// Ends calls whose deadline has passed. Returns true if there were any.
bool StreamConnection::EndLate() {
  looked_ms_ = SteadyMs();
  LookAtPeer();
  uint64_t moved = body_bytes_;
  bool sends = false;
  {
    MutexLock lock(mu_);
    moved += written_bytes_;
    sends = written_bytes_ < queued_bytes_;
  }
  const std::vector<uint64_t> late = table_.Expire(moved);
  for (const uint64_t call : late) {
    // A message stalled in the middle holds up all others.
    if (sends || (any_ && call == arriving_.frame.call())) {
      Break();
      break;
    }
    Enqueue(Frame(StreamFrame::CANCEL, call), {});
  }
  return !late.empty();
}

void StreamConnection::LookAtPeer() {
  if (believes_ == nullptr || looked_ms_ - believed_ms_ < kBelieveMs) return;
  believed_ms_ = looked_ms_;
  if (!believes_()) Break();
}

bool StreamConnection::Full() const { return paused_ || unsent_ >= kUnsentMax; }

// Reads all available bytes. Returns false at the end, or if the peer violated the protocol.
bool StreamConnection::ReadAll() {
  while (true) {
    if (!TakeIn()) return false;
    if (Full() || broken_) return true;
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= std::exchange(in_begin_, 0);
    // Receives a body straight into its destination.
    const bool body = any_ && in_end_ == 0;
    const std::span<char> room = body ? arriving_.body.Room() : std::span<char>();
    const size_t behind = room.empty() ? in_.size() - in_end_ : arriving_.body.Behind();
    std::array<iovec, 2> pieces = {iovec{room.data(), room.size()},
                                   iovec{in_.data() + in_end_, behind}};
    const ssize_t got = channel_->Receive(
        std::span(pieces).subspan(room.empty() ? 1 : 0, room.empty() || behind == 0 ? 1 : 2));
    if (got == 0) return false;
    if (got < 0) {
      if (errno == EAGAIN) return true;
      if (errno != EINTR) return false;
      continue;
    }
    received_ms_ = SteadyMs();
    const size_t straight = std::min(static_cast<size_t>(got), room.size());
    if (straight > 0) arriving_.body.Filled(straight);
    if (arriving_.wanted) body_bytes_ += straight;
    in_end_ += static_cast<size_t>(got) - straight;
    Count();
    if (received_ms_ - looked_ms_ > kTickMs) EndLate();
  }
}

// Parses the bytes in in_ as far as possible.
bool StreamConnection::TakeIn() {
  while (!Full() && !broken_) {
    const size_t have = in_end_ - in_begin_;
    const char* const from = in_.data() + in_begin_;
    if (any_ && arriving_.body.left() == 0) {
      if (!Finished()) return false;
    } else if (any_) {
      if (have == 0) return true;
      const size_t taken = arriving_.body.Take({from, have});
      in_begin_ += taken;
      if (arriving_.wanted) body_bytes_ += taken;
      Count();
    } else {
      if (have < kSizeBytes) return true;
      const uint32_t size = GetSize(from);
      if (size > kFrameBytesMax) return false;
      if (have < kSizeBytes + size) return true;
      StreamFrame frame;
      if (!frame.ParseFromArray(from + kSizeBytes, static_cast<int>(size))) return false;
      in_begin_ += kSizeBytes + size;
      if (!Begin(std::move(frame))) return false;
    }
  }
  return true;
}

// The reason to answer a call without reading its body.
absl::Status StreamConnection::WhyRefused(const StreamFrame& frame) const {
  if (absl::Status may = serving_.access.Check(frame.method()); !may.ok()) return may;
  const uint64_t bytes_max =
      std::min(serving_.request_bytes_max, serving_.request_budget->request_bytes_max());
  if (frame.body_bytes() <= bytes_max) return absl::OkStatus();
  return RequestTooLarge(bytes_max);
}

bool StreamConnection::Begin(StreamFrame frame) {
  const bool serves = serving_.service != nullptr;
  const uint64_t call = frame.call();
  std::shared_ptr<ReplySink> sink;
  switch (frame.kind()) {
    case StreamFrame::CANCEL:
      if (!serves || frame.body_bytes() != 0) return false;
      table_.Cancel(call);
      return true;
    case StreamFrame::CALL:
      if (!serves) return false;
      called_ = true;
      if (!table_.Begin(call)) return false;
      if (const absl::Status refused = WhyRefused(frame); !refused.ok()) {
        Reply(call, 0, refused);
        break;
      }
      arriving_.wanted = true;
      arriving_.request = serving_.request_budget->Begin([slow = weak_from_this()] {
        if (const auto self = slow.lock()) self->BreakSlow();
      });
      break;
    case StreamFrame::REPLY:
      if (serves || (frame.code() != 0 && frame.body_bytes() != 0)) return false;
      if (std::optional<std::shared_ptr<ReplySink>> waits = table_.SinkOf(call)) {
        sink = *std::move(waits);
        arriving_.wanted = true;
      }
      if (sink != nullptr && frame.body_bytes() > sink->bytes_max()) return false;
      break;
    default:
      return false;
  }
  any_ = true;
  arriving_.body = ArrivingBody(frame.body_bytes(), arriving_.wanted, std::move(sink));
  arriving_.frame = std::move(frame);
  return true;
}

// Counts in the request budget the bytes of a request's body since the last call.
void StreamConnection::Count() {
  if (arriving_.request == 0) return;
  const uint64_t kept = arriving_.body.TakeKept();
  serving_.request_budget->Moved(arriving_.request,
                                 arriving_.frame.body_bytes() - arriving_.body.left());
  if (kept == 0) return;
  paused_ = true;  // set first, because `resume` may run at once
  const auto resume = [self = shared_from_this()] {
    self->paused_ = false;
    self->Wake();
  };
  if (serving_.request_budget->Take(arriving_.request, kept, resume)) paused_ = false;
}

bool StreamConnection::Finished() {
  any_ = false;
  Arriving arrived = std::exchange(arriving_, Arriving());
  if (!arrived.wanted) return true;
  const StreamFrame& frame = arrived.frame;
  if (serving_.service == nullptr) {
    absl::StatusOr<absl::Cord> reply = arrived.body.TakeBytes();
    if (frame.code() != 0) {
      reply = absl::Status(static_cast<absl::StatusCode>(frame.code()), frame.error());
    }
    table_.Answer(frame.call(), std::move(reply));
    return true;
  }
  serving_.request_budget->Arrived(arrived.request);
  serving_.service->Handle(
      frame.method(), arrived.body.TakeBytes(),
      std::make_shared<ServerSide>(shared_from_this(), frame.call(), arrived.request));
  return true;
}

// ---- writing

void StreamConnection::Call(std::string_view method, Parts request, int64_t deadline_ms,
                            std::shared_ptr<ReplySink> sink, ReplyFn done) {
  const uint64_t call = table_.Add(std::move(done), deadline_ms, std::move(sink));
  if (call == 0) return;
  StreamFrame frame = Frame(StreamFrame::CALL, call);
  frame.set_method(std::string(method));
  Enqueue(std::move(frame), std::move(request));
  if (over_) table_.Answer(call, absl::UnavailableError("the connection broke"));
}

void StreamConnection::Reply(uint64_t call, uint64_t request, absl::StatusOr<Parts> reply) {
  if (!table_.End(call)) return EndRequest(request);
  StreamFrame frame = Frame(StreamFrame::REPLY, call);
  if (reply.ok()) return Enqueue(std::move(frame), *std::move(reply), request);
  frame.set_code(static_cast<int>(reply.status().code()));
  frame.set_error(Sendable(reply.status()));
  Enqueue(std::move(frame), {}, request);
}

void StreamConnection::EndRequest(uint64_t request) {
  if (request != 0) serving_.request_budget->End(request);
}

void StreamConnection::Enqueue(StreamFrame frame, Parts parts, uint64_t request) {
  absl::Cord body;
  for (absl::Cord& part : parts) body.Append(std::move(part));
  frame.set_body_bytes(body.size());
  std::string head(kSizeBytes, '\0');
  frame.AppendToString(&head);
  PutSize(static_cast<uint32_t>(head.size() - kSizeBytes), head.data());
  {
    MutexLock lock(mu_);
    queued_.Append(head);
    queued_.Append(std::move(body));
    queued_bytes_ += head.size() + frame.body_bytes();
    if (frame.kind() == StreamFrame::REPLY) {
      ends_.emplace_back(queued_bytes_, request);
      ++unsent_;
    }
    if (std::exchange(writing_, true)) return;
  }
  Write(std::this_thread::get_id() == reader_ ? UINT64_MAX : kWriteByOthers);
}

// Writes; called only by the thread that has set writing_.
void StreamConnection::Write(uint64_t bytes_max) {
  uint64_t written = 0;
  while (true) {
    if (out_.empty() || broken_) {
      if (!TakeQueued()) return;
      continue;
    }
    std::array<iovec, kPiecesAtOnce> pieces;
    size_t count = 0;
    uint64_t bytes = 0;
    for (const absl::string_view chunk : out_.Chunks()) {
      pieces[count++] = {const_cast<char*>(chunk.data()), chunk.size()};
      bytes += chunk.size();
      if (count == kPiecesAtOnce || bytes >= kWriteAtOnce) break;
    }
    const bool enough = written >= bytes_max;
    const ssize_t sent = enough ? -1 : channel_->Send(std::span(pieces).first(count));
    if (sent >= 0) {
      out_.RemovePrefix(static_cast<size_t>(sent));
      written += static_cast<uint64_t>(sent);
      CountWritten(static_cast<uint64_t>(sent));
    } else if (enough || errno == EAGAIN) {
      MutexLock lock(mu_);
      if (broken_) continue;
      wants_room_ = true;
      if (std::this_thread::get_id() != reader_) Wake();
      return;
    } else if (errno != EINTR) {
      Break();
    }
  }
}

// Moves queued bytes to out_. If the queue is empty, clears writing_ and returns false.
bool StreamConnection::TakeQueued() {
  std::deque<std::pair<uint64_t, uint64_t>> ended;
  {
    MutexLock lock(mu_);
    if (!broken_ && !queued_.empty()) {
      std::swap(out_, queued_);
      return true;
    }
    if (broken_) {
      out_.Clear();
      queued_.Clear();
      ended.swap(ends_);
    }
    writing_ = false;
  }
  for (const auto& [at, request] : ended) EndRequest(request);
  return false;
}

void StreamConnection::CountWritten(uint64_t bytes) {
  std::vector<uint64_t> ended;
  {
    MutexLock lock(mu_);
    written_bytes_ += bytes;
    while (!ends_.empty() && ends_.front().first <= written_bytes_) {
      ended.push_back(ends_.front().second);
      ends_.pop_front();
    }
  }
  for (const uint64_t request : ended) EndRequest(request);
  const size_t before = unsent_.fetch_sub(ended.size());
  const bool others = std::this_thread::get_id() != reader_;
  if (others && before >= kUnsentMax && before - ended.size() < kUnsentMax) Wake();
}

// ---- the end

void StreamConnection::Wake() const {
  const uint64_t once = 1;
  (void)!write(wake_fd_, &once, sizeof(once));
}

void StreamConnection::Break() {
  if (broken_.exchange(true)) return;
  shutdown(channel_->fd(), SHUT_RDWR);
  Wake();
}

void StreamConnection::BreakSlow() {
  Logger("connection")
      .Warn("{}: a request hardly moves while others wait for it; the connection is closed",
            PeerOf(channel_->fd()));
  Break();
}

void StreamConnection::Close() {
  table_.Close();
  Break();
}

}  // namespace paracord
