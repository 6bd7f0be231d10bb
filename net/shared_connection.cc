#include "net/shared_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_text.h"
#include "common/steady_ms.h"
#include "net/packet_socket.h"

namespace paracord {
namespace {

constexpr uint64_t kPlaceBytes = 128;                       // approximate memory of a place here
constexpr uint64_t kWaitingBytesMax = 2 * kInlineBytesMax;  // bytes of unsent packets
constexpr size_t kUnreleasedMax = 16;     // a peer that holds more messages never releases them
constexpr int kSharedTickMs = 100;        // the precision of deadlines
constexpr int64_t kServingTickMs = 1000;  // how often the serving side checks its replies
constexpr int kSocketPackets = 1000;      // more than a socket holds
// Bytes of unsent packets above which we stop reading the caller.
constexpr uint64_t kUnreadBytesMax = 256 << 10;
constexpr int kStuckMs = 1000;  // a peer that reads nothing for this long is given up

// Makes a packet about a call. The sender's side tells REPLY and CALL apart; RELEASE is about the
// message received by the sender, request or reply.
SharedPacket Packet(SharedPacket::Kind kind, uint64_t call) {
  SharedPacket packet;
  packet.set_kind(kind);
  packet.set_call(call);
  return packet;
}

}  // namespace

// Holds a received message in the peer's memory; the destructor releases the message.
struct SharedConnection::Received {
  Received(std::shared_ptr<SharedConnection> from, uint64_t id)
      : connection(std::move(from)), call(id) {}
  ~Received() { connection->Release(call); }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;

  const std::shared_ptr<SharedConnection> connection;
  const uint64_t call;
};

// Holds a request's bytes in the request budget.
struct SharedConnection::BudgetedRequest {
  BudgetedRequest(RequestBudget& in, std::function<void()> drop)
      : request_budget(in), request(request_budget.Begin(std::move(drop))) {}
  ~BudgetedRequest() { request_budget.End(request); }
  BudgetedRequest(const BudgetedRequest&) = delete;
  BudgetedRequest& operator=(const BudgetedRequest&) = delete;

  RequestBudget& request_budget;  // the connection's
  const uint64_t request;
};

class SharedConnection::ServerSide : public ServerCall {
 public:
  ServerSide(std::shared_ptr<SharedConnection> connection, uint64_t call,
             std::unique_ptr<BudgetedRequest> counted)
      : connection_(std::move(connection)),
        call_(call),
        counted_(std::move(counted)),
        caller_(connection_->access_.task()) {}
  ~ServerSide() override {
    connection_->Reply(call_, absl::CancelledError("dropped without an answer"));
  }
  void Reply(absl::StatusOr<Parts> reply) override { connection_->Reply(call_, std::move(reply)); }
  void ReleaseRequest() override { counted_->request_budget.Keep(counted_->request, 0); }
  void OnCancel(std::function<void()> fn) override {
    connection_->table_.OnCancel(call_, std::move(fn));
  }
  std::string_view caller() const override { return caller_; }

 private:
  const std::shared_ptr<SharedConnection> connection_;
  const uint64_t call_;
  const std::unique_ptr<BudgetedRequest> counted_;
  const std::string caller_;
};

SharedConnection::SharedConnection(int fd, Service* service,
                                   std::shared_ptr<RequestBudget> request_budget,
                                   uint64_t request_bytes_max, std::string peer,
                                   int64_t reply_patience_ms, Access access)
    : fd_(fd),
      service_(service),
      requests_(std::move(request_budget)),
      request_bytes_max_(request_bytes_max),
      reply_patience_(reply_patience_ms),
      serving_tick_ms_(static_cast<int>(std::min(kServingTickMs, reply_patience_ms))),
      peer_(peer),
      access_(std::move(access)),
      table_(std::move(peer)),
      buffer_(kPacketBytes),
      packets_(fd) {}

SharedConnection::~SharedConnection() { close(fd_); }

bool SharedConnection::alive() const {
  MutexLock lock(mu_);
  return !broken_ && !closing_;
}

bool SharedConnection::replies_valid() const {
  if (!alive()) return false;
  __sync_synchronize();  // orders the reads of the reply before the poll (TSan knows this fence)
  pollfd state{fd_, 0, 0};
  return poll(&state, 1, 0) == 0;  // poll always reports a socket shut down in both directions
}

// ---- reading

void SharedConnection::Run() {
  while (ReadPacket()) {
  }
  arriving_.reset();
  paused_ = false;
  theirs_.Clear();  // a reader of mapped memory holds the mapping itself
  if (service_ != nullptr) table_.CancelAll();  // unanswered calls hold their requests
  // Memory perhaps still read by the peer stays until the peer has closed its side.
  {
    MutexLock lock(mu_);
    broken_ = closing_ = true;
    CloseIfUnused();
  }
  ssize_t got = 1;
  while (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN))) {
    Wait();
    got = recv(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  }
  Ended();
}

