// Where a node looks for a controller: time and outcomes are what the test says they are.
#include "controller/node_control/candidates.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <set>

using namespace square;
using namespace square::controller;

namespace {

const Status kRefused = unavailable(std::string("failed to connect: ") + std::strerror(ECONNREFUSED));
const Status kStanding = unavailable(kStandsBy);
const Status kSilence = cancelled("given up");

// Node "n1" of three, which brings the controller "one"; "zero" is the one that all have.
struct Asking {
  explicit Asking(std::uint32_t standing = 1, std::string node = "n1", std::string own = "one")
      : candidates(std::move(node), {"zero"},
                   Successor{std::move(own), standing, [this] { return waiting; }, {}}) {
    candidates.learn("n0", 0, "zero");
    candidates.learn("n1", 1, "one");
    candidates.learn("n2", 2, "two");
  }

  // Whom it dials: its own where that is to wake.
  const std::string& next() {
    const auto before = candidates.to_be_followed();
    if (!before) return candidates.next(now);
    ++woken;
    gone.clear();
    dead.clear();
    for (const LostController& one : *before) (one.is_dead ? dead : gone).push_back(one.node);
    return candidates.dial_own(now);
  }

  // Dials until the round is over: whom, in order. `zero` is what comes of it there.
  std::vector<std::string> round(const Status& zero) {
    std::vector<std::string> dialled;
    do {
      dialled.push_back(next());
      candidates.failed(dialled.back(), dialled.back() == "zero" ? zero : kStanding, now);
    } while (candidates.has_more());
    now += std::chrono::milliseconds(100);
    return dialled;
  }

  TimePoint now{std::chrono::hours(1)};
  std::size_t waiting = 0;
  int woken = 0;
  std::vector<std::string> gone;
  std::vector<std::string> dead;
  Candidates candidates;
};

}  // namespace

TEST_CASE("candidates: without successors there is one address") {
  Candidates candidates("n", {"zero"}, std::nullopt);
  const TimePoint now{std::chrono::hours(1)};
  for (int i = 0; i < 3; ++i) {
    CHECK(candidates.next(now + i * std::chrono::hours(1)) == "zero");
    CHECK_FALSE(candidates.has_more());
    candidates.failed("zero", kRefused, now + i * std::chrono::hours(1));
  }
}

TEST_CASE("candidates: where the controller's host refuses it twice the next one wakes") {
  Asking job;
  CHECK(job.round(kRefused) == std::vector<std::string>{"zero", "one", "two"});
  CHECK(job.round(kRefused) == std::vector<std::string>{"zero", "one", "two"});
  CHECK(job.woken == 0);
  job.waiting = 1;  // it alone is refused: something on its way may do that
  CHECK(job.round(kRefused) == std::vector<std::string>{"one", "two"});
  CHECK(job.woken == 0);
  job.waiting = 2;
  CHECK(job.next() == "one");
  CHECK(job.woken == 1);
  CHECK(job.gone == std::vector<std::string>{"n0"});
  job.candidates.welcomed("one");
  CHECK(job.candidates.current() == "one");
}

TEST_CASE("candidates: a controller is dead only where it is refused soon after it was lost") {
  struct Case {
    Duration after = kProofTime / 2;
    bool is_doubtful = false;
    bool was_stopped = false;
  };
  const auto is_dead = [](const Case& one) {
    Asking job;
    job.waiting = 2;
    job.candidates.lost(job.now, unavailable("it broke"), one.was_stopped);
    if (one.is_doubtful) job.candidates.doubt("n0");
    job.now += one.after;
    while (job.woken == 0) job.round(kRefused);
    CHECK(job.gone.size() + job.dead.size() == 1);
    return job.dead == std::vector<std::string>{"n0"};
  };
  CHECK(is_dead({}));
  CHECK_FALSE(is_dead({.after = kProofTime}));  // another may have followed it, and ended
  CHECK_FALSE(is_dead({.is_doubtful = true}));
  CHECK_FALSE(is_dead({.was_stopped = true}));
}

