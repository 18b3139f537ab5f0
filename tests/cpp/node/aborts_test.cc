// Aborts are remembered, passed on once, and repeated to who was away.
#include "node/aborts/aborts.h"

#include <doctest/doctest.h>

#include "node/messages/answers.h"
#include "node/parts.h"

using namespace square;
using namespace square::test;

namespace {

// n0 feeds n1, n1 feeds n2 and n3; a second tree goes through them the other way.
std::shared_ptr<const InstalledCollective> cross(const Alone& alone) {
  PlanBuilder builder(4);
  builder.add_broadcast(0, {0, 1, 2, 3}, {{{{0, 1}, {1, 2}, {1, 3}}, 1e6}, {{{0, 2}, {2, 1}, {1, 3}}, 1e6}});
  return alone.install_one(builder.build());
}

struct Told {
  std::vector<std::string> peers;
  std::vector<Frame> frames;
  [[nodiscard]] Aborts::Ways ways() {
    const auto note = [this](const std::string& way) {
      return [this, way](const std::string& peer, Frame frame) {
        peers.push_back(way + peer);
        frames.push_back(std::move(frame));
      };
    };
    return {note("up to "), note("down to ")};
  }
};

const Abort kAbort{SessionId(0), OperationId(4), 0, unavailable("a link died")};

}  // namespace

TEST_CASE("an abort goes to each neighbour of its session once, but not back") {
  const Alone alone("n1");
  const auto plan = cross(alone);
  Told told;
  Aborts aborts("n1", told.ways());
  aborts.pass_on(*plan, kAbort, "n0");
  CHECK(told.peers == std::vector<std::string>{"down to n2", "down to n3"});
  CHECK(told.frames[0].header.operation == OperationId(4));
  CHECK(told.frames[0].header.stream == StreamIndex(0));
  CHECK(decode_abort(told.frames[0].payload)->message() == "a link died");
  aborts.pass_on(*plan, kAbort);
  CHECK(std::vector(told.peers.begin() + 2, told.peers.end()) ==
        std::vector<std::string>{"up to n0", "down to n2", "down to n3"});
}

TEST_CASE("an abort is news once, as long as it is remembered, and all sessions that end are news") {
  Aborts aborts("n1", {});
  CHECK(aborts.remember(kAbort));
  CHECK_FALSE(aborts.remember(kAbort));
  const Abort one = aborts.end_session(SessionId(0), kAbort.cause);
  const Abort two = aborts.end_session(SessionId(0), kAbort.cause);
  CHECK(one.operation == kEveryOperation);
  CHECK(one.number != two.number);
  CHECK_FALSE(aborts.remember(one));
  for (std::uint64_t i = 0; i < kMaxRememberedAborts; ++i) {
    CHECK(aborts.remember({SessionId(1), OperationId(i), 0, kAbort.cause}));
  }
  CHECK(aborts.remember(kAbort));
}

TEST_CASE("a neighbour that comes up hears the last aborts again, but not of what ran when a link died") {
  const Alone alone("n1");
  const auto ways_of = [way = cross(alone)](SessionId) { return std::vector{way}; };
  Told told;
  Aborts aborts("n1", told.ways());
  static_cast<void>(aborts.remember(kAbort));
  static_cast<void>(aborts.end_session(SessionId(0), kAbort.cause));
  aborts.repeat(ways_of, "n2");
  CHECK(told.peers == std::vector<std::string>{"down to n2"});
  for (std::uint64_t i = 0; i < 2 * kRepeatedAborts; ++i)
    static_cast<void>(aborts.remember({SessionId(0), OperationId(10 + i), 0, kAbort.cause}));
  told.peers.clear();
  aborts.repeat(ways_of, "n2");
  CHECK(told.peers.size() == kRepeatedAborts);
}
