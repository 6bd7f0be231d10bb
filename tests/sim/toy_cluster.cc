#include "sim/toy_cluster.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr char kAddress[] = "server:1";
constexpr char kAdd[] = "/toy.Server/Add";
constexpr char kHold[] = "/toy.Server/Hold";
constexpr char kDirectory[] = "/toy/data";
constexpr char kFile[] = "/toy/data/counted";

absl::Status Prepare(Files& files) {
  RETURN_IF_ERROR(files.MakeDirectories(kDirectory));
  RETURN_IF_ERROR(files.SyncDirectory("/"));
  return files.SyncDirectory("/toy");
}

absl::Status WriteWithoutDirectory(Files& files, const std::string& contents) {
  const std::string temporary = absl::StrCat(kFile, ".tmp");
  ASSIGN_OR_RETURN(const std::unique_ptr<WriteFile> file, files.Create(temporary));
  RETURN_IF_ERROR(file->Append(contents));
  RETURN_IF_ERROR(file->Sync());
  return files.Rename(temporary, kFile);
}

}  // namespace

class ToyCluster::Server : public SimProcess, public Service {
 public:
  Server(ToyCluster& cluster, SimNode& node)
      : cluster_(cluster), node_(node), environment_(node.environment()) {
    const absl::Status prepared = Prepare(environment_.files);
    const auto contents = environment_.files.ReadWhole(kFile);
    if (!prepared.ok() || (!contents.ok() && !absl::IsNotFound(contents.status()))) {
      cluster_.supervisor_.Exit(node_, 1);
      return;
    }
    for (const auto& text : absl::StrSplit(contents.value_or(""), ',', absl::SkipEmpty())) {
      uint64_t number = 0;
      if (!absl::SimpleAtoi(text, &number)) cluster_.world_.Violation("a torn file was read");
      counted_.insert(number);
    }
    for (const uint64_t number : cluster_.oracle_.acknowledged) {
      if (!counted_.contains(number) && node_.live()) {
        cluster_.world_.Violation(absl::StrCat("acknowledged number ", number, " is lost"));
      }
    }
    auto listener = environment_.network.Listen(kAddress, *this);
    if (listener.ok()) {
      listener_ = *std::move(listener);
    } else {
      cluster_.supervisor_.Exit(node_, 1);
    }
  }

  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    environment_.loop.Post([this, method = std::string(method), text = std::string(request), call] {
      method == kHold ? Hold(call) : Add(text, call);
    });
  }

  size_t sessions() const { return sessions_.size(); }

 private:
  void Hold(const std::shared_ptr<ServerCall>& call) {
    const uint64_t id = ++last_session_;
    sessions_[id] = call;
    if (cluster_.mutant_ == ToyMutant::kForgetSession) return;
    call->OnCancel([this, id] { environment_.loop.Post([this, id] { sessions_.erase(id); }); });
  }

  void Add(const std::string& text, const std::shared_ptr<ServerCall>& call) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(text, &number)) {
      return call->Reply(absl::InvalidArgumentError("not a number"));
    }
    if (!counted_.insert(number).second && cluster_.mutant_ == ToyMutant::kCountTwice) {
      ++cluster_.oracle_.counted_twice;
      cluster_.world_.Violation(absl::StrCat("number ", number, " counts twice"));
    }
    waiting_.push_back(call);
    if (cluster_.mutant_ == ToyMutant::kAckEarly) Acknowledge(std::exchange(waiting_, {}));
    if (!writing_) Write();
  }

  void Write() {
    writing_ = true;
    auto served =
        std::make_shared<std::vector<std::shared_ptr<ServerCall>>>(std::exchange(waiting_, {}));
    auto result = std::make_shared<absl::Status>();
    const std::string contents = absl::StrJoin(counted_, ",");
    const bool sync = cluster_.mutant_ != ToyMutant::kNoDirectorySync;
    environment_.executor.Run(
        [this, contents, sync, result] {
          *result = sync ? environment_.files.WriteAtomic(kFile, contents)
                         : WriteWithoutDirectory(environment_.files, contents);
        },
        [this, served, result] {
          writing_ = false;
          // After a failed write, the durable contents are unknown. The process restarts from the
          // disk.
          if (!result->ok()) return cluster_.supervisor_.Exit(node_, 1);
          Acknowledge(*served);
          if (!waiting_.empty()) Write();
        });
  }

  static void Acknowledge(const std::vector<std::shared_ptr<ServerCall>>& calls) {
    for (const auto& call : calls) call->Reply(Parts{absl::Cord("ok")});
  }

  ToyCluster& cluster_;
  SimNode& node_;
  const Environment environment_;
  std::set<uint64_t> counted_;
  bool writing_ = false;
  std::vector<std::shared_ptr<ServerCall>> waiting_;
  std::map<uint64_t, std::shared_ptr<ServerCall>> sessions_;
  uint64_t last_session_ = 0;
  std::unique_ptr<Listener> listener_;
};