TEST_CASE("candidates: who does not come next waits for who does") {
  Asking job(2, "n2", "two");
  for (int i = 0; i < 100; ++i) job.round(kRefused);
  CHECK(job.woken == 0);
  // It is welcomed where another has woken.
  while (job.next() != "one") {
  }
  job.candidates.welcomed("one");
  CHECK(job.candidates.current() == "one");
}

TEST_CASE("candidates: a controller that answers again is not gone") {
  Asking job;
  job.round(kRefused);
  job.round(failed_precondition("no"));
  job.round(kRefused);
  job.next();
  CHECK(job.woken == 0);
}

TEST_CASE(
    "candidates: a controller that is silent is waited for, and then most of the nodes must have lost it") {
  Asking job;
  job.waiting = 1;  // this one
  job.candidates.lost(job.now, unavailable("it broke"));
  job.now += kSuccessionLease / 2;  // so long took the first attempt
  while (job.now < TimePoint(std::chrono::hours(1)) + kSuccessionLease) job.round(kSilence);
  // It comes last by now: it would hold up the others.
  CHECK(job.round(kSilence) == std::vector<std::string>{"one", "two", "zero"});
  CHECK(job.woken == 0);
  job.waiting = 2;
  CHECK(job.next() == "one");
  CHECK(job.woken == 1);
}

TEST_CASE("candidates: a controller that was silent is dialled once more before another wakes") {
  for (const bool goes_on : {true, false}) {
    Asking job;
    job.waiting = 2;
    job.candidates.lost(job.now, unavailable("it broke"));
    CHECK(job.next() == "zero");
    CHECK(job.candidates.patience() > kSuccessionLease);
    job.now += kSuccessionLease + std::chrono::seconds(5);
    job.candidates.failed("zero", kSilence, job.now);
    // That began before it was silent for long. It may go on just now.
    for (const std::string address : {"one", "two"}) {
      CHECK(job.next() == address);
      job.candidates.failed(address, kStanding, job.now);
    }
    while (job.next() != "zero") job.candidates.failed("one", kStanding, job.now);
    CHECK(job.woken == 0);
    CHECK(job.candidates.patience() == kLastLook);
    job.now += kLastLook;
    goes_on ? job.candidates.welcomed("zero") : job.candidates.failed("zero", kSilence, job.now);
    CHECK((job.next() == "one") == !goes_on);
    CHECK(job.woken == (goes_on ? 0 : 1));
  }
}

TEST_CASE("candidates: of those that are silent the controller before is dialled last") {
  Asking asking;
  asking.candidates.failed("zero", kSilence, asking.now);
  asking.candidates.failed("two", kSilence, asking.now);
  CHECK(asking.round(kSilence) == std::vector<std::string>{"one", "two", "zero"});
}

TEST_CASE("candidates: of many that were given up a few are dialled each round, in turn") {
  constexpr std::uint32_t kMany = 20;
  Asking job;
  for (std::uint32_t i = 3; i < kMany; ++i)
    job.candidates.learn("n" + std::to_string(i), i, "at " + std::to_string(i));
  job.candidates.lost(job.now, unavailable("it broke"));
  const auto round = [&] {
    const TimePoint begun = job.now;
    std::vector<std::string> dialled;
    do {
      dialled.push_back(job.next());
      job.now += kLastLook;
      job.candidates.failed(dialled.back(), dialled.back() == "one" ? kStanding : kSilence, job.now);
    } while (job.candidates.has_more());
    return std::pair(dialled, job.now - begun);
  };
  // Each has been silent for the lease, and been dialled once more.
  for (int i = 0; i < 3; ++i) round();
  std::set<std::string> dialled;
  for (std::uint32_t i = 0; i < kMany / kLookedAt; ++i) {
    const auto [addresses, took] = round();
    CHECK(took <= kWaitingTime / 2);
    CHECK(addresses.back() == "zero");
    dialled.insert(addresses.begin(), addresses.end());
  }
  CHECK(dialled.size() == kMany);
}

