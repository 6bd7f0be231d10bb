#include "coordinator/core/sessions.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

struct Opened {
  uint64_t Open(const std::string& task, const std::string& boot_id) {
    sessions.BeginLife(task, boot_id);
    return sessions.Open(task, "cpu", 0)->id;
  }
  Effects effects;
  Sessions sessions{100, {"worker:0", "worker:1"}, effects};
};

TEST_CASE("a task's newer life takes its place, and the older one may not come back") {
  Opened opened;
  Sessions& sessions = opened.sessions;
  CHECK_FALSE(sessions.AnyCame());
  const uint64_t first = opened.Open("worker:0", "boot-1");
  CHECK(first == 101);
  CHECK(sessions.Of("worker:0") == first);
  CHECK_FALSE(sessions.BeginLife("worker:0", "boot-1"));
  CHECK_FALSE(sessions.Displaced("boot-1"));
  CHECK(sessions.BeginLife("worker:0", "boot-2"));
  CHECK(sessions.Displaced("boot-1"));
  REQUIRE(sessions.Close(first, "the same task joined again", true).has_value());
  CHECK_FALSE(sessions.Close(first, "again", true).has_value());
  CHECK(opened.effects.Take().size() == 1);
  CHECK(sessions.Open("worker:0", "cpu", 0)->id == 102);
}

TEST_CASE("a report counts once in a life, and again in the next") {
  Opened opened;
  Sessions& sessions = opened.sessions;
  const uint64_t id = opened.Open("worker:0", "boot-1");
  CHECK(sessions.IsNewReport(*sessions.Find(id), 1));
  CHECK_FALSE(sessions.IsNewReport(*sessions.Find(id), 1));
  CHECK(sessions.IsNewReport(*sessions.Find(id), 2));
  sessions.BeginLife("worker:0", "boot-2");
  CHECK(sessions.IsNewReport(*sessions.Find(id), 1));
}

TEST_CASE("the calls of a session are answered when it is over") {
  Opened opened;
  Sessions& sessions = opened.sessions;
  const uint64_t id = opened.Open("worker:0", "boot-1");
  sessions.TakeHold({7, id}, 10)->hold = 7;
  CHECK(sessions.HeardMs(id) == 10);
  sessions.Park(*sessions.Find(id), 8, 10);
  CHECK_FALSE(sessions.LoseHold({6, id}));  // an outdated hold
  sessions.Close(id, "it leaves", false);
  const std::vector<Effect> effects = opened.effects.Take();
  REQUIRE(effects.size() == 2);
  CHECK(std::get<AnswerHold>(effects[0]).reply->rejoin() == "it leaves");
  CHECK(std::get<AnswerWork>(effects[1]).reply.rejoin() == "it leaves");
  CHECK(sessions.TakeHold({9, id}, 20) == nullptr);
  CHECK(opened.effects.Take().size() == 1);
}

TEST_CASE("a parked worker gets what becomes free, or hears after a while why it waits") {
  Opened opened;
  Sessions& sessions = opened.sessions;
  const uint64_t lucky = opened.Open("worker:0", "boot-1");
  const uint64_t other = opened.Open("worker:1", "boot-1");
  sessions.Park(*sessions.Find(lucky), 1, 0);
  sessions.Park(*sessions.Find(other), 2, 0);
  const auto always = [] { return true; };
  const auto give = [&](WorkerSession& session, CallId) { return session.id == lucky; };
  const auto why = [](const WorkerSession&) {
    WorkReply reply;
    reply.set_wait("nothing is free");
    return reply;
  };
  sessions.ServeParked(999, always, give, why);
  CHECK_FALSE(sessions.Find(lucky)->parked.has_value());
  CHECK(sessions.Find(other)->parked.has_value());
  CHECK(opened.effects.Take().empty());
  sessions.ServeParked(1000, always, give, why);
  const std::vector<Effect> effects = opened.effects.Take();
  REQUIRE(effects.size() == 1);
  CHECK(std::get<AnswerWork>(effects[0]).reply.wait() == "nothing is free");
  CHECK_FALSE(sessions.Find(other)->parked.has_value());
}

TEST_CASE("a worker that fails in a row rests, unless nobody else is left") {
  Opened opened;
  Sessions& sessions = opened.sessions;
  WorkerSession& first = *sessions.Find(opened.Open("worker:0", "boot-1"));
  WorkerSession& second = *sessions.Find(opened.Open("worker:1", "boot-1"));
  sessions.Rest(first, 0, "failed");
  CHECK(first.backoff_until_ms > 0);
  sessions.Rest(second, 0, "failed");
  CHECK(first.backoff_until_ms == 0);
  CHECK(second.backoff_until_ms == 0);
}

TEST_CASE("nobody was silent while this coordinator did not run") {
  Opened opened;
  Sessions& sessions = opened.sessions;
  const uint64_t id = opened.Open("worker:0", "boot-1");
  CHECK(sessions.Silent(6000, 5000) == std::vector<uint64_t>{id});
  CHECK(sessions.BreaksAreDeaths(6000));
  sessions.Forgive(4000, 6000);
  CHECK(sessions.Silent(6000, 5000).empty());
  CHECK_FALSE(sessions.BreaksAreDeaths(6000));
  CHECK(sessions.BreaksAreDeaths(8000));
}

TEST_CASE("an end is told by calls that wait, and to the rest when they ask") {
  Opened opened;
  Sessions& sessions = opened.sessions;
  const uint64_t waits = opened.Open("worker:0", "boot-1");
  opened.Open("worker:1", "boot-1");
  CHECK(sessions.AllTold());  // every task of the cluster has a session
  sessions.Park(*sessions.Find(waits), 1, 0);
  sessions.TellAll({0, "the job is done"});
  CHECK(opened.effects.Take().size() == 1);
  CHECK_FALSE(sessions.AllTold());
  sessions.Told("worker:1");
  CHECK(sessions.AllTold());
  sessions.Asked("worker:9");
  CHECK_FALSE(sessions.AllTold());
  sessions.TellNobody();
  CHECK(sessions.AllTold());
}

}  // namespace
}  // namespace paracord