class ToyCluster::Client : public SimProcess {
 public:
  Client(ToyCluster& cluster, SimNode& node)
      : cluster_(cluster),
        environment_(node.environment()),
        first_((node.host() - 1) * cluster.numbers_),
        link_(environment_.network.Dial(kAddress)) {
    Hold();
    SendNext();
  }

  bool done() const { return next_ == cluster_.numbers_; }

 private:
  void Hold() {
    link_->Call(kHold, {}, 1'000'000, [this](absl::StatusOr<absl::Cord>) {
      environment_.loop.PostAfter(50, [this] { Hold(); });
    });
  }

  void SendNext() {
    if (done()) return;
    const uint64_t number = first_ + next_;
    link_->Call(kAdd, {absl::Cord(absl::StrCat(number))}, 500,
                [this, number](absl::StatusOr<absl::Cord> reply) {
                  if (reply.ok() && *reply != "ok") cluster_.world_.Violation("a wrong reply");
                  environment_.loop.Post([this, number, ok = reply.ok()] { Answered(number, ok); });
                });
  }

  void Answered(uint64_t number, bool ok) {
    if (!ok) {
      environment_.loop.PostAfter(environment_.random.Between(5, 50), [this] { SendNext(); });
      return;
    }
    cluster_.oracle_.acknowledged.insert(number);
    ++next_;
    SendNext();
  }

  ToyCluster& cluster_;
  const Environment environment_;
  const uint64_t first_;
  uint64_t next_ = 0;
  std::unique_ptr<Link> link_;
};

ToyCluster::ToyCluster(SimWorld& world, uint32_t clients, uint64_t numbers, ToyMutant mutant)
    : world_(world),
      clients_(clients),
      numbers_(numbers),
      mutant_(mutant),
      supervisor_(world),
      nemesis_(world, supervisor_) {
  supervisor_.RestartAfterExit([](uint32_t, int) { return true; });
  supervisor_.AddPlace("server",
                       [this](SimNode& node) { return std::make_unique<Server>(*this, node); });
  for (uint32_t i = 0; i < clients; ++i) {
    supervisor_.AddPlace(absl::StrCat("client:", i),
                         [this](SimNode& node) { return std::make_unique<Client>(*this, node); });
  }
}

ToyCluster::~ToyCluster() = default;

size_t ToyCluster::sessions() const {
  const auto* server = static_cast<const Server*>(supervisor_.process(0));
  return server == nullptr ? 0 : server->sessions();
}

uint32_t ToyCluster::clients_done() const {
  uint32_t done = 0;
  for (uint32_t i = 1; i <= clients_; ++i) {
    const auto* client = static_cast<const Client*>(supervisor_.process(i));
    if (client != nullptr && client->done()) ++done;
  }
  return done;
}

bool ToyCluster::Run(int64_t fault_ms, int64_t heal_ms) {
  nemesis_.Start();
  world_.Run(fault_ms);
  nemesis_.Heal();
  world_.Run(fault_ms + heal_ms, [this] { return clients_done() == clients_; });
  if (clients_done() != clients_) world_.Violation("no progress after everything was healed");
  // Both sides notice every broken connection within this time.
  world_.Run(fault_ms + heal_ms + 40'000);
  if (sessions() != clients_) {
    world_.Violation(absl::StrCat(sessions(), " sessions of ", clients_, " clients"));
  }
  return world_.violation().empty();
}

}  // namespace paracord