// Waits for a packet (while paused: for the peer's end), for room to send, or for a tick. Then ends
// late calls and replies. Returns whether there is something to read.
bool SharedConnection::Wait() {
  const bool paused = paused_;
  pollfd ready[2] = {{fd_, 0, 0}, {packets_.wake_fd(), POLLIN, 0}};
  bool reads = !paused;
  {
    MutexLock lock(mu_);
    if (!broken_ && !packets_.empty()) ready[0].events |= POLLOUT;
    // The serving side stops reading a caller that leaves replies unread. The dialling side always
    // reads; hence the two ends cannot wait for each other.
    if (service_ != nullptr && !broken_ && packets_.bytes() > kUnreadBytesMax) reads = false;
  }
  if (reads) ready[0].events |= POLLIN;
  const bool often = service_ == nullptr || arriving_ != nullptr;
  const int polled = poll(ready, 2, often ? kSharedTickMs : serving_tick_ms_);
  const bool readable = polled > 0 && (ready[0].revents & ~POLLOUT) != 0;
  if (polled > 0 && ready[1].revents != 0) packets_.Woken();
  FlushPackets();
  service_ == nullptr ? ExpireCalls() : ExpireReplies(/*idle=*/polled >= 0 && !readable && reads);
  RetireSegments();
  if (paused) requests_->Look();
  return readable;
}

bool SharedConnection::ReadPacket() {
  if (!paused_ && arriving_ != nullptr && arriving_->whole) return Serve();
  const bool readable = Wait();
  {
    MutexLock lock(mu_);
    if (takes_back_) return false;
  }
  if (paused_) return !readable;
  if (!readable || (arriving_ != nullptr && arriving_->whole)) return true;
  const ReceivedPacket got = ReceivePacket(fd_, buffer_);
  if (got.size < 0) return errno == EINTR || errno == EAGAIN;
  SharedPacket packet;
  const bool whole = got.whole && packet.ParseFromArray(buffer_.data(), static_cast<int>(got.size));
  if (!whole && got.fd >= 0) close(got.fd);
  if (whole && Take(packet, got.fd)) return true;
  MutexLock lock(mu_);
  if (got.size > 0) Break("the peer broke the rules");
  return false;
}

// Handles a packet. Returns false if the peer violated the protocol.
bool SharedConnection::Take(const SharedPacket& packet, int fd) {
  if ((fd >= 0) != (packet.kind() == SharedPacket::SEGMENT)) {
    if (fd >= 0) close(fd);
    return false;
  }
  switch (packet.kind()) {
    case SharedPacket::CALL:
      return service_ != nullptr && TakeMessage(packet);
    case SharedPacket::REPLY:
      return service_ == nullptr && TakeMessage(packet);
    case SharedPacket::CANCEL:
      table_.Cancel(packet.call());
      return true;
    case SharedPacket::RELEASE: {
      std::vector<absl::Cord> released;  // destroyed without the lock
      MutexLock lock(mu_);
      if (const auto it = sent_.find(packet.call()); it != sent_.end()) {
        released.swap(it->second.kept);
        sent_.erase(it);
      }
      return true;
    }
    case SharedPacket::SEGMENT:
      return theirs_.Map(packet.segment(), fd, packet.segment_bytes());
    case SharedPacket::RETIRE:
      return theirs_.Unmap(packet.segment());
    default:
      return false;
  }
}