TEST_CASE("candidates: who has left is no candidate") {
  Asking job(2, "n2", "two");
  job.candidates.forget("n1");
  job.waiting = 1;
  job.round(kRefused);
  job.round(kRefused);
  CHECK(job.next() == "two");
  CHECK(job.woken == 1);
}

TEST_CASE("candidates: who is sent by one that hears too few looks at others, in turn, and comes back") {
  Asking job;
  for (std::uint32_t i = 3; i < 6; ++i)
    job.candidates.learn("n" + std::to_string(i), i, "at " + std::to_string(i));
  job.candidates.welcomed("zero");
  const auto look_around = [&] {
    job.candidates.lost(job.now, unavailable(kHearsTooFew));
    const std::vector<std::string> dialled = job.round(kSilence);
    CHECK(job.candidates.patience() == kMaxWait);  // of the one that it has
    job.candidates.welcomed("zero");
    return dialled;
  };
  CHECK(look_around() == std::vector<std::string>{"two", "at 3", "at 4", "zero"});
  CHECK(look_around() == std::vector<std::string>{"at 5", "two", "at 3", "zero"});
  job.candidates.lost(job.now, unavailable(kHearsTooFew));
  CHECK(job.next() == "at 4");
  CHECK(job.candidates.patience() == kFirstPatience);
  job.candidates.welcomed("at 4");
  CHECK(job.candidates.current() == "at 4");
}

TEST_CASE("candidates: of several that were given the one that was lost comes last, and none is given up") {
  Candidates candidates("n", {"a", "b", "c"}, std::nullopt);
  TimePoint now{std::chrono::hours(1)};
  const auto round = [&](const Status& outcome) {
    std::vector<std::string> dialled;
    do {
      dialled.push_back(candidates.next(now));
      candidates.failed(dialled.back(), outcome, now);
      now += 2 * kRefusalDistance;
    } while (candidates.has_more());
    return dialled;
  };
  for (int i = 0; i < 4; ++i) CHECK(round(kRefused) == std::vector<std::string>{"a", "b", "c"});
  candidates.welcomed("b");
  candidates.lost(now, unavailable("it broke"));
  for (int i = 0; i < 4; ++i) CHECK(round(kRefused) == std::vector<std::string>{"c", "a", "b"});
  CHECK(round(kSilence) == std::vector<std::string>{"c", "a", "b"});
  candidates.welcomed("c");
  CHECK(round(kStanding) == std::vector<std::string>{"c", "a", "b"});
}

TEST_CASE("candidates: one of several that says nothing is left soon, and later each time") {
  Candidates candidates("n", {"a", "b"}, std::nullopt);
  const TimePoint now{std::chrono::hours(1)};
  for (const int factor : {1, 2, 4, 8, 16, 32, 32}) {
    do {
      const std::string address = candidates.next(now);
      CHECK(candidates.patience() == factor * kFirstPatience);
      candidates.failed(address, kSilence, now);
    } while (candidates.has_more());
  }
  candidates.welcomed("a");
  CHECK(candidates.patience() == kFirstPatience);
  CHECK(Candidates("n", {"a"}, std::nullopt).patience() > std::chrono::hours(1));
}

TEST_CASE("candidates: a list of addresses is checked") {
  const auto addresses = usual_addresses("h:1,[::1]:2");
  REQUIRE(addresses.is_ok());
  CHECK(*addresses == std::vector<std::string>{"h:1", "[::1]:2"});
  for (const char* wrong : {"", ",", "h:1,,h:2", "h", "h:1,h"}) CHECK_FALSE(usual_addresses(wrong).is_ok());
}