bool SharedConnection::TakeMessage(const SharedPacket& packet) {
  if (arriving_ == nullptr) {
    arriving_ = std::make_unique<Message>();
    arriving_->call = packet.call();
    if (service_ != nullptr) {
      arriving_->counted = std::make_unique<BudgetedRequest>(*requests_, [slow = weak_from_this()] {
        if (const auto self = slow.lock()) self->BreakSlow();
      });
    }
  }
  Message& message = *arriving_;
  const uint64_t before = message.inline_bytes + message.places * kPlaceBytes;
  if (message.call != packet.call()) return false;
  if (!packet.method().empty()) message.method = packet.method();
  for (const SharedPiece& piece : packet.pieces()) {
    if (piece.segment() == 0) {
      message.bytes.Append(piece.bytes());
      message.inline_bytes += piece.bytes().size();
      if (message.inline_bytes > kInlineBytesMax) return false;
    } else {
      const std::shared_ptr<const SharedMapping> mapping = theirs_.Find(piece.segment());
      if (mapping == nullptr || piece.offset() > mapping->bytes() ||
          piece.size() > mapping->bytes() - piece.offset()) {
        return false;
      }
      if (++message.places > kPlacesMax) return false;
      if (message.received == nullptr) {
        MutexLock lock(mu_);
        ++received_;
        message.received = std::make_shared<Received>(shared_from_this(), packet.call());
      }
      message.bytes.Append(absl::MakeCordFromExternal(
          absl::string_view(mapping->data() + piece.offset(), piece.size()),
          [received = message.received, mapping](absl::string_view) {}));
    }
    if (message.bytes.size() > request_bytes_max_) return false;
    // Payload in the peer's memory takes none of ours.
    const bool counts = service_ != nullptr;
    if (counts && message.inline_bytes > requests_->request_bytes_max()) return false;
  }
  if (service_ != nullptr) {
    Count(message.inline_bytes + message.places * kPlaceBytes - before);
    message.whole = !packet.more();
    return true;
  }
  if (packet.more()) return true;
  absl::StatusOr<absl::Cord> reply = std::move(message.bytes);
  arriving_.reset();  // `bytes` now hold the received memory
  if (packet.code() != 0) {
    reply = absl::Status(static_cast<absl::StatusCode>(packet.code()), packet.error());
  }
  table_.Answer(packet.call(), std::move(reply));
  return true;
}

void SharedConnection::Count(uint64_t bytes) {
  if (bytes == 0) return;
  paused_ = true;  // set first, because `resume` may run at once
  const auto resume = [self = shared_from_this()] { self->paused_ = false; };
  if (requests_->Take(arriving_->counted->request, bytes, resume)) paused_ = false;
}

// Serves a whole request. Returns false if the peer violated the protocol.
bool SharedConnection::Serve() {
  Message message = std::move(*arriving_);
  arriving_.reset();
  message.received = nullptr;  // held by `bytes` instead
  requests_->Arrived(message.counted->request);
  if (!table_.Begin(message.call)) return false;
  auto call =
      std::make_shared<ServerSide>(shared_from_this(), message.call, std::move(message.counted));
  if (absl::Status may = access_.Check(message.method); !may.ok()) {
    call->Reply(std::move(may));
  } else {
    service_->Handle(message.method, std::move(message.bytes), std::move(call));
  }
  return true;
}

void SharedConnection::ExpireCalls() {
  for (const uint64_t call : table_.Expire()) {
    MutexLock lock(mu_);
    Write(Packet(SharedPacket::CANCEL, call).SerializeAsString());
  }
}

// Ends the connection of a caller that keeps replies too long, for example a stopped process. We
// may be the stopped process ourselves: pending packets are read first, and the caller gets another
// tick to release.
void SharedConnection::ExpireReplies(bool idle) {
  const auto now = std::chrono::steady_clock::now();
  MutexLock lock(mu_);
  const auto late = std::ranges::find_if(
      sent_, [&](const auto& sent) { return now - sent.second.at > reply_patience_; });
  if (late == sent_.end() || takes_back_) {
    late_since_.reset();
    return;
  }
  if (!late_since_.has_value()) {
    late_since_ = now;
    late_packets_ = 0;
  }
  const bool heard = idle || ++late_packets_ > kSocketPackets;
  if (!heard || now - *late_since_ < std::chrono::milliseconds(serving_tick_ms_)) return;
  Break(absl::StrCat("the peer kept a reply for ", reply_patience_.count(), " ms"));
  takes_back_ = true;  // also after the connection broke
  CloseIfUnused();
}

// The end: the peer has closed its side, the process is gone, or the shutdown told the peer to
// discard unfinished reads. Frees the memory of all sent messages, which otherwise stays until the
// connection is destroyed.
void SharedConnection::Ended() {
  std::map<uint64_t, Sent> sent;
  {
    MutexLock lock(mu_);
    closing_ = true;
    // After Abort, while the service still reads a request, replies_valid() is still true.
    if (!takes_back_ || received_ == 0) sent.swap(sent_);
  }
  table_.FailAll();
  table_.CancelAll();
}

// ---- writing

void SharedConnection::Call(std::string_view method, Parts request, int64_t deadline_ms,
                            ReplyFn done) {
  const uint64_t call = table_.Add(std::move(done), deadline_ms);
  if (call == 0) return;
  SharedPacket packet = Packet(SharedPacket::CALL, call);
  packet.set_method(std::string(method));
  SharedMessage message;  // destroyed without the lock
  if (alive()) message = MakeSharedMessage(std::move(packet), request);
  {
    MutexLock lock(mu_);
    if (!broken_ && !closing_) return Send(call, message);
  }
  table_.Answer(call, absl::UnavailableError("the connection broke"));
}

void SharedConnection::Reply(uint64_t call, absl::StatusOr<Parts> reply) {
  if (!table_.End(call)) return;
  SharedPacket packet = Packet(SharedPacket::REPLY, call);
  Parts parts;  // destroyed without the lock
  if (!reply.ok()) {
    packet.set_code(static_cast<int>(reply.status().code()));
    packet.set_error(Sendable(reply.status()));
  } else {
    parts = *std::move(reply);
  }
  SharedMessage message = MakeSharedMessage(std::move(packet), parts);
  MutexLock lock(mu_);
  Send(call, message);
}

void SharedConnection::Release(uint64_t call) {
  MutexLock lock(mu_);
  --received_;
  Write(Packet(SharedPacket::RELEASE, call).SerializeAsString());
  CloseIfUnused();
}

void SharedConnection::Send(uint64_t call, SharedMessage& message) {
  if (!message.problem.empty()) Break(message.problem);
  for (const uint64_t segment : message.segments) Announce(segment);
  const auto now = std::chrono::steady_clock::now();
  if (!message.kept.empty() &&
      (!sent_.try_emplace(call, Sent{std::move(message.kept), now}).second ||
       sent_.size() > kUnreleasedMax)) {
    Break("the peer lets go of nothing");
  }
  for (std::string& packet : message.packets) Write(std::move(packet));
}

void SharedConnection::Announce(uint64_t segment) {
  if (!ours_.Add(segment)) return;
  const SharedSegment memory = GetSharedSegment(segment);
  SharedPacket packet = Packet(SharedPacket::SEGMENT, 0);
  packet.set_segment(segment);
  packet.set_segment_bytes(memory.bytes);
  Write(packet.SerializeAsString(), memory.fd);
}

// Tells the peer which of our segments were given back since the last call.
void SharedConnection::RetireSegments() {
  MutexLock lock(mu_);
  for (const uint64_t segment : ours_.TakeClosed()) {
    SharedPacket packet = Packet(SharedPacket::RETIRE, 0);
    packet.set_segment(segment);
    Write(packet.SerializeAsString());
  }
}

// Never blocks: the reading thread sends packets that find no room in the socket.
void SharedConnection::Write(std::string packet, int fd) {
  if (!broken_ && packets_.bytes() > kWaitingBytesMax) Break("the peer does not read");
  if (!broken_ && !packets_.Send(std::move(packet), fd)) broken_ = true;  // the peer is gone
  if (!broken_) return;
  closing_ = true;
  CloseIfUnused();
}

void SharedConnection::FlushPackets() {
  MutexLock lock(mu_);
  if (broken_ || packets_.empty()) return;
  if (!packets_.Flush()) broken_ = true;
  if (packets_.stuck_ms() > kStuckMs) Break("the peer does not read");
  closing_ = closing_ || broken_;
  CloseIfUnused();
}

// ---- the end

void SharedConnection::CloseIfUnused() {
  if (!closing_ || received_ > 0) return;
  if (!broken_ && !packets_.empty()) return;  // called again when the last of these packets is sent
  broken_ = true;
  // The peer closes then, and Run ends. With takes_back_ Run does not wait for the peer.
  shutdown(fd_, takes_back_ ? SHUT_RDWR : SHUT_WR);
  __sync_synchronize();  // the shutdown is visible before memory is reused
}

void SharedConnection::BreakSlow() {
  MutexLock lock(mu_);
  Break("a request hardly moves while others wait for it");
}

void SharedConnection::Break(std::string_view why) {
  if (broken_) return;
  broken_ = true;
  takes_back_ = service_ != nullptr;
  static OncePerSecond may_say;  // a peer can violate the protocol as often as it can connect
  if (!may_say.Now()) return;
  ucred peer{};
  socklen_t size = sizeof(peer);
  getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  Logger("connection")
      .Warn("{}, process {}: {}; from now on the network is used instead", peer_, peer.pid, why);
}

void SharedConnection::Close() {
  table_.Close();  // first, or the reading thread would report a broken connection
  MutexLock lock(mu_);
  closing_ = true;
  CloseIfUnused();
}

void SharedConnection::Abort() {
  MutexLock lock(mu_);
  broken_ = closing_ = takes_back_ = true;
  shutdown(fd_, SHUT_RD);  // wakes Run; the caller keeps its requests unchanged until SHUT_WR
  CloseIfUnused();
}

}  // namespace paracord
